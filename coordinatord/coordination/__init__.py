"""The coordinators of groups and of transactional ids: pure state machines and the runtime that drives them.

group/         pure functions that make every decision about a group; start at `group/__init__.py`
transactions/  a pure state machine for transactional ids, its shell, its APIs
service/       the group coordinator (Kafka's GroupCoordinatorService): actors of groups, the APIs of the group family
runtime/       code that both coordinators share: actors, loading, the durability gate

Guarantees: a response is sent after all records that its actor has written before it are durable; the state after a
restart equals the durable state before it. The package accesses the log only through `runtime/log.py`, and does not
depend on processes, setting files or commands.
"""

"""The coordinators: groups and transactional ids, as pure state machines and the runtime that drives them.

group/         pure: every decision of a group; start at `group/__init__.py`
transactions/  a pure state machine for transactional ids, its shell, its APIs
service/       the group coordinator (Kafka's GroupCoordinatorService): actors of groups, the APIs of the group family
runtime/       what both coordinators share: actors, loading, the durability gate

Promises: a response leaves when everything that its actor wrote before it is durable; state after a restart is the
state before it. Knows the log by `runtime/log.py` alone, and no process, setting file or command.
"""

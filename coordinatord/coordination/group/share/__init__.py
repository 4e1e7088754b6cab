"""Share groups (KIP-932): membership and the partitions of each member.

step.py        the entry point for all events of share groups; step_on_demand.py imports it when the first one comes
events.py      the events that only share groups have
state.py       a group: members, target assignment, epochs, and the partitions that have state
records.py     conversion of a group to its records
replay.py      the only functions that write durable state
heartbeat.py   ShareGroupHeartbeat: joining, leaving, fencing
assigning.py   the target assignment, and a member's step to it
simple.py      Kafka's assignor
partitions.py  creation and deletion of the state of share partitions
offsets.py     start offsets, set and deleted by admin tools
describe.py    ShareGroupDescribe

Sessions, topics and their hashes, the order of Java's hash tables
and the input of assignors are those of consumer/. The state of share partitions is in coordination/share/.
"""

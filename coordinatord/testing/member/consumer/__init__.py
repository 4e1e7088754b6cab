"""Consumer side of the consumer protocol (KIP-848): Kafka's ConsumerMembershipManager and its heartbeats.

state.py        states and their transitions; the state of a membership
membership.py   joining, leaving, being fenced
heartbeats.py   ConsumerGroupHeartbeat: schedule, content, handling of the response
reconciling.py  from the partitions that the member owns to those of its target assignment

Commits, positions, records and metadata are those of the classic consumer: the modules beside this package.
"""

"""The consumer's half of the consumer protocol (KIP-848): Kafka's ConsumerMembershipManager and its heartbeats.

state.py        states and their transitions; what a member knows of its membership
membership.py   joining, leaving, being fenced
heartbeats.py   ConsumerGroupHeartbeat: when, what it says, what its response means
reconciling.py  from the partitions that the member owns to those that it is to own

Commits, positions, records and metadata are those of the classic consumer: the modules beside this package.
"""

"""Share groups (KIP-932): the records that a group has in delivery, and the storage of their state.

partition/          pure: one share partition, as the leader of the partition keeps it
sessions.py         pure: share sessions
leader.py           the share partitions that this node leads: the shell around the two
dead_letters.py     the queue of dead letters (KIP-1191); letter_records.py has what they contain
redeliveries.py     the ledger of records that are delivered again, and why
members.py          the end of a session, by a request or with its connection
persister.py        the interface between share partitions and the store of their state (Kafka's Persister)
state_persister.py  the persister of a node: its own share coordinator, and those of other nodes
state_requests.py   the requests to share coordinators of other nodes
coordinator/        the share coordinator: the store in `__share_group_state`
apis/               the requests of the family
"""

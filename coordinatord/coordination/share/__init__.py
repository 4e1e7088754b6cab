"""Share groups (KIP-932): the state of share partitions, and its storage.

persister.py        the interface between share partitions and the store of their state (Kafka's Persister)
local_persister.py  the persister of a process that is its own share coordinator
coordinator/        the share coordinator: the store in `__share_group_state`
apis/               the requests of the family
"""

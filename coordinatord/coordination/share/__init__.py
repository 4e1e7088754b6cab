"""Share groups (KIP-932): the records that a group has in delivery, and the storage of their state.

partition/     pure: one share partition, as the leader of the partition keeps it
persister.py   the interface between share partitions and the store of their state (Kafka's Persister)
"""

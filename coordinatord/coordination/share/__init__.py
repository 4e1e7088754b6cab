"""Share groups (KIP-932): the state of share partitions, and its storage.

persister.py   the interface between share partitions and the store of their state (Kafka's Persister)
"""

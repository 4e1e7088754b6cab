"""Share groups (KIP-932): membership and the partitions of each member.

simple.py              Kafka's assignor
"""

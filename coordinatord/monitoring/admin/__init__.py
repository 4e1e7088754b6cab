"""What an operator asks of a Kafka cluster, ours or any other: its groups, topics and offsets.

connection.py     a cluster through kafka-python's connections (TLS, SASL), asked with the messages of kafka_wire
client_config.py  Kafka's names of a client's properties (--command-config), as kafka-python's settings
groups.py         list, describe and delete groups, and remove a member
topics.py         list, describe, create and delete topics
offsets.py        committed offsets, the bounds of partitions, offsets at a time
reset.py          pure: where --to-earliest, --shift-by, --from-file … move a group, as Kafka's tool decides it
committed_at.py   what a group had committed at a moment, from the offsets log
"""

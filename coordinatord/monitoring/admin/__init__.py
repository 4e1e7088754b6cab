"""Operations on the groups, topics and offsets of any Kafka cluster, for an operator.

connection.py     a cluster through kafka-python's connections (TLS, SASL), with the messages of kafka_wire
client_config.py  Kafka's names of a client's properties (--command-config), as kafka-python's settings
groups.py         list, describe and delete groups, and remove a member
topics.py         list, describe, create and delete topics
offsets.py        committed offsets, the bounds of partitions, offsets at a time
reset.py          pure: the target offsets of --to-earliest, --shift-by, --from-file …, as Kafka's tool computes them
committed_at.py   a group's committed offsets at a past moment, from the offsets log
"""

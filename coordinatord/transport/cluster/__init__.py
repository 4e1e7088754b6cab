"""The nodes of a cluster: partition leaders, and requests between nodes.

nodes.py             each partition's leader, and the nodes' addresses for clients
partitioner.py       the partition of a coordinators' topic that an id belongs to
partition_slots.py   nodes of several machines: the node that currently leads each share of the partitions
peers.py             requests from one node to another
moved_partitions.py  partitions that tests have moved to another worker
shared.py            memory and a lock shared by the workers of one machine
"""

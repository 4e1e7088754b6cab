"""The group coordinator (Kafka's GroupCoordinatorService): groups by id, their steps, and the application of results.

groups.py           a group's actor, and all actors of this node
consumer_limits.py  the settings of consumer groups
topics_image.py     the topics as consumer groups see them
partition_load.py   restores groups from one partition of `__consumer_offsets`
ledger.py           the rebalance ledger; epoch_ledger.py: its records of consumer groups' epochs
ledger_writer.py    writes the rebalance ledger's records to their topic
random_ids.py       the random part of member ids
apis/               the requests of the group family
"""

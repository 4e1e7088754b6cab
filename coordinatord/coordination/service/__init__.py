"""The group coordinator: groups by id, their steps, and how the results are applied.

groups.py           a group's actor, and all actors of this node
consumer_limits.py  the settings of consumer groups
partition_load.py   restores groups from one partition of `__consumer_offsets`
ledger_writer.py    writes the rebalance ledger's records to their topic
random_ids.py       the random part of member ids
apis/               the requests of the group family
"""

"""The group coordinator: groups by id, their steps, and what becomes of their results.

groups.py          a group's actor, and all actors of this node
partition_load.py  one partition of `__consumer_offsets` becomes groups again
ledger_writer.py   the rebalance ledger's records, into their topic
random_ids.py      the random part of member ids
apis/              the requests of the group family
"""

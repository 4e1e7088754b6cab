"""What the tables say of a group, as plain functions of plain rows: without Spark, so that a person can try them and
the quick tests can test them. The tables (`pipeline/tables`) apply them to each group.

generations.py        a classic group's generations and commits, as values made from rows
rebalances.py         what happened between two generations, and what made it happen
consumer_group.py     a group of the consumer protocol (KIP-848), as its records tell it
epochs.py             its epochs: what changed when one began, and when all had followed it
epoch_rebalances.py   what made its epoch rise, and what came of it
members.py            the lives of a group's members, and what they add up to
curve.py              how old the oldest record is that a group has not read
lag.py                how far one group is behind in one partition
status.py             what is the matter with a group in a partition
burrow.py             the same by Burrow's rules
changes.py            what changes while one watches: stuck, a storm, offsets about to be forgotten
load.py               how fast a coordinator reads a partition of the offsets log
"""

"""Rules of the tables about groups: plain functions of plain rows, without Spark, so that they can be called by hand
and tested quickly. The tables (`pipeline/tables`) apply them to each group.

generations.py       a classic group's generations and commits, as values made from rows
rebalances.py        the changes between two generations, and their cause
consumer_group.py    a group of the consumer protocol (KIP-848), rebuilt from its records
group_epochs.py      the epochs of such a group: the changes of each one, and when all members had reached it
epoch_rebalances.py  the cause and the outcome of each epoch
members.py           the lives of a group's members, and patterns among them
offset_timeline.py   the age of the oldest record that a group has not read
lag.py               the lag of one group in one partition
commit_window.py     a summary of a group's commits for a partition, in bounded memory
expiry.py            when committed offsets expire
status.py            a group's status in a partition
advice.py            the meaning of each status, and the recommended action, in one line of text
current_lag.py       the current state of a group in one partition: a row of the tables lag and status
groups.py            the current state of a group: a row of the table group_status
burrow.py            a group's status by Burrow's rules
history.py           rebalances and members of a group while its log grows, in bounded memory
severity.py          the groups that need an operator
changes.py           changes while the log is followed: stuck, a storm, offsets about to expire
share_state.py       the state of share partitions, and their records that are delivered again and again
load.py              the rate at which a coordinator loads a partition of the offsets log
"""

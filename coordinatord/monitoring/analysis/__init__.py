"""What the tables say of a group: plain functions of plain rows, without Spark, so that they can be called by hand and
tested quickly. The tables (`pipeline/tables`) apply them to each group.

generations.py       a classic group's generations and commits, as values made from rows
rebalances.py        what happened between two generations, and its cause
consumer_group.py    a group of the consumer protocol (KIP-848), rebuilt from its records
group_epochs.py      its epochs: what changed at each one, and when all members had reached it
epoch_rebalances.py  the cause and the outcome of each epoch
members.py           the lives of a group's members, and patterns among them
offset_timeline.py   the age of the oldest record that a group has not read
lag.py               how far one group is behind in one partition
commit_window.py     what the rules need of a group's commits for a partition, in bounded memory
status.py            a group's status in a partition
advice.py            what each status means, and what to do, in a line for people
current_lag.py       how one group stands in one partition now: a row of the tables lag and status
groups.py            how a group stands now: a row of the table group_status
burrow.py            the same by Burrow's rules
history.py           rebalances and members of a group while its log grows, in bounded memory
severity.py          which groups need somebody
changes.py           changes while the log is followed: stuck, a storm, offsets about to expire
load.py              how fast a coordinator loads a partition of the offsets log
"""

"""The input: a log in directories, at a broker or in a database.

arrow.py                  rows of one kind as Arrow record batches, without Spark
options.py                the options of `consumer_offsets`, parsed from Spark's strings
shapes.py                 conversion of record batches of kinds to the one schema that a reader promised
segments.py               a directory: its logs, and the positions of their batches
ranges.py                 ranges of a log: planned, and read even if the files change meanwhile
tail.py                   the ends of logs in directories, and the limits of one micro-batch
broker.py                 ends and ranges of a log at a broker: raw batches by Fetch
store.py                  coordinatord's log in PostgreSQL: connections, and the content of its tables
store_log.py              ends and ranges of a log in PostgreSQL
logs.py                   selection of one of the three by the options
unreadable_partitions.py  partitions that cannot be read at present, or not by this user
shared_connections.py     connections that the parts of one command share
connecting.py             connections to a broker, and their errors in one sentence
cluster.py                one connection to a cluster: the offsets log as it grows, and the ends of partitions
end_offsets.py            the ends of topics' partitions, with earlier ends
markers.py                the readable content before a partition's end: markers, aborted records, open transactions
tails.py                  the content before partitions' ends from a broker; also earlier ends, and retention.ms
topic_names.py            topic names by id
topic_records.py          all records of a small internal topic
ledger_topic.py           `__rebalances`, in which coordinatord logs why groups rebalanced
share_state_topic.py      `__share_group_state`, the state of share partitions
"""

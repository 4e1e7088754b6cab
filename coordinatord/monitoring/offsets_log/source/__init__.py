"""The input: a log in directories, at a broker or in a database.

arrow.py                  rows of one kind as Arrow record batches, without Spark
options.py                the options of `consumer_offsets`, parsed from Spark's strings
shapes.py                 from record batches of kinds to the one schema that a reader promised
segments.py               a directory: its logs, and where their batches begin
ranges.py                 ranges of a log: planned, and read even if the files change meanwhile
tail.py                   the ends of logs in directories, and how far one micro-batch goes
broker.py                 the same for a broker: raw batches by Fetch
store.py                  coordinatord's log in PostgreSQL: connections, and what its tables say
store_log.py              the same as tail.py and ranges.py for it
logs.py                   whichever of the three the options name
unreadable_partitions.py  partitions that cannot be read now, or not by this user
shared_connections.py     connections that the parts of one command share
connecting.py             connections to a broker, and their errors in one sentence
cluster.py                one connection to a cluster: the offsets log as it grows, and where partitions end
end_offsets.py            where topics' partitions end, and since when
markers.py                what of a partition's end can be read: markers, aborted records, open transactions
tails.py                  the same from a broker; and earlier ends, and retention.ms
topic_names.py            topic names by id
ledger_topic.py           `__rebalances`, in which coordinatord logs why groups rebalanced
"""

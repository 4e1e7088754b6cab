"""Where bytes come from: a log in directories or at a broker, and Spark's data sources over it.

frames.py             DataFrames of each kind: the way in for who builds a table
consumer_offsets.py   Spark's side of the data source `consumer_offsets`, batch and streaming
partition_ends.py     Spark's side of the data source `partition_ends`
options.py            the options of `consumer_offsets`, read from the strings that Spark hands over
shapes.py             record batches of kinds to the one schema that a reader promised
segments.py           a directory: which logs are there, and where their batches begin
ranges.py             ranges of a log: planned, and read whatever has happened to the files meanwhile
tail.py               where logs in directories end, and how far one micro-batch goes
broker.py             the same of a broker: raw batches by Fetch
connecting.py         connections to a broker, and what is wrong with them in one sentence
end_offsets.py        where topics' partitions end, and since when
topic_names.py        topics by their ids
ledger_topic.py       `__rebalances`, in which our daemon says why groups rebalanced
java.py               is there a Java that Spark can run on?
"""

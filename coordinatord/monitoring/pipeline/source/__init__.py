"""Spark's data sources over the offsets log.

frames.py            DataFrames of each kind: the entry point for building tables
consumer_offsets.py  the data source `consumer_offsets`, batch and streaming
partition_ends.py    samples of the ends of partitions
shipping.py          this package on the executors of a cluster
java.py              checks for a Java that Spark can run on
"""

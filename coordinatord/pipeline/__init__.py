"""The pipeline: `__consumer_offsets`, of any cluster, as typed tables in Spark.

It imports `protocol`, Arrow, numpy and Spark, and nothing of the daemon. From bytes to frames: `kernels` (loops over
bytes), `chunk` (bytes to Arrow), `segments` (a directory to ranges of bytes), `source` (Spark's reader). README.md has
the options and every column.
"""

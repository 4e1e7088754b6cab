"""A reader of `__consumer_offsets`, of any cluster, without Spark.

lag/     the current lag of groups: `coordinatord lag`, the exporter
source/  the input: directories of segments, a broker, PostgreSQL
decode/  bytes to Arrow columns
"""

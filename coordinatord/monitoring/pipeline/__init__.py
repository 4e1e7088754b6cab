"""`__consumer_offsets` of any cluster as typed tables in Spark.

This package imports `offsets_log`, `analysis`, Arrow, numpy and Spark, and nothing of the daemon. README.md describes
the options and columns of the data source, TABLES.md the tables. A folder imports only from those below it
(pyproject.toml):

report/  a run's tables as one HTML file for humans
run/     the commands: from the log to tables, once or as the log grows, and a group's state at a moment
tables/  the contents of each table, and how Spark builds them
source/  Spark's data sources over the offsets log

registered/  has the module by which Spark finds the data source `consumer_offsets`; the wheel puts it at the top level.
"""

"""The pipeline: `__consumer_offsets`, of any cluster, as typed tables in Spark.

It imports `kafka_wire`, Arrow, numpy and Spark, and nothing of the daemon. README.md has the options and every column
of the data source, TABLES.md the tables. A room imports what is below it, and nothing above (pyproject.toml):

report/     a run's tables as one HTML file for people
run/        the commands: from the log to tables, once or as the log grows, and what a group was at a moment
tables/     what each table says, and how Spark makes it
source/     where bytes come from: directories of segments, brokers; Spark's data sources over them
decode/     bytes to Arrow columns, without Spark
analysis/   what rows of a group mean, as plain Python

registered/ has the module by which Spark finds the data source `consumer_offsets`; the wheel puts it at the top.
"""

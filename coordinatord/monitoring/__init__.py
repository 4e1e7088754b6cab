"""Groups of any Kafka cluster as seen from outside: lag, causes of rebalances, reports. Needs no daemon.

analysis/     the rules, in plain Python: status of a group, lag, causes, advice
offsets_log/  reads `__consumer_offsets` from directories, a broker or PostgreSQL, without Spark
pipeline/     the same log as tables in Spark, and the report
dashboard/    groups at a moment: series for Prometheus, the live page
exporter/     `coordinatord exporter`
admin/        groups, topics and offsets, for the command line

Promises: one function decides each verdict, for every output. Imports `base`, `transport.cluster.placement` and
`kafka_wire`; no module of the server.
"""

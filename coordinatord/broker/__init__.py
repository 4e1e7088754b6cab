"""A broker with one replica: logs on disk, topics, records of the cluster.

log/       segments in Kafka's format, group commit, recovery, cleaning, repair: `DataDirectory`, `LogWriter`
topics/    metadata, Produce, Fetch, ListOffsets, topic settings: `Topics`
metadata/  SCRAM credentials, quotas and ACLs as records, as Kafka's controllers keep them

Guarantees: data that a callback reports as durable survives a power failure; after the first failed write nothing more
becomes durable (fail-stop). Does not depend on groups and transactions, except through the interfaces in
`topics/partition_verification.py`.
"""

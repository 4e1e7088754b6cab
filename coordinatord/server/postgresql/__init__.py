"""The log on PostgreSQL: `storage=postgresql://…`. docs/postgresql.md tells operators about it.

One node leads, or several lead a share of the partitions each: a *seat* (lease.py).

A node's directory is a *working copy*: everything above the store reads and writes segments as ever, but a record
counts once its batch is a committed row. A start takes the lead, discards the old copy and makes one from the rows.

schema.py                tables and functions, their version, migrations
database.py              connections; which errors mean that the database is away; what to warn of
store.py                 the operations: take the lead, renew, append, replace, remove, keep a file
contract.py              what the operations promise, for the store and its model in the tests
store_flusher.py         in the flusher's place: an epoch is committed, then written to the copy
copy_disk.py             the copy's disk: the small files and compacted segments go to the store first
working_copy.py          makes the copy, or brings it up to date
standby_copy.py          a node that waits makes its copy ahead
lease.py                 how long this node may answer
standby_listener.py      a node that waits listens, and tells clients who leads
not_leader_responses.py  what it answers to all other requests
registry.py              the nodes that run, the moves of the lead
sharing.py               what several leading nodes share: the catalogue of topics, producer ids, who has which seat
leading.py               one of several leading nodes follows the others
lease_guard.py           before the router: refuses what a node without its lease or its database cannot answer
node.py                  puts these together for the daemon
transfer.py              data directories from the database, and into it
status.py                who leads, how large the log is
"""

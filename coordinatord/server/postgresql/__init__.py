"""The log on PostgreSQL: `storage=postgresql://…`. docs/postgresql.md describes it for operators.

One node leads, or several lead a share of the partitions each: a *seat* (lease.py).

A node's directory is a *working copy*: everything above the store reads and writes segments as with a directory, but a
record counts once its batch is a committed row. A node that starts takes the lead, discards the old copy and makes a
new one from the rows.

schema.py                tables and functions, their version, migrations
database.py              connections; the errors that mean that the database is unreachable; warnings about its settings
store.py                 the operations: take the lead, renew, append, replace, remove, keep a file
contract.py              the guarantees of the operations, for the store and its model in the tests
store_flusher.py         the flusher: commits an epoch, then writes it to the copy
copy_disk.py             the copy's disk: sends small files and compacted segments to the store first
working_copy.py          makes the copy, or brings it up to date
standby_copy.py          makes the copy of a standby node ahead of its lead
lease.py                 the time until which this node may respond
standby_listener.py      the listeners of a standby node, which name the leading node to clients
not_leader_responses.py  the error responses of a standby node to all other requests
registry.py              the running nodes, and the history of the lead
sharing.py               state that several leading nodes share: the catalogue of topics, producer ids, the leader of
                         each seat
leading.py               one of several leading nodes follows the others
lease_guard.py           rejects, before the router, requests that a node without its lease or its database cannot serve
serving_node.py          the interface of the daemon that these use
node.py                  assembles these for the daemon
transfer.py              data directories from the database, and into it
status.py                the leading nodes, the size of the log
"""

"""Several processes on one machine that share the work: `--workers N`. To clients each is a node of a cluster.

    supervisor.py    binds the ports, recovers the data, forks the workers, restarts workers that die
    peer_sockets.py  the Unix sockets for requests between workers

transport/cluster/nodes.py decides each partition's leader; server/daemon/worker.py defines the configuration that a
worker gets from its supervisor, and the worker's messages to the supervisor.

**The data directory** is shared, in Kafka's layout. The supervisor holds its lock; the workers inherit the lock, so it
is held as long as any of them lives. Before it forks, the supervisor recovers all data, whichever and however many
processes wrote it, and gives each worker its share of the checkpoints (`recovery-point-offset-checkpoint.worker-1`,
`log-start-offset-checkpoint.worker-1`). A worker writes only its own partitions, journals (`journal-worker-1-…`) and
checkpoints; after its death, its successor recovers just those. When all workers have stopped cleanly, the supervisor
merges the checkpoints and marks the directory clean: the result is the same as from a single process.

**The catalogue** (`topics.json`) is shared by all workers. A worker that changes it holds a lock, rereads the file,
decides, and replaces the file; so every node can create and delete topics, as with Kafka's brokers, without a request
to another node. The supervisor notifies the other workers; they also reread the file on requests for metadata and for
unknown topics. A deletion stays in the file until every worker has removed its share of the topic; a worker that was
down does so after its restart. Producer ids are reserved in blocks under the same lock.

**Ports.** The supervisor binds all sockets and keeps them. While a worker is down, new connections to it wait in the
kernel's queue, and its successor serves them a moment later; so clients need no notice that it was down, and its
groups' members continue in their generation.

**Transactions.** A transaction's coordinator may be on one node, its partitions and group on other nodes. Nodes send
each other the same requests as Kafka's brokers: AddPartitionsToTxn (is the partition part of the transaction?) and
WriteTxnMarkers, over a Unix socket of each worker, and retry until they succeed.

**Share groups.** The worker that leads a topic partition delivers its records. The state of a share partition is with
the leader of its key's partition of `__share_group_state`: workers send each other the requests of Kafka's brokers for
it (coordination/share/state_persister.py). The leader epoch of a partition stays when its worker dies, as nothing is
lost: a dead worker sends nothing, and what it had sent is read before the first request of its successor, which first
has to start. So a late write cannot follow the successor's read.

**Moves.** A test may move the coordinator of a group to another worker (server/control/partition_move.py,
`test.control.enable`): one partition of `__consumer_offsets`, and with it that of `__rebalances`, goes from one process
to another while both run (broker/log/partition_transfer.py). Without such tests every partition stays at the worker
that its number determines.

Limits (max.connections, max.groups and the like) apply per worker.
"""

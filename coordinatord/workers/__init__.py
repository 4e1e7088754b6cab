"""Several processes of one machine that share the work: `--workers N`. For clients each is a node of a cluster.

    supervisor.py   binds the ports, recovers the data, forks the workers, starts those again that die
    rendezvous.py   the Unix sockets on which workers meet

Which node leads what is in cluster/nodes.py; what a worker is given, and what it says to its supervisor, in
daemon/worker.py.

**The data directory** is one, in Kafka's layout. The supervisor holds its lock; the workers inherit that, so that it is
held as long as one of them lives. Before it forks, the supervisor recovers everything, whoever wrote it and however
many they were, and hands each worker its share of the checkpoints (`recovery-point-offset-checkpoint.worker-1`,
`log-start-offset-checkpoint.worker-1`). A worker writes its own partitions, its own journals (`journal-worker-1-…`) and
its own checkpoints, and nothing else; after it has died, its successor recovers just those. When all have stopped in
order, the supervisor puts the checkpoints together again and marks the directory clean: what is left then is what one
process leaves.

**The catalogue** (`topics.json`) is everybody's. Who changes it holds a lock, reads it anew, decides, and replaces it;
so every node can create and delete topics, as with Kafka's brokers, and none has to be asked. Others are told by way of
the supervisor, and look by themselves when they are asked for metadata or for a topic that they do not know. A deletion
stays in the file until every worker has removed its part; one that was dead meanwhile does it when it comes back.
Producer ids are reserved in blocks under the same lock.

**Ports.** The supervisor binds all sockets and keeps them. While a worker is down, those who connect to it wait in the
kernel's queue, and are served by its successor a moment later; so nobody has to be told that it was down, and its
groups' members go on in their generation.

**Transactions.** A transaction's coordinator may be on one node, the partitions and the group that take part on others.
Nodes ask each other what Kafka's brokers do, in Kafka's words: AddPartitionsToTxn (does the partition take part?) and
WriteTxnMarkers, on a Unix socket of each worker, and again until it has worked.

Limits (max.connections, max.groups and the like) count in each worker.
"""

"""Taking over from a Kafka broker, and handing over to one: data directories, while neither side runs.

Partitions' directories are the same on both sides, byte for byte. What differs is where it is written down which topics
there are: here in `topics.json`, with Kafka in KRaft's log (`kafka_metadata`). `importing` reads that and writes ours;
`exporting` puts what we have into the `bootstrap.checkpoint` of a freshly formatted broker, with our topic ids, so that
offsets which were committed with a topic's id (KIP-848) keep their meaning. The source is only ever read.
"""

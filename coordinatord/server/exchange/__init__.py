"""Converts data directories from and to a Kafka broker, while neither side runs.

Partition directories are identical on both sides, byte for byte. The list of topics is stored differently: here in
`topics.json`, in Kafka in KRaft's log (`kafka_metadata`). `importing` reads KRaft's log and writes `topics.json`;
`exporting` writes our topics into the first records of a freshly formatted broker, with our topic ids, so that
offsets that were committed with a topic id (KIP-848) stay valid. The source is never written.
"""

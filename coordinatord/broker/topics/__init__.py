"""Topics of the embedded broker, with one replica: the subset of a broker that real producers and consumers need.

    topics.py                  Topics: the shell's entry point, and the lookups of the group coordinator
    catalogue.py               the existing topics; names.py, config_table.py, configs.py: valid names and settings
    partition.py               one partition: log, settings, producers, waiting fetches
    produce.py                 Produce; producers.py (pure), snapshots.py, producer_ids.py
    partition_verification.py  requests of Produce to the coordinators of transactions
    markers.py                 other transactional appends (markers, offsets); aborted.py: the index of aborted
                               transactions
    fetch.py                   Fetch, long polls; fetch_sessions.py (pure)
    offsets.py                 ListOffsets, OffsetForLeaderEpoch
    describe.py                Metadata, DescribeCluster, DescribeTopicPartitions
    replicas.py                DescribeLogDirs, ElectLeaders, ListPartitionReassignments
    admin.py                   CreateTopics, DeleteTopics, CreatePartitions
    delete_records.py          DeleteRecords
    config_apis.py             DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources

Everything runs on the event loop's thread but does not depend on an event loop: time, timers and randomness are passed
in, and `context.answer_at(epoch, …)` delays a response until the flush epoch that the response depends on is durable.
"""

from coordinatord.broker.topics.names import OFFSETS_TOPIC
from coordinatord.broker.topics.topics import Topics

__all__ = ["OFFSETS_TOPIC", "Topics"]

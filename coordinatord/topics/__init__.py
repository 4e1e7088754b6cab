"""The embedded topics: just enough of a broker, with one replica, for real producers and consumers.

    topics.py           Topics: what the shell holds, and the look-ups of the group coordinator
    catalogue.py        which topics there are; names.py, config_table.py, configs.py: what they may be
    partition.py        one partition: log, settings, producers, waiting readers
    produce.py          Produce; producers.py (pure), snapshots.py, producer_ids.py
    markers.py          what transactions append beside that; aborted.py: the index of aborted ones
    topic_log.py        a topic as the log of the coordinator that lives in it
    fetch.py            Fetch, long polls; fetch_sessions.py (pure)
    offsets.py          ListOffsets, OffsetForLeaderEpoch
    describe.py         Metadata, DescribeCluster, DescribeTopicPartitions
    replicas.py         DescribeLogDirs, ElectLeaders, ListPartitionReassignments
    admin.py            CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords
    config_apis.py      DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources

Everything runs on the event loop's thread and knows no event loop: time, timers and randomness are handed in, and
what a response has to wait for is said with `context.answer_at(epoch, …)`.
"""

from coordinatord.topics.names import OFFSETS_TOPIC
from coordinatord.topics.topics import Topics

__all__ = ["OFFSETS_TOPIC", "Topics"]

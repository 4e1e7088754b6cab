"""Produce requests that name a partition more than once, as Kafka answers them (KafkaApis.handleProduceRequest).

Kafka keeps the batches of a request in a map by partition: the last batch of a partition alone is appended, and a
partition has one answer. A batch that is refused before anything is appended is not in that map; its error is the
answer of the partition, even where another batch is written.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinatord.broker.topics.produce_checks import Checked
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.records.produced import Rejected

Where = tuple[str, bytes, int]
"""Name or id of a topic, whichever the version has, and the partition."""


def repeats(request: ProduceRequest) -> bool:
    """Whether a partition occurs more than once."""
    topics = request.topic_data
    if len(topics) == 1 and len(topics[0].partition_data) == 1:
        return False
    every = [(topic.name, topic.topic_id, data.index) for topic in topics for data in topic.partition_data]
    return len(set(every)) < len(every)


def last_batches(
    request: ProduceRequest, checks: Mapping[int, Checked]
) -> tuple[ProduceRequest, dict[Where, Rejected]]:
    """The request with the batches that count, and the errors that are answers whatever becomes of these batches.

    Args:
        request: a request in which partitions occur more than once.
        checks: the checked records, by the identity of their `PartitionProduceData`.
    """
    topics: dict[tuple[str, bytes], dict[int, PartitionProduceData]] = {}
    refused: dict[Where, Rejected] = {}
    for topic in request.topic_data:
        last = topics.setdefault((topic.name, topic.topic_id), {})
        for data in topic.partition_data:
            checked = checks.get(id(data))
            if isinstance(checked, Rejected) and checked.is_early:
                refused[topic.name, topic.topic_id, data.index] = checked
                last.setdefault(data.index, data)
            else:
                last[data.index] = data
    merged = [
        TopicProduceData(name=name, topic_id=topic_id, partition_data=list(last.values()))
        for (name, topic_id), last in topics.items()
    ]
    return ProduceRequest(request.transactional_id, request.acks, request.timeout_ms, merged), refused

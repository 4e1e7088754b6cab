"""Produce requests that name a partition more than once, handled as in Kafka (KafkaApis.handleProduceRequest).

Kafka keeps the batches of a request in a map by partition: only the last batch of a partition is appended, and the
response has one entry for a partition. A batch that is rejected before anything is appended is not in that map; the
error of this batch is the response for the partition, even if another batch of the partition is written.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinatord.broker.topics.produce_checks import Checked
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.records.produced import Rejected

Where = tuple[str, bytes, int]
"""Topic name and topic id (the request version has one of them), and the partition."""


def repeats(request: ProduceRequest) -> bool:
    """Return whether a partition occurs more than once in the request."""
    topics = request.topic_data
    if len(topics) == 1 and len(topics[0].partition_data) == 1:
        return False
    every = [(topic.name, topic.topic_id, data.index) for topic in topics for data in topic.partition_data]
    return len(set(every)) < len(every)


def last_batches(
    request: ProduceRequest, checks: Mapping[int, Checked]
) -> tuple[ProduceRequest, dict[Where, Rejected]]:
    """Return the request with only the batches to append, and the early errors, which are responses in any case.

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

"""Timestamps of records in a cluster, each from the batch that has the record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coordinatord.monitoring.admin.connection import Cluster
from coordinatord.monitoring.analysis.generations import TopicPartition
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import iterate_batches
from kafka_wire.records.key_values import key_values

BATCH_BYTES = 64 << 10
"""Number of bytes that are fetched of a partition: a larger batch may not be read."""
AT_ONCE = 100
"""Number of partitions in a request."""
BY_NAME = 12
"""The last version of Fetch that has the names of topics."""


def record_times(
    cluster: Cluster, offsets: Mapping[TopicPartition, int], leaders: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the timestamp in ms of the record at an offset, or of the next one in its batch, by partition. Partitions
    that cannot be read, or not by this user, are left out. Raises AdminError.
    """
    found: dict[TopicPartition, int] = {}
    by_leader: dict[int, list[TopicPartition]] = {}
    for place in offsets:
        if leaders.get(place, -1) >= 0:
            by_leader.setdefault(leaders[place], []).append(place)
    for node_id, places in by_leader.items():
        for first in range(0, len(places), AT_ONCE):
            topics: dict[str, list[FetchPartition]] = {}
            for topic, number in places[first : first + AT_ONCE]:
                wanted = FetchPartition(number, fetch_offset=offsets[topic, number], partition_max_bytes=BATCH_BYTES)
                topics.setdefault(topic, []).append(wanted)
            request = FetchRequest(
                max_wait_ms=0, min_bytes=0, max_bytes=AT_ONCE * BATCH_BYTES, isolation_level=0, session_id=0,
                topics=[FetchTopic(topic, partitions=parts) for topic, parts in topics.items()],
                forgotten_topics_data=[], rack_id="",
            )  # fmt: skip
            for answered in cluster.ask(request, node_id, BY_NAME).responses:
                for part in answered.partitions:
                    time_ms = next(_times(part, offsets.get((answered.topic, part.partition_index), 0)), None)
                    if time_ms is not None:
                        found[answered.topic, part.partition_index] = time_ms
    return found


def _times(part: PartitionData, offset: int) -> Iterator[int]:
    data = bytes(part.records or b"")
    if part.error_code:
        return
    try:
        for position, header in iterate_batches(data, partial=True):
            if header.last_offset >= offset:
                for at, time_ms, _key, _value in key_values(data, position, header):
                    if at >= offset:
                        yield time_ms
    except DecodeError:
        return

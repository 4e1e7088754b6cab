"""The partition of a coordinators' topic that an id belongs to.

A group's partition of `__consumer_offsets` is `abs(hash) % offsets.topic.num.partitions`, with Java's hash of the group
id. The same holds for transactional ids and `__transaction_state` (Kafka: GroupCoordinatorService.partitionFor).
"""

from __future__ import annotations

from functools import lru_cache

from kafka_wire.java import absolute, string_hash

REMEMBERED_IDS, REMEMBERED_CHARACTERS = 4_096, 64
"""Maximum number and length of ids whose partition is cached: half a megabyte at most."""


def partition_for(group_id: str, partitions: int) -> int:
    """Return the partition of `__consumer_offsets` that a group belongs to."""
    if len(group_id) <= REMEMBERED_CHARACTERS:
        return _remembered(group_id, partitions)  # looked up again when the group is created and when it is written
    return _partition_for(group_id, partitions)


def _partition_for(group_id: str, partitions: int) -> int:
    return absolute(string_hash(group_id)) % partitions


_remembered = lru_cache(REMEMBERED_IDS)(_partition_for)

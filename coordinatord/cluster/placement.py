"""Which partition of a coordinators' topic an id lives in.

A group's partition of `__consumer_offsets` is `abs(hash) % offsets.topic.num.partitions`, with Java's hash of the group
id. Transactional ids and `__transaction_state` are the same (Kafka: GroupCoordinatorService.partitionFor).
"""

from __future__ import annotations

from functools import lru_cache

from kafka_wire.java import absolute, string_hash

REMEMBERED_IDS, REMEMBERED_CHARACTERS = 4_096, 64
"""Ids whose partition is remembered, and how long they may be: half a megabyte at most."""


def partition_for(group_id: str, partitions: int) -> int:
    """The partition of `__consumer_offsets` that a group lives in."""
    if len(group_id) <= REMEMBERED_CHARACTERS:
        return _remembered(group_id, partitions)  # asked for again when the group is made, and written down
    return _partition_for(group_id, partitions)


def _partition_for(group_id: str, partitions: int) -> int:
    return absolute(string_hash(group_id)) % partitions


_remembered = lru_cache(REMEMBERED_IDS)(_partition_for)

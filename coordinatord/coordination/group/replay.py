"""Durable state and its one writer.

The durable state of a classic group is its committed offsets, the offsets of open transactions, and the last logged
GroupMetadataValue (generation, protocol, leader, members, and their assignments at the last sync; no members for an
Empty group). A load needs its members once, to make `group.members` of them; then they are dropped from it. A group of
the consumer protocol has offsets, too, and the records of consumer/replay.py. `replay` applies one record of
`__consumer_offsets`, live and at start-up alike, so log and memory cannot disagree. All records but plain commits,
which every member sends every few seconds, increment `Group.version`.
"""

from __future__ import annotations

from typing import Any

from coordinatord.coordination.group.consumer.replay import replay_consumer
from coordinatord.coordination.group.offsets.pending import PendingOffsets
from coordinatord.coordination.group.result import Result
from coordinatord.coordination.group.state import Group
from kafka_wire.codecs import maker
from kafka_wire.records.keys import CONSUMER_GROUP_KEYS
from kafka_wire.records.offsets import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue

_group_logged = maker(GroupMetadataValue)

NO_PRODUCER_ID = -1


def replay(group: Group, key: Any, value: Any, producer_id: int = NO_PRODUCER_ID) -> None:
    """Apply one record; a `value` of None is a tombstone. Keys of other kinds are ignored.

    `producer_id` is that of the record's batch: if set, the record is part of a transaction.
    """
    group.version += 1
    if type(key) is OffsetCommitKey:
        if producer_id == NO_PRODUCER_ID or value is None:
            replay_offset(group, key, value)
        else:
            replay_pending(group, key, value, producer_id)
    elif type(key) is GroupMetadataKey:
        replay_metadata(group, value)
    elif type(key) in CONSUMER_GROUP_KEYS:
        group.consumer = replay_consumer(group.consumer, key, value)
        group.exists = _is_left(group)
    else:
        raise AssertionError(f"a group has no records of {type(key).__name__}")


def replay_offset(group: Group, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
    """An offset creates the group, as a simple one if no member ever joined; its tombstone does not delete it."""
    offsets = group.offsets
    pending = group.pending
    if value is not None:
        group.exists = True
        if pending is not None:
            pending.overtake((key.topic, key.partition))
        partitions = offsets.get(key.topic)
        if partitions is None:
            offsets[key.topic] = {key.partition: value}
        else:
            partitions[key.partition] = value
        return
    partitions = offsets.get(key.topic)
    if partitions is not None and partitions.pop(key.partition, None) is not None and not partitions:
        del offsets[key.topic]
    if pending is not None:
        pending.drop((key.topic, key.partition))
        group.pending = pending or None


def replay_offsets(group: Group, topic: str, values: list[tuple[int, OffsetCommitValue]]) -> None:
    """A plain commit of several partitions of one topic."""
    group.exists = True
    if group.pending is not None:
        for partition, _ in values:
            group.pending.overtake((topic, partition))
    partitions = group.offsets.get(topic)
    if partitions is None:
        group.offsets[topic] = dict(values)
    else:
        partitions.update(values)


def replay_pending(group: Group, key: OffsetCommitKey, value: OffsetCommitValue, producer_id: int) -> None:
    """An offset that a transaction commits stays pending until the transaction's marker."""
    group.exists = True
    if group.pending is None:
        group.pending = PendingOffsets()
    group.pending.add(producer_id, (key.topic, key.partition), value)


def replay_marker(group: Group, producer_id: int, *, committed: bool) -> None:
    """A transaction has ended: commit its pending offsets, or drop them."""
    pending = group.pending
    if pending is None:
        return
    group.version += 1
    for (topic, partition), value in pending.end(producer_id, committed=committed).items():
        group.offsets.setdefault(topic, {})[partition] = value
    group.pending = pending or None


def replay_metadata(group: Group, value: GroupMetadataValue | None) -> None:
    """The last value counts. A tombstone deletes the group, unless it has offsets: when a group in Kafka switches to
    the consumer protocol, the tombstone ends only its classic half.
    """
    group.metadata = value
    group.exists = _is_left(group)


def drop_logged_members(group: Group) -> None:
    """Keep all of the last GroupMetadataValue but its members, which `group.members` has: 28 MB of 250,000 members."""
    logged = group.metadata
    if logged is not None and logged.members:
        group.metadata = _group_logged(
            logged.protocol_type, logged.generation, logged.protocol, logged.leader, logged.current_state_timestamp, []
        )


def _is_left(group: Group) -> bool:
    """Whether anything of the group is in the log."""
    is_a_group = group.metadata is not None or group.consumer is not None
    return is_a_group or bool(group.offsets) or group.pending is not None


def write(group: Group, key: Any, value: Any, result: Result) -> None:
    """Change durable state in a step: apply the record and add it to the result."""
    replay(group, key, value)
    result.records.append((key, value))


def write_offsets(group: Group, topic: str, values: list[tuple[int, OffsetCommitValue]], result: Result) -> None:
    """The same for the offsets of one topic."""
    replay_offsets(group, topic, values)
    result.offsets.append((topic, values))


def write_pending(
    group: Group, producer: tuple[int, int], key: OffsetCommitKey, value: OffsetCommitValue, result: Result
) -> None:
    """The same for a transactional record. All such records of a step have the same producer (id, epoch)."""
    replay(group, key, value, producer[0])
    result.producer = producer
    result.records.append((key, value))

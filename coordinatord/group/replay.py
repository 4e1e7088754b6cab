"""Durable state and its one writer.

What is durable of a classic group: its committed offsets, those that open transactions have committed, and the last
GroupMetadataValue logged (generation, protocol, leader, members, assignments at the last sync, or the emptiness after).
`replay` applies one record of `__consumer_offsets`, live and at start-up alike, so the log and the memory cannot
disagree. Records move `Group.version` but for those of plain commits, which every member writes every few seconds.
"""

from __future__ import annotations

from typing import Any

from coordinatord.group.pending import PendingOffsets
from coordinatord.group.result import Result
from coordinatord.group.state import Group
from kafka_wire.records.offsets import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue

NO_PRODUCER_ID = -1


def replay(group: Group, key: Any, value: Any, producer_id: int = NO_PRODUCER_ID) -> None:
    """Apply one record; a `value` of None is a tombstone. Keys of other kinds are not ours to apply.

    `producer_id` is that of the record's batch: the record is part of its transaction.
    """
    group.version += 1
    if type(key) is OffsetCommitKey:
        if producer_id == NO_PRODUCER_ID or value is None:
            replay_offset(group, key, value)
        else:
            replay_pending(group, key, value, producer_id)
    elif type(key) is GroupMetadataKey:
        replay_metadata(group, value)
    else:
        raise AssertionError(f"a classic group has no records of {type(key).__name__}")


def replay_offset(group: Group, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
    """An offset makes the group exist, as a simple one if nobody ever joined it; its tombstone does not end it."""
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
    """An offset that a transaction has committed is nobody's until its marker comes."""
    group.exists = True
    if group.pending is None:
        group.pending = PendingOffsets()
    group.pending.add(producer_id, (key.topic, key.partition), value)


def replay_marker(group: Group, producer_id: int, *, committed: bool) -> None:
    """A transaction has ended: its offsets are the group's, or forgotten."""
    pending = group.pending
    if pending is None:
        return
    group.version += 1
    for (topic, partition), value in pending.end(producer_id, committed=committed).items():
        group.offsets.setdefault(topic, {})[partition] = value
    group.pending = pending or None


def replay_metadata(group: Group, value: GroupMetadataValue | None) -> None:
    """The last one counts; the tombstone ends the group, unless offsets are left: of a group that went over to the
    consumer protocol, in Kafka, it ends the classic half.
    """
    group.metadata = value
    group.exists = value is not None or bool(group.offsets) or group.pending is not None


def write(group: Group, key: Any, value: Any, result: Result) -> None:
    """How steps change durable state: apply the record and hand it to the log."""
    replay(group, key, value)
    result.records.append((key, value))


def write_offsets(group: Group, topic: str, values: list[tuple[int, OffsetCommitValue]], result: Result) -> None:
    """The same for offsets of one topic."""
    replay_offsets(group, topic, values)
    result.offsets.append((topic, values))


def write_pending(
    group: Group, producer: tuple[int, int], key: OffsetCommitKey, value: OffsetCommitValue, result: Result
) -> None:
    """The same for a record of a transaction: all records of such a step are the same producer's (id, epoch)."""
    replay(group, key, value, producer[0])
    result.producer = producer
    result.records.append((key, value))

"""Durable state and its one writer.

What is durable of a classic group: its committed offsets, and the last GroupMetadataValue logged (generation,
protocol, leader, members, assignments at the last sync, or the emptiness after). `replay` applies one record of
`__consumer_offsets`, live and at start-up alike, so the log and the memory cannot disagree.
"""

from __future__ import annotations

from typing import Any

from coordinatord.group.result import Result
from coordinatord.group.state import Group
from protocol.records.offsets import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue


def replay(group: Group, key: Any, value: Any) -> None:
    """Apply one record; a `value` of None is a tombstone. Keys of other kinds are not ours to apply."""
    if type(key) is OffsetCommitKey:
        replay_offset(group, key, value)
    elif type(key) is GroupMetadataKey:
        replay_metadata(group, value)
    else:
        raise AssertionError(f"a classic group has no records of {type(key).__name__}")


def replay_offset(group: Group, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
    """An offset makes the group exist, as a simple one if nobody ever joined it; its tombstone does not end it."""
    offsets = group.offsets
    if value is not None:
        group.exists = True
        partitions = offsets.get(key.topic)
        if partitions is None:
            offsets[key.topic] = {key.partition: value}
        else:
            partitions[key.partition] = value
        return
    partitions = offsets.get(key.topic)
    if partitions is not None and partitions.pop(key.partition, None) is not None and not partitions:
        del offsets[key.topic]


def replay_metadata(group: Group, value: GroupMetadataValue | None) -> None:
    """The last one counts; the tombstone ends the group."""
    group.metadata = value
    group.exists = value is not None


def write(group: Group, key: Any, value: Any, result: Result) -> None:
    """How steps change durable state: apply the record and hand it to the log."""
    replay(group, key, value)
    result.records.append((key, value))

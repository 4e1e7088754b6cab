"""Durable state of a group, and the only functions that write it.

The durable state of a classic group is its committed offsets, the offsets of open transactions, and the last logged
GroupMetadataValue (generation, protocol, leader, members, and their assignments at the last sync; no members for an
Empty group). A load uses the members of that value once, to build `group.members`, and then drops them from the value.
A group of the consumer protocol has offsets, too, and the records of consumer/replay.py; a share group has those of
share/replay.py. `replay` applies one record of
`__consumer_offsets`, both live and at start-up, so log and memory cannot differ. All records except plain commits,
which every member sends every few seconds, increment `Group.version`.
"""

from __future__ import annotations

from typing import Any

from coordinatord.coordination.group.consumer.replay import replay_consumer
from coordinatord.coordination.group.offsets.pending import PendingOffsets
from coordinatord.coordination.group.result import Result
from coordinatord.coordination.group.state import Group
from kafka_wire.codecs import constructor
from kafka_wire.records.keys import CONSUMER_GROUP_KEYS, SHARE_GROUP_KEYS
from kafka_wire.records.offsets import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue

_group_logged = constructor(GroupMetadataValue)

NO_PRODUCER_ID = -1


def replay(group: Group, key: Any, value: Any, producer_id: int = NO_PRODUCER_ID) -> None:
    """Apply one record; a `value` of None is a tombstone.

    `producer_id` is that of the record's batch: if set, the record is part of a transaction. Raises AssertionError for
    a key that is not a record of a group.
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
    elif type(key) in SHARE_GROUP_KEYS:
        from coordinatord.coordination.group.share.replay import replay_share

        group.share = replay_share(group.share, key, value)
        group.exists = _is_left(group)
    else:
        raise AssertionError(f"a group has no records of {type(key).__name__}")


def replay_offset(group: Group, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
    """Apply a committed offset. The offset creates the group, as a simple group if no member ever joined; its tombstone
    does not delete the group.
    """
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
    """Apply a plain commit of several partitions of one topic."""
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
    """Apply an offset that a transaction commits: the offset stays pending until the transaction's marker."""
    group.exists = True
    if group.pending is None:
        group.pending = PendingOffsets()
    group.pending.add(producer_id, (key.topic, key.partition), value)


def replay_marker(group: Group, producer_id: int, *, committed: bool) -> None:
    """Apply the end of a transaction: commit its pending offsets, or drop them."""
    pending = group.pending
    if pending is None:
        return
    group.version += 1
    for (topic, partition), value in pending.end(producer_id, committed=committed).items():
        group.offsets.setdefault(topic, {})[partition] = value
    group.pending = pending or None


def replay_metadata(group: Group, value: GroupMetadataValue | None) -> None:
    """Apply a GroupMetadataValue; the last one counts. A tombstone deletes the group, unless it has offsets: when a
    group in Kafka switches to the consumer protocol, the tombstone ends only the classic part of the group.
    """
    group.metadata = value
    group.exists = _is_left(group)


def drop_logged_members(group: Group) -> None:
    """Drop the members of the last GroupMetadataValue, which are in `group.members`: 28 MB for 250,000 members."""
    logged = group.metadata
    if logged is not None and logged.members:
        group.metadata = _group_logged(
            logged.protocol_type, logged.generation, logged.protocol, logged.leader, logged.current_state_timestamp, []
        )


def _is_left(group: Group) -> bool:
    """Return whether the log contains any state of the group."""
    is_a_group = group.metadata is not None or group.consumer is not None or group.share is not None
    return is_a_group or bool(group.offsets) or group.pending is not None


def write(group: Group, key: Any, value: Any, result: Result) -> None:
    """Change durable state in a step: apply the record and add it to the result."""
    replay(group, key, value)
    result.records.append((key, value))


def write_offsets(group: Group, topic: str, values: list[tuple[int, OffsetCommitValue]], result: Result) -> None:
    """Change the offsets of one topic in a step: apply the commit and add it to the result."""
    replay_offsets(group, topic, values)
    result.offsets.append((topic, values))


def write_pending(
    group: Group, producer: tuple[int, int], key: OffsetCommitKey, value: OffsetCommitValue, result: Result
) -> None:
    """Change transactional state in a step: apply the record and add it to the result. All such records of a step have
    the same producer (id, epoch).
    """
    replay(group, key, value, producer[0])
    result.producer = producer
    result.records.append((key, value))

"""Committed offsets: commit, fetch, delete, expire; and the end of a group without offsets.

Members commit with their generation. While the group has no members, any client may commit without one: admin tools
that reset offsets, and *simple* consumers that use a group for storage only. Such a commit also creates the group.

An offset is removed when it is deleted, when its topic is deleted, or when it expires (KIP-211): `retention_ms` after
the group became Empty, or after the commit for simple groups and for topics that a Stable group of consumers no longer
subscribes to. A commit of v2-v4 may set its own retention.

`fetch_offsets` is a read. It shows applied offsets, so its response waits for the log like any other.
"""

from __future__ import annotations

from collections.abc import Container

from coordinatord.coordination.group.classic.members import keep_alive
from coordinatord.coordination.group.consumer.records import group_tombstones
from coordinatord.coordination.group.events import Commit, Delete, Expire, TopicDeleted
from coordinatord.coordination.group.offsets.commit_answers import (
    metadata_is_too_long,
    partly_committed,
)
from coordinatord.coordination.group.offsets.fencing import commit_refusal, member_epoch_refusal
from coordinatord.coordination.group.replay import write, write_offsets
from coordinatord.coordination.group.result import NOTHING, Result
from coordinatord.coordination.group.state import NO_TIMESTAMP, Group
from coordinatord.coordination.group.states import DEAD, EMPTY, PREPARING_REBALANCE, STABLE
from coordinatord.coordination.group.terminate import terminate
from kafka_wire.api.delete_groups import DeletableGroupResult
from kafka_wire.api.offset_commit import error_response
from kafka_wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kafka_wire.api.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kafka_wire.codecs import constructor
from kafka_wire.errors import ErrorCode
from kafka_wire.records.offsets import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from kafka_wire.schema import ZERO_UUID

NO_RETENTION = -1
NO_EPOCH = -1
NO_OFFSET = -1
MAX_TIMESTAMP_MS = (1 << 63) - 1

_value = constructor(OffsetCommitValue)
_partition = constructor(OffsetFetchResponsePartitions)


def commit(group: Group, event: Commit, now_ms: int) -> Result:
    """Log the offsets of an allowed commit; a partition whose metadata is too long fails by itself."""
    request = event.request
    if group.consumer is None:
        error = commit_refusal(group, request, request.generation_id_or_member_epoch, event.absent_error)
    else:
        error = member_epoch_refusal(group, group.consumer, event)
    if error is not None:
        return Result(reply=error_response(request, 0, error))
    result = Result()
    if not group.exists:
        group.exists = True
        group.current_state_timestamp_ms = now_ms
    if group.state is STABLE or group.state is PREPARING_REBALANCE:
        member = group.members[request.member_id]
        keep_alive(group, member, member.session_timeout_ms, now_ms, result)
    expire_ms = NO_TIMESTAMP
    if request.retention_time_ms != NO_RETENTION:
        expire_ms = min(max(now_ms + request.retention_time_ms, 0), MAX_TIMESTAMP_MS)
    max_metadata = group.settings.offset_metadata_max_bytes
    all_fit = True
    for topic in request.topics:
        values = []
        topic_id = topic.topic_id
        for partition in topic.partitions:
            metadata = partition.committed_metadata or ""
            if metadata and metadata_is_too_long(metadata, max_metadata):
                all_fit = False
            elif expire_ms == NO_TIMESTAMP:
                offset, epoch = partition.committed_offset, partition.committed_leader_epoch
                values.append(
                    (partition.partition_index, _value(offset, epoch, metadata, now_ms, NO_TIMESTAMP, topic_id))
                )
            else:
                # The log gets a v1 value, which has no more fields: keep the value that a load would read.
                value = OffsetCommitValue(partition.committed_offset, NO_EPOCH, metadata, now_ms, expire_ms)
                values.append((partition.partition_index, value))
        if values:
            write_offsets(group, topic.name, values, result)
    result.reply = error_response(request, 0, ErrorCode.NONE) if all_fit else partly_committed(request, max_metadata)
    return result


def fetch_offsets(
    group: Group | None, request: OffsetFetchRequestGroup, require_stable: bool = False
) -> OffsetFetchResponseGroup:
    """Return the requested offsets, -1 where none is committed; all offsets of the group if `request.topics` is None.

    A group that does not exist has no offsets; that is no error. If the request is for all, the caller fills in the
    topic ids. With `require_stable`, a partition with an open transaction fails with UNSTABLE_OFFSET_COMMIT, and the
    client retries.
    """
    pending = group.pending if group is not None and require_stable else None
    unstable: Container[tuple[str, int]] = pending or ()
    offsets = {} if group is None or group.state is DEAD else group.offsets
    asked = request.topics
    if asked is None:
        asked = [OffsetFetchRequestTopics(name, ZERO_UUID, list(found)) for name, found in offsets.items()]
    topics: list[OffsetFetchResponseTopics] = []
    for topic in asked:
        committed = offsets.get(topic.name, {})
        partitions = [
            _unstable(index)
            if (topic.name, index) in unstable
            else _fetched(index, value if _is_of_topic(value, topic.topic_id) else None)
            for index in topic.partition_indexes
            for value in (committed.get(index),)
        ]
        topics.append(OffsetFetchResponseTopics(topic.name, topic.topic_id, partitions))
    return OffsetFetchResponseGroup(request.group_id, topics)


def delete_offsets(group: Group, request: OffsetDeleteRequest, now_ms: int) -> Result:
    """Handle an OffsetDelete. Consumers protect the topics that they subscribe to; other members protect all topics."""
    error = ErrorCode.NONE
    if not group.group_id:
        error = ErrorCode.INVALID_GROUP_ID
    elif not group.exists or group.state is DEAD:
        error = ErrorCode.GROUP_ID_NOT_FOUND
    elif group.state is not EMPTY and not group.uses_consumer_protocol():
        error = ErrorCode.NON_EMPTY_GROUP
    if error is not ErrorCode.NONE:
        return Result(reply=OffsetDeleteResponse(error_code=error))
    result = Result()
    topics = []
    for topic in request.topics:
        subscribed = group.is_subscribed_to(topic.name)
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        partitions = []
        for partition in topic.partitions:
            if not subscribed and _has_any(group, topic.name, partition.partition_index):
                _write_tombstone(group, topic.name, partition.partition_index, result)
            partitions.append(OffsetDeleteResponsePartition(partition.partition_index, error))
        topics.append(OffsetDeleteResponseTopic(topic.name, partitions))
    result.reply = OffsetDeleteResponse(topics=topics)
    return result


def delete(group: Group, event: Delete, now_ms: int) -> Result:
    """Handle a DeleteGroups: write tombstones for all offsets and for the group, if it has no members."""
    error = deletion_refusal(group)
    if error is not None:
        return Result(reply=DeletableGroupResult(group.group_id, error))
    result = Result(reply=DeletableGroupResult(group.group_id))
    for topic, partition in _all_partitions(group):
        _write_tombstone(group, topic, partition, result)
    _write_group_tombstone(group, "deleted", now_ms, result)
    return result


def deletion_refusal(group: Group) -> ErrorCode | None:
    """Return the error of DeleteGroups for this group, or None."""
    if not group.exists or group.state is DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return None if has_no_members(group) else ErrorCode.NON_EMPTY_GROUP


def has_no_members(group: Group) -> bool:
    """Return whether the group has no members. For a Dead group the result has no meaning."""
    if group.consumer is not None:
        return not group.consumer.members
    if group.share is not None:
        return not group.share.members
    return group.state is EMPTY


def expire(group: Group, event: Expire, now_ms: int) -> Result:
    """Remove expired offsets, and an Empty group without offsets of any age: it has no state to lose."""
    if not group.exists or group.state is DEAD:
        return NOTHING
    expired = expired_offsets(group, event.retention_ms, now_ms)
    ends = has_no_members(group) and not group.pending and len(expired) == sum(map(len, group.offsets.values()))
    if not expired and not ends:
        return NOTHING
    result = Result()
    for topic, partition in expired:
        _write_tombstone(group, topic, partition, result)
    if ends:
        _write_group_tombstone(group, "all offsets expired", now_ms, result)
    return result


def expired_offsets(group: Group, retention_ms: int, now_ms: int) -> list[tuple[str, int]]:
    """Return the (topic, partition) of each offset that has been unused for `retention_ms`; see KIP-211."""
    empty_since_ms = NO_TIMESTAMP
    if group.consumer is None and group.protocol_type is not None:
        if group.state is EMPTY:
            empty_since_ms = group.current_state_timestamp_ms  # unknown in old logs: then the commit's time counts
        elif not (group.state is STABLE and group.uses_consumer_protocol() and group.subscribed_topics is not None):
            return []
    expired = []
    for topic, by_partition in group.offsets.items():
        if group.is_subscribed_to(topic):
            continue
        for partition, value in by_partition.items():
            since_ms = value.commit_timestamp if empty_since_ms == NO_TIMESTAMP else empty_since_ms
            if group.pending is not None and (topic, partition) in group.pending:
                continue
            if now_ms >= (since_ms + retention_ms if value.expire_timestamp < 0 else value.expire_timestamp):
                expired.append((topic, partition))
    return expired


def topic_deleted(group: Group, event: TopicDeleted, now_ms: int) -> Result:
    """Delete the offsets of a deleted topic, except those of another topic of the same name."""
    gone = {
        partition: None
        for partition, value in group.offsets.get(event.topic, {}).items()
        if value.topic_id in (ZERO_UUID, event.topic_id)
    }
    # Offsets of transactions contain no topic id.
    gone.update((partition, None) for topic, partition in group.pending or () if topic == event.topic)
    if not gone:
        return NOTHING
    result = Result()
    for partition in gone:
        _write_tombstone(group, event.topic, partition, result)
    return result


def _is_of_topic(value: OffsetCommitValue | None, topic_id: bytes) -> bool:
    """Return False if the offset was committed for a topic of the same name with another id than the requested one."""
    return value is None or topic_id == ZERO_UUID or value.topic_id in (topic_id, ZERO_UUID)


def _fetched(partition: int, value: OffsetCommitValue | None) -> OffsetFetchResponsePartitions:
    if value is None:
        return _partition(partition, NO_OFFSET, NO_EPOCH, "", ErrorCode.NONE)
    return _partition(partition, value.offset, value.leader_epoch, value.metadata, ErrorCode.NONE)


def _unstable(partition: int) -> OffsetFetchResponsePartitions:
    return _partition(partition, NO_OFFSET, NO_EPOCH, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)


def _all_partitions(group: Group) -> list[tuple[str, int]]:
    committed = [(topic, partition) for topic, by_partition in group.offsets.items() for partition in by_partition]
    return list(dict.fromkeys([*committed, *(group.pending or ())]))


def _has_any(group: Group, topic: str, partition: int) -> bool:
    """Return whether the partition has an offset, committed or pending in a transaction."""
    is_committed = partition in group.offsets.get(topic, {})
    return is_committed or (group.pending is not None and (topic, partition) in group.pending)


def _write_tombstone(group: Group, topic: str, partition: int, result: Result) -> None:
    write(group, OffsetCommitKey(group.group_id, topic, partition), None, result)


def _write_group_tombstone(group: Group, reason: str, now_ms: int, result: Result) -> None:
    if group.consumer is None:
        write(group, GroupMetadataKey(group.group_id), None, result)
    else:
        for record in group_tombstones(group.group_id, (), group.consumer.resolved):
            write(group, *record, result)
    terminate(group, reason, now_ms, result)

"""Offsets committed in transactions: TxnOffsetCommit, and the effect of the marker.

The shell has verified with the transaction coordinator that the group is in the transaction, and checked the producer's
epoch. Since v3 a commit contains member and generation, so that a removed consumer cannot commit (KIP-447); older ones
are accepted from any client. The group's state does not matter, and the commit does not extend the session.
"""

from __future__ import annotations

from coordinatord.coordination.group.events import EndTransaction, TxnCommit
from coordinatord.coordination.group.offsets.commit_answers import metadata_is_too_long
from coordinatord.coordination.group.offsets.fencing import commit_refusal, member_epoch_refusal
from coordinatord.coordination.group.replay import replay_marker, write_pending
from coordinatord.coordination.group.result import NOTHING, Result
from coordinatord.coordination.group.state import Group
from kafka_wire.api.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
    error_response,
)
from kafka_wire.errors import ErrorCode
from kafka_wire.records.offsets import OffsetCommitKey, OffsetCommitValue


def commit_transactional(group: Group, event: TxnCommit, now_ms: int) -> Result:
    """Log the offsets as pending; a partition whose metadata is too long fails by itself."""
    request = event.request
    if group.consumer is None:
        absent_error = ErrorCode.GROUP_ID_NOT_FOUND if event.knows_group_errors else ErrorCode.ILLEGAL_GENERATION
        error = commit_refusal(group, request, request.generation_id, absent_error, is_transactional=True)
    else:
        error = member_epoch_refusal(group, group.consumer, event)
    if error is not None:
        return Result(reply=error_response(request, 0, error))
    result = Result()
    if not group.exists:
        group.exists = True
        group.current_state_timestamp_ms = now_ms
    producer = request.producer_id, request.producer_epoch
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            metadata = partition.committed_metadata or ""
            error_code = ErrorCode.NONE
            if metadata_is_too_long(metadata, group.settings.offset_metadata_max_bytes):
                error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                key = OffsetCommitKey(group.group_id, topic.name, partition.partition_index)
                value = OffsetCommitValue(
                    partition.committed_offset, partition.committed_leader_epoch, metadata, commit_timestamp=now_ms
                )
                write_pending(group, producer, key, value, result)
            partitions.append(TxnOffsetCommitResponsePartition(partition.partition_index, error_code))
        topics.append(TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, partitions))
    result.reply = TxnOffsetCommitResponse(topics=topics)
    return result


def end_transaction(group: Group, event: EndTransaction, now_ms: int) -> Result:
    """Apply the transaction's marker, which is already in the log."""
    replay_marker(group, event.producer_id, committed=event.committed)
    return NOTHING

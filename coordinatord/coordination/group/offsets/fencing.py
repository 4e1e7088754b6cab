"""Validation of OffsetCommit and TxnOffsetCommit (Kafka's `validateOffsetCommit` of classic and of consumer groups)."""

from __future__ import annotations

from typing import Protocol

from coordinatord.coordination.group.classic.members import refusal
from coordinatord.coordination.group.consumer import commits
from coordinatord.coordination.group.consumer.state import ConsumerGroup
from coordinatord.coordination.group.events import Commit, TxnCommit
from coordinatord.coordination.group.offsets.commit_answers import metadata_is_too_long
from coordinatord.coordination.group.state import Group
from coordinatord.coordination.group.states import COMPLETING_REBALANCE, DEAD, EMPTY
from kafka_wire.errors import ErrorCode
from kafka_wire.schema import ZERO_UUID


class Committer(Protocol):
    """The fields of a request that identify the member."""

    member_id: str
    group_instance_id: str | None


def commit_refusal(
    group: Group,
    committer: Committer,
    generation_id: int,
    absent_error: ErrorCode,
    *,
    is_transactional: bool = False,
) -> ErrorCode | None:
    """Return the error of a commit, or None; `absent_error` if it names a generation and the group does not exist.

    A producer before TxnOffsetCommit v3 cannot name its member, and the transaction began before the current rebalance.
    So `is_transactional` allows a commit without a member, and one that arrives before its generation's assignment.
    """
    if group.state is DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if group.share is not None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if not group.exists:
        return None if generation_id < 0 else absent_error
    if generation_id < 0 and group.state is EMPTY:
        return None
    if generation_id >= 0 or committer.member_id or committer.group_instance_id is not None:
        error = refusal(group, committer.member_id, committer.group_instance_id)
        if error is not None:
            return error
        if generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
    elif not is_transactional:
        return ErrorCode.UNKNOWN_MEMBER_ID  # the group has members, and the commit names none
    if group.state is COMPLETING_REBALANCE and not is_transactional:
        # Another member may own these partitions in the generation that is about to begin.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return None


def member_epoch_refusal(group: Group, consumer: ConsumerGroup, event: Commit | TxnCommit) -> ErrorCode | None:
    """Return the error of a whole commit in a consumer group, or None; partitions with too long metadata do not count.

    Before TxnOffsetCommit v6, producers support ILLEGAL_GENERATION only.
    """
    request, limit = event.request, group.settings.offset_metadata_max_bytes
    is_strict = group.surroundings is not None and group.surroundings.limits.strict_commits
    if isinstance(event, Commit):
        epoch = event.request.generation_id_or_member_epoch
        ids = {topic.name: topic.topic_id for topic in event.request.topics}
    else:
        epoch, ids = event.request.generation_id, dict(event.topic_ids)
    error = commits.commit_refusal(
        consumer,
        request.member_id,
        request.group_instance_id,
        epoch,
        [
            (ids.get(topic.name, ZERO_UUID), partition.partition_index)
            for topic in request.topics
            for partition in topic.partitions
            if not metadata_is_too_long(partition.committed_metadata or "", limit)
        ],
        is_strict=is_strict,
        is_transactional=isinstance(event, TxnCommit),
        knows_member_epochs=isinstance(event, TxnCommit) or event.knows_member_epochs,
    )
    if error is ErrorCode.STALE_MEMBER_EPOCH and isinstance(event, TxnCommit) and not event.knows_group_errors:
        return ErrorCode.ILLEGAL_GENERATION
    return error

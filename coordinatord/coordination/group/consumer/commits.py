"""Validation of commits and offset fetches of a consumer group (KIP-848, KIP-1251).

A commit with the member's epoch is valid. A commit with an earlier epoch is valid for partitions that the
member has owned since that epoch or earlier: the member has not yet received a later epoch, which changed
nothing for these partitions. Kafka before 4.3 rejects all earlier epochs; with `strict_commits`
coordinatord does so, too, for tests of clients.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinatord.coordination.group.consumer.state import ConsumerGroup, ConsumerMember
from kafka_wire.errors import ErrorCode

Partitions = Iterable[tuple[bytes, int]]
"""(topic id, partition); ZERO_UUID is no topic's id."""


def commit_refusal(
    consumer: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    partitions: Partitions,
    *,
    is_strict: bool,
    is_transactional: bool = False,
    knows_member_epochs: bool = True,
) -> ErrorCode | None:
    """Return the error of a whole commit, or None. `knows_member_epochs`: the version supports this protocol (v9+)."""
    if epoch < 0 and not consumer.members:
        return None
    if is_transactional and epoch == -1 and not member_id and instance_id is None:
        return None
    member = consumer.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    is_classic = member.classic is not None
    if not is_transactional and not is_classic and not knows_member_epochs:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.epoch:
        return None
    if epoch < member.epoch and not is_strict and all(_is_since(member, epoch, *each) for each in partitions):
        return None
    return _stale(member)


def fetch_refusal(consumer: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode | None:
    """Return the error of an offset fetch, or None. A request without a member may read all offsets."""
    if member_id is None and epoch < 0:
        return None
    member = consumer.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return None if epoch == member.epoch else _stale(member)


def _stale(member: ConsumerMember) -> ErrorCode:
    return ErrorCode.ILLEGAL_GENERATION if member.classic is not None else ErrorCode.STALE_MEMBER_EPOCH


def _is_since(member: ConsumerMember, epoch: int, topic_id: bytes, partition: int) -> bool:
    """Return whether the member has owned the partition since this epoch or an earlier one."""
    since = member.assigned.get(topic_id, {}).get(partition)
    if since is None:
        since = member.revoking.get(topic_id, {}).get(partition)
    return since is not None and epoch >= since

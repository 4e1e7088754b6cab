"""Who may commit and fetch offsets of a consumer group (KIP-848, KIP-1251).

A commit of the member's epoch counts. One of an earlier epoch counts for partitions that the member has owned since an
epoch not later than that: the member has not heard yet of an epoch that changed nothing for these. Kafka before 4.3
refuses all earlier epochs; `strict_commits` does as well, for those who test clients against it.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinatord.coordination.group.consumer.state import ConsumerGroup, ConsumerMember
from kafka_wire.errors import ErrorCode

Partitions = Iterable[tuple[bytes, int]]
"""(topic id, partition); no topic's id is ZERO_UUID."""


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
    """Why a commit is refused as a whole. `knows_member_epochs`: its version is one of this protocol (v9+)."""
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
    """Why offsets are not told. Whoever names no member may see them."""
    if member_id is None and epoch < 0:
        return None
    member = consumer.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return None if epoch == member.epoch else _stale(member)


def _stale(member: ConsumerMember) -> ErrorCode:
    return ErrorCode.ILLEGAL_GENERATION if member.classic is not None else ErrorCode.STALE_MEMBER_EPOCH


def _is_since(member: ConsumerMember, epoch: int, topic_id: bytes, partition: int) -> bool:
    """Whether the member has owned the partition since this epoch or an earlier one."""
    since = member.assigned.get(topic_id, {}).get(partition)
    if since is None:
        since = member.revoking.get(topic_id, {}).get(partition)
    return since is not None and epoch >= since

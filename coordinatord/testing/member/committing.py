"""Commits of offsets: by the application, every `auto.commit.interval.ms`, before a rejoin and when closing.

| kind         | fails                                                                      |
|--------------|----------------------------------------------------------------------------|
| async        | at the first error; the result is reported                                 |
| auto         | at the first error; after a retriable one, the next follows the back-off   |
| before rejoin| after retries of retriable errors, up to the rebalance timeout             |
| sync         | after retries of retriable errors, up to its own timeout                   |

A member commits with its generation and only while it is Stable: an owner that was replaced must not commit. With the
consumer protocol it commits with its member epoch, in any state; the coordinator rejects member epochs that are too
old.
"""

from __future__ import annotations

from enum import Enum

from coordinatord.testing.member.assignors.java_hash import TopicPartition
from coordinatord.testing.member.events import Commit
from coordinatord.testing.member.finding import ensure_coordinator
from coordinatord.testing.member.network import coordinator_failed
from coordinatord.testing.member.result import Committed, Result
from coordinatord.testing.member.send import Send
from coordinatord.testing.member.state import (
    DISCONNECTED,
    PREPARING_REBALANCE,
    RETRIABLE,
    STABLE,
    UNJOINED,
    Member,
    SyncCommit,
)
from coordinatord.testing.member.timer import NEVER
from kafka_wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafka_wire.errors import ErrorCode, error_of

Offsets = dict[TopicPartition, int]


class Own(Enum):
    """Commits that the member starts itself."""

    AUTO = "auto"
    BEFORE_REJOIN = "before rejoin"


def consumed(member: Member) -> Offsets:
    """Return the application's progress: the next offset of every partition that has a position."""
    return {each: state.position for each, state in member.partitions.items() if state.position is not None}


def commit(member: Member, event: Commit, now_ms: int, result: Result) -> None:
    """Start a commit of the application. Raises ValueError for negative offsets."""
    offsets = consumed(member) if event.offsets is None else dict(event.offsets)
    if any(offset < 0 for offset in offsets.values()):
        raise ValueError(f"offsets must not be negative: {offsets}")
    if event.timeout_ms is not None:
        member.sync_commit = SyncCommit(event, offsets, now_ms + event.timeout_ms)
    elif member.coordinator is None and offsets:
        member.waiting_commits.append((event, offsets))
        ensure_coordinator(member, now_ms, result)
    else:
        _send(member, event, offsets, now_ms, result)


def send_waiting(member: Member, now_ms: int, result: Result) -> None:
    """Send the commits that waited for the coordinator, or fail them: the search for the coordinator has ended."""
    waiting, member.waiting_commits = member.waiting_commits, []
    for event, offsets in waiting:
        _send(member, event, offsets, now_ms, result)


def auto_commit(member: Member, now_ms: int, result: Result) -> None:
    """Commit if the interval has passed."""
    if not member.settings.enable_auto_commit or not member.partitions:
        return
    if now_ms >= member.auto_commit_ms:
        member.auto_commit_ms = now_ms + member.settings.auto_commit_interval_ms
        _send(member, Own.AUTO, consumed(member), now_ms, result)
    member.wake_at(member.auto_commit_ms)


def commit_before_rejoin(member: Member, now_ms: int, result: Result) -> bool:
    """Commit before a rejoin; return whether the commit has completed or was abandoned. Until then, eager members
    return no more records.
    """
    if not member.settings.enable_auto_commit:
        return True
    if member.prepare_deadline_ms == NEVER:
        member.prepare_deadline_ms = now_ms + member.settings.max_poll_interval_ms
    if member.prepare_commit is None and member.prepare_commit_error is None:
        if not member.cooperative:
            for state in member.partitions.values():
                state.pending_revocation = True
        member.prepare_commit = _send(member, Own.BEFORE_REJOIN, consumed(member), now_ms, result)
    if now_ms < member.prepare_deadline_ms:
        if member.prepare_commit is not None:
            member.wake_at(member.prepare_deadline_ms)
            return False
        if _is_retried(member, member.prepare_commit_error):
            member.prepare_commit_error = None
            member.join_again_ms = now_ms + member.settings.retry_backoff_ms
            member.wake_at(member.join_again_ms)
            return False
    member.prepare_deadline_ms = NEVER
    member.prepare_commit = None
    member.prepare_commit_error = None
    return True


def _is_retried(member: Member, error: ErrorCode | None) -> bool:
    """Return whether the commit before a rebalance is retried: with the consumer protocol also after an error for a
    member epoch that the member has left in the meantime, and not if a topic is gone.
    """
    if member.membership is not None and error in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        return error is ErrorCode.STALE_MEMBER_EPOCH and member.membership.epoch > 0
    return error in RETRIABLE


def drive_sync_commit(member: Member, now_ms: int, result: Result) -> None:
    """Continue a synchronous commit."""
    sync = member.sync_commit
    if sync is None:
        return
    if now_ms >= sync.deadline_ms:
        if sync.send is not None:
            sync.send.context = None
        _finish_sync(member, sync, ErrorCode.REQUEST_TIMED_OUT, result)
        return
    member.wake_at(sync.deadline_ms)
    if sync.send is not None or not ensure_coordinator(member, now_ms, result):
        return
    if now_ms < sync.again_at_ms:
        member.wake_at(sync.again_at_ms)
        return
    sync.send = _send(member, sync, sync.offsets, now_ms, result)


def answered(member: Member, send: Send, response: OffsetCommitResponse, now_ms: int, result: Result) -> None:
    """Handle the response; its first error is the result."""
    codes = (each.error_code for topic in response.topics for each in topic.partitions)
    error = error_of(next((code for code in codes if code), 0))
    if error in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT):
        coordinator_failed(member, now_ms, result)
    elif member.membership is not None:
        pass  # the next heartbeat handles the state of the member
    elif error is ErrorCode.REBALANCE_IN_PROGRESS:
        member.request_rejoin("offset commit failed since group is already rebalancing")
    elif error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
        if send.generation != member.generation and member.state is PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        else:
            keep_member_id = error is ErrorCode.ILLEGAL_GENERATION
            member.reset_generation(f"encountered {error.name} from OFFSET_COMMIT response", keep_member_id, result)
    elif error is ErrorCode.FENCED_INSTANCE_ID and send.generation != member.generation:
        error = ErrorCode.REBALANCE_IN_PROGRESS
    _settle(member, send.context, send.request, error, now_ms, result)


def unanswered(member: Member, send: Send, now_ms: int, result: Result) -> None:
    """Handle a request without a response: it is unknown whether the offsets were committed."""
    _settle(member, send.context, send.request, DISCONNECTED, now_ms, result)


def unsupported(member: Member, send: Send, now_ms: int, result: Result) -> None:
    """Handle a broker without a usable version of OffsetCommit."""
    _settle(member, send.context, send.request, ErrorCode.UNSUPPORTED_VERSION, now_ms, result)


def _send(
    member: Member, context: Commit | Own | SyncCommit | None, offsets: Offsets, now_ms: int, result: Result
) -> Send | None:
    """Send the request and return it; None if the result is known without a request."""
    error = None
    if not offsets:
        error = ErrorCode.NONE
    elif member.coordinator is None:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    elif member.membership is not None:
        error = None  # the coordinator checks the member epoch
    elif member.state is UNJOINED:
        error = ErrorCode.UNKNOWN_MEMBER_ID
    elif member.state is not STABLE:
        error = ErrorCode.REBALANCE_IN_PROGRESS
    generation = member.generation
    request = OffsetCommitRequest(
        member.settings.group_id,
        generation.generation_id,
        generation.member_id,
        member.settings.group_instance_id,
        topics=_topics(member, offsets),
    )
    if error is None:
        return member.send_to_coordinator(request, result, context=context)
    _settle(member, context, request, error, now_ms, result)
    return None


def _topics(member: Member, offsets: Offsets) -> list[OffsetCommitRequestTopic]:
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (topic, number), offset in offsets.items():
        if topic not in topics:
            info = member.cluster.topics.get(topic)
            topics[topic] = OffsetCommitRequestTopic(topic, bytes(16) if info is None else info.topic_id)
        state = member.partitions.get((topic, number))
        epoch = -1 if state is None else state.leader_epoch
        topics[topic].partitions.append(OffsetCommitRequestPartition(number, offset, epoch, ""))
    return list(topics.values())


def _settle(
    member: Member,
    context: Commit | Own | SyncCommit | None,
    request: OffsetCommitRequest,
    error: ErrorCode,
    now_ms: int,
    result: Result,
) -> None:
    """Report the result to the caller of the commit."""
    if error is ErrorCode.FENCED_INSTANCE_ID and member.membership is None:
        member.failure = (error, "OffsetCommit")
    if isinstance(context, SyncCommit):
        context.send = None
        if error is ErrorCode.NONE:
            _store_committed(member, context.offsets)
        if error not in RETRIABLE:
            _finish_sync(member, context, error, result)
        else:
            context.again_at_ms = now_ms + member.backoff.after_ms(context.attempts)
            context.attempts += 1
            member.wake_at(context.again_at_ms)
        return
    if context is Own.BEFORE_REJOIN:
        member.prepare_commit = None
        member.prepare_commit_error = error
    elif context is Own.AUTO and error in RETRIABLE:
        member.auto_commit_ms = now_ms + member.settings.retry_backoff_ms
    offsets = {
        (topic.name, each.partition_index): each.committed_offset
        for topic in request.topics
        for each in topic.partitions
    }
    if error is ErrorCode.NONE:
        _store_committed(member, offsets)
    if offsets or isinstance(context, Commit):
        result.committed.append(Committed(context if isinstance(context, Commit) else None, offsets, error))


def _store_committed(member: Member, offsets: Offsets) -> None:
    for partition, offset in offsets.items():
        state = member.partitions.get(partition)
        if state is not None:
            state.committed = offset


def _finish_sync(member: Member, sync: SyncCommit, error: ErrorCode, result: Result) -> None:
    member.sync_commit = None
    result.committed.append(Committed(sync.event, sync.offsets, error))

"""Joining once the coordinator is known: JoinGroup, the leader's assignment, and SyncGroup.

`ensure_active_group` is a loop that runs as far as it can and is called again at the next event:

1. `prepare` (onJoinPrepare): commit the consumed offsets if auto-commit is on, then give up partitions: all (eager),
   those no longer subscribed to (cooperative), or all as lost if the member is out of the group.
2. JoinGroup. After MEMBER_ID_REQUIRED, UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION or REBALANCE_IN_PROGRESS the next one
   follows at once, after other retriable errors after a back-off. The application's poll raises all other errors.
3. SyncGroup immediately after it; the leader sends all members' assignments.
4. `complete` (onJoinComplete), in the application's next poll: take the assignment. A cooperative member that gives up
   partitions rejoins at once, so that other members can get them.
"""

from __future__ import annotations

from typing import Final

from coordinatord.testing.member.committing import commit_before_rejoin
from coordinatord.testing.member.finding import ensure_coordinator
from coordinatord.testing.member.heartbeats import schedule_task
from coordinatord.testing.member.leading import assign, lead, send_sync
from coordinatord.testing.member.network import coordinator_failed
from coordinatord.testing.member.positions import assign_partitions
from coordinatord.testing.member.result import Assigned, Lost, Result, Revoked
from coordinatord.testing.member.send import Generation, Send
from coordinatord.testing.member.state import (
    COMPLETING_REBALANCE,
    DISCONNECTED,
    PREPARING_REBALANCE,
    RETRIABLE,
    STABLE,
    Join,
    Member,
)
from coordinatord.testing.member.subscription import PROTOCOL_TYPE, decode_assignment, encode_subscription
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafka_wire.api.sync_group import SyncGroupResponse
from kafka_wire.errors import DecodeError, ErrorCode, error_of

JOIN_TIMEOUT_LAPSE_MS: Final = 5_000
"""Additional time in milliseconds for a JoinGroup: it may be parked for the rebalance timeout, and its response takes
time.
"""

COORDINATOR_GONE: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
JOIN_AT_ONCE: Final = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED}
)
SYNC_AT_ONCE: Final = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}
)
AT_ONCE: Final = JOIN_AT_ONCE | SYNC_AT_ONCE
"""Errors after which the next JoinGroup follows without a pause."""

JOIN_ERRORS: Final = JOIN_AT_ONCE | COORDINATOR_GONE | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
SYNC_ERRORS: Final = SYNC_AT_ONCE | COORDINATOR_GONE
"""Retriable errors of SyncGroup; Kafka's coordinators never respond to it with COORDINATOR_LOAD_IN_PROGRESS."""


def rejoin_needed_or_pending(member: Member) -> bool:
    """Return whether to join: a rejoin was requested, the topics of the last assignment changed, or the subscription
    did.
    """
    if not member.subscription:
        return False
    assigned_of = member.assignment_snapshot
    if assigned_of is not None and assigned_of is not member.metadata_snapshot:
        if assigned_of != member.metadata_snapshot:
            if not member.rejoin_needed:
                member.request_rejoin("cached metadata has changed")
            return True
        member.assignment_snapshot = member.metadata_snapshot
    if member.joined_subscription is not None and member.joined_subscription != member.subscription:
        if not member.rejoin_needed:
            member.request_rejoin("subscription has changed")
        return True
    return member.rejoin_needed or member.join is not None


def ensure_active_group(member: Member, now_ms: int, result: Result) -> bool:
    """Return whether the group is joined and synced; if not, the next step is in progress or scheduled."""
    while rejoin_needed_or_pending(member):
        if not ensure_coordinator(member, now_ms, result):
            return False
        if now_ms < member.join_again_ms:
            member.wake_at(member.join_again_ms)
            return False
        if member.needs_join_prepare:
            if not _prepare(member, now_ms, result):
                return False
            member.needs_join_prepare = False
        if member.settings.single_threaded and member.join is None and member.pending_requests:
            return False  # awaitPendingRequests: so that no JoinGroup is sent twice. Today's client has `member.join`.
        if member.join is None:
            _send_join(member, result)
        join = member.join
        assert join is not None
        if join.assignment is None and join.error is None:
            return False
        member.join = None
        if join.error is not None:
            if not _go_on_after(join, member, now_ms):
                return False
        elif member.state is STABLE:
            _complete(member, join.assignment or b"", now_ms, result)
            member.needs_join_prepare = True
        else:
            reason = "rebalance failed since the generation/state was modified by heartbeat thread"
            member.reset_generation(reason, False, result)
    return True


def _go_on_after(join: Join, member: Member, now_ms: int) -> bool:
    """Handle a failed join. Return whether to join again at once."""
    error = join.error
    assert error is not None
    if error is not ErrorCode.MEMBER_ID_REQUIRED:
        member.request_rejoin(f"rebalance failed due to {exception_name(error)}")
    if error in AT_ONCE and not join.fatal:
        return True
    if error not in RETRIABLE or join.fatal:
        member.failure = (error, join.what)
    else:
        member.join_again_ms = now_ms + member.settings.retry_backoff_ms
        member.wake_at(member.join_again_ms)
    return False


def exception_name(error: ErrorCode) -> str:
    """Return Java's name of the error, as coordinators receive it in the reason of a rejoin."""
    if error is DISCONNECTED:
        return "DisconnectException"
    return "".join(word.capitalize() for word in error.name.split("_")) + "Exception"


def _prepare(member: Member, now_ms: int, result: Result) -> bool:
    """Return whether the member is ready to join: the commit is done or abandoned, and partitions
    have been given up.
    """
    if not commit_before_rejoin(member, now_ms, result):
        return False
    owned = member.assignment
    if member.generation.generation_id < 0 or not member.generation.member_id:
        if owned:
            result.changes.append(Lost(owned))
            assign_partitions(member, ())
    elif not member.cooperative:
        if owned:
            result.changes.append(Revoked(owned))
            assign_partitions(member, ())
    else:
        dropped = tuple(each for each in owned if each[0] not in member.subscription)
        if dropped:
            result.changes.append(Revoked(dropped))
            assign_partitions(member, [each for each in owned if each[0] in member.subscription])
    member.is_leader = False
    member.group_subscription = frozenset()
    return True


def _send_join(member: Member, result: Result) -> None:
    settings = member.settings
    member.join = Join()
    member.election = None
    member.transition_to(PREPARING_REBALANCE, result)
    member.joined_subscription = member.subscription
    rebalance_timeout_ms = settings.max_poll_interval_ms
    if settings.single_threaded:
        rebalance_timeout_ms = settings.session_timeout_ms  # the value of JoinGroup v0
    protocols = [
        JoinGroupRequestProtocol(
            name,
            encode_subscription(
                member.subscription,
                assignor.subscription_user_data(member.subscription),
                member.partitions,
                member.generation.generation_id,
                settings.client_rack or None,
            ),
        )
        for name, assignor in member.assignors.items()
    ]
    request = JoinGroupRequest(
        settings.group_id,
        settings.session_timeout_ms,
        rebalance_timeout_ms,
        member.generation.member_id,
        settings.group_instance_id,
        PROTOCOL_TYPE,
        protocols,
        member.rejoin_reason,
    )
    timeout_ms = max(settings.request_timeout_ms, rebalance_timeout_ms + JOIN_TIMEOUT_LAPSE_MS)
    member.send_to_coordinator(request, result, timeout_ms)


def joined(member: Member, send: Send, response: JoinGroupResponse, now_ms: int, result: Result) -> None:
    """Handle JoinGroup's response. SyncGroup follows at once, unless the leader lacks metadata."""
    error = error_of(response.error_code)
    if error is not ErrorCode.NONE:
        _not_joined(member, send, error, response.member_id, now_ms, result)
        return
    if response.protocol_type not in (None, PROTOCOL_TYPE) or response.protocol_name not in member.assignors:
        _end(member, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return
    member.metrics.join_latency.record(now_ms - send.sent_ms)
    if member.state is not PREPARING_REBALANCE:
        # The member is no longer in the group (Kafka: UnjoinedGroupException, which is retriable).
        _end(member, DISCONNECTED)
        return
    settings = member.settings
    member.generation = Generation(response.generation_id, response.member_id, response.protocol_name)
    member.heartbeat_request = HeartbeatRequest(
        settings.group_id, response.generation_id, response.member_id, settings.group_instance_id
    )
    member.transition_to(COMPLETING_REBALANCE, result)
    member.heartbeats = True
    member.heartbeat.reset_timeouts(now_ms)
    if response.leader == response.member_id:
        error = lead(member, response, result)
        if error is not ErrorCode.NONE:
            _end(member, error)
    else:
        send_sync(member, {}, result)


def go_on_leading(member: Member, result: Result) -> None:
    """Continue the assignment: the metadata that the leader waited for has arrived."""
    if member.election is None:
        return
    if member.state is not COMPLETING_REBALANCE:
        # A heartbeat in the meantime had the response that the member is out of the group. Kafka's client gets the same
        # error for a SyncGroup without a generation; its response is known.
        member.election = None
        _end(member, ErrorCode.UNKNOWN_MEMBER_ID)
        return
    error = assign(member, result)
    if error is not ErrorCode.NONE:
        _end(member, error)


def _not_joined(member: Member, send: Send, error: ErrorCode, member_id: str, now_ms: int, result: Result) -> None:
    if error is ErrorCode.UNKNOWN_MEMBER_ID:
        if send.generation == member.generation:
            member.reset_generation(f"encountered {error.name} from JOIN_GROUP response", False, result)
    elif error in COORDINATOR_GONE:
        _end(member, error)
        coordinator_failed(member, now_ms, result)
    elif error is ErrorCode.MEMBER_ID_REQUIRED:
        # KIP-394: join again with the member id from the coordinator.
        member.generation = Generation(-1, member_id)
        member.request_rejoin(f"need to re-join with the given member-id: {member_id}")
    _end(member, error, fatal=error not in JOIN_ERRORS)


def synced(member: Member, send: Send, response: SyncGroupResponse, now_ms: int, result: Result) -> None:
    """Handle SyncGroup's response, the assignment. The application's next poll takes it."""
    error = error_of(response.error_code)
    if error is ErrorCode.NONE:
        _synced(member, response, now_ms, result)
        return
    if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
        if send.generation == member.generation:
            keep_member_id = error is ErrorCode.ILLEGAL_GENERATION
            member.reset_generation(f"encountered {error.name} from SYNC_GROUP response", keep_member_id, result)
    elif error in COORDINATOR_GONE:
        _end(member, error)
        coordinator_failed(member, now_ms, result)
    _end(member, error, fatal=error not in SYNC_ERRORS)


def _synced(member: Member, response: SyncGroupResponse, now_ms: int, result: Result) -> None:
    if response.protocol_type not in (None, PROTOCOL_TYPE):
        _end(member, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return
    if member.join is None or member.state is not COMPLETING_REBALANCE:
        _end(member, ErrorCode.ILLEGAL_GENERATION)
        return
    if response.protocol_name not in (None, member.generation.protocol_name):
        _end(member, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return
    member.transition_to(STABLE, result)
    member.rejoin_reason = ""
    member.rejoin_needed = False
    member.join.assignment = response.assignment
    if member.settings.single_threaded:
        schedule_task(member, now_ms)


def unanswered(member: Member, send: Send, now_ms: int, result: Result) -> None:
    """Handle a JoinGroup or SyncGroup without a response."""
    _end(member, DISCONNECTED)


def unsupported(member: Member, what: str) -> None:
    """Handle a broker without a usable version of JoinGroup or SyncGroup."""
    if member.join is not None:
        member.join.what = what
    _end(member, ErrorCode.UNSUPPORTED_VERSION)


def _end(member: Member, error: ErrorCode, *, fatal: bool = False) -> None:
    """End the current join with an error; later errors are ignored."""
    if member.join is not None and member.join.error is None and member.join.assignment is None:
        member.join.error = error
        member.join.fatal = fatal


def _complete(member: Member, assignment: bytes, now_ms: int, result: Result) -> None:
    if not member.is_leader:
        member.assignment_snapshot = None
    try:
        partitions = decode_assignment(assignment)
    except DecodeError:
        # Kafka throws, too: the assignor omitted this member.
        member.failure = (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the leader's assignment cannot be read")
        member.request_rejoin("received assignment cannot be read")
        return
    if any(topic not in member.subscription for topic, _ in partitions):
        member.request_rejoin("received assignment does not match the current subscription")
        return
    owned = member.partitions
    assigned = sorted(set(partitions))
    added = tuple(each for each in assigned if each not in owned)
    if member.cooperative:
        kept = set(assigned)
        revoked = tuple(each for each in owned if each not in kept)
        if revoked:
            result.changes.append(Revoked(revoked))
            member.request_rejoin("need to revoke partitions and re-join")
    assert member.generation.protocol_name is not None
    assignor = member.assignors[member.generation.protocol_name]
    assignor.on_assignment(partitions, member.generation.generation_id)
    if member.settings.enable_auto_commit:
        member.auto_commit_ms = now_ms + member.settings.auto_commit_interval_ms
    assign_partitions(member, assigned)
    result.changes.append(Assigned(added))

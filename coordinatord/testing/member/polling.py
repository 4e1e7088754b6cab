"""Steps of a poll. Each event runs the six steps as far as they can go.

1. coordinate: find the coordinator, join and sync, auto-commit when it is due
2. set positions: from committed offsets, otherwise by the reset policy
3. kept records (fetched, not yet returned): if there are any, send the next fetches and return the records
4. send fetches
5. wait for the network or a deadline: this call ends, and the next event continues the poll
6. back to 1

The client of 2017 returned no records after step 5 if a rejoin was needed. Kafka 4.3 has no such check: step 1 drops
the records of revoked partitions, so eager members have none to return, and cooperative members continue to read the
partitions that they keep. The client without a heartbeat thread (`single_threaded`) has the check. Its step 1 also
waits for the join to end, whatever the poll's timeout is.

While the coordinator is unknown, kept records are returned only when the poll's timeout has passed, as in Kafka.
"""

from __future__ import annotations

from coordinatord.testing.member.committing import auto_commit, commit, drive_sync_commit
from coordinatord.testing.member.consumer.heartbeats import leave_group as leave_consumer_group
from coordinatord.testing.member.consumer.membership import give_up_all, take_part
from coordinatord.testing.member.consumer.reconciling import reconcile
from coordinatord.testing.member.events import Commit
from coordinatord.testing.member.fetching import collect, send_fetches
from coordinatord.testing.member.finding import ensure_coordinator
from coordinatord.testing.member.heartbeats import run_task
from coordinatord.testing.member.joining import ensure_active_group, rejoin_needed_or_pending
from coordinatord.testing.member.leaving import leave_group
from coordinatord.testing.member.metadata import maintain
from coordinatord.testing.member.positions import assign_partitions, look_up, update_positions
from coordinatord.testing.member.result import Lost, Polled, Result, Revoked
from coordinatord.testing.member.state import STABLE, Member
from coordinatord.testing.member.timer import NEVER
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.sync_group import SyncGroupRequest


def continue_poll(member: Member, now_ms: int, result: Result) -> None:
    """Continue the application's current call."""
    member.wake_ms = NEVER
    if member.sync_commit is not None:
        drive_sync_commit(member, now_ms, result)
    if member.closing is not None:
        _close(member, now_ms, result)
    elif member.in_poll:
        _poll(member, now_ms, result)


def _poll(member: Member, now_ms: int, result: Result) -> None:
    expired = member.poll_overdue or now_ms >= member.poll_until_ms
    single_threaded = member.settings.single_threaded
    if single_threaded and now_ms >= member.task_ms:
        run_task(member, now_ms, result)
    maintain(member, now_ms, result)
    blocked = member.failure is not None or not _coordinate(member, now_ms, result)
    if member.failure is None and single_threaded and rejoin_needed_or_pending(member):
        if expired:
            member.poll_overdue, member.poll_until_ms = True, NEVER
        return
    if member.failure is None and (expired or not blocked):
        handed, moved = collect(member, now_ms)
        if handed or moved:
            send_fetches(member, now_ms, result)
            _return(member, Polled(handed), now_ms, result)
            return
        if not blocked and member.settings.fetches:
            look_up(member, now_ms, result)  # a kept response may be an out-of-range error
    if member.failure is not None:
        error, what = member.failure
        member.failure = None
        _return(member, Polled({}, error, what), now_ms, result)
        return
    send_fetches(member, now_ms, result)
    if expired:
        _return(member, Polled({}), now_ms, result)


def _coordinate(member: Member, now_ms: int, result: Result) -> bool:
    """Run steps 1 and 2. Return False if the poll must wait here. A poll does not wait for a join (KIP-429)."""
    if member.membership is not None:
        take_part(member, now_ms, result)
        reconcile(member, now_ms, result)
        auto_commit(member, now_ms, result)
        return not member.settings.fetches or update_positions(member, now_ms, result)
    if not ensure_coordinator(member, now_ms, result):
        return False
    if not ensure_active_group(member, now_ms, result):
        return member.coordinator is not None
    auto_commit(member, now_ms, result)
    return not member.settings.fetches or update_positions(member, now_ms, result)


def _return(member: Member, polled: Polled, now_ms: int, result: Result) -> None:
    member.in_poll = member.poll_overdue = False
    member.heartbeat.polled(now_ms)
    result.polled = polled


def _close(member: Member, now_ms: int, result: Result) -> None:
    """Wait for a commit that `begin_close` started, give up all partitions, leave, and wait for the responses."""
    closing = member.closing
    assert closing is not None
    member.wake_at(member.close_deadline_ms)
    expired = now_ms >= member.close_deadline_ms
    if member.sync_commit is not None and not expired:
        return
    member.sync_commit = None
    if not member.closed:
        member.closed = True
        unsubscribe(member, closing.leave, "the consumer is being closed", now_ms, result)
    pending = _awaited(member)
    if not pending or expired:
        if pending:
            result.warnings.append(f"Close timed out with {pending} pending requests to coordinator")
        member.closing = None
        member.in_poll = False
        result.closed = True


def _awaited(member: Member) -> int:
    """Return the number of requests to the coordinator that a close waits for, until its timeout
    (awaitPendingRequests): all except JoinGroup and SyncGroup, whose responses are useless to a closed member. Kafka
    waits for these, too.
    """
    return sum(type(each.request) not in (JoinGroupRequest, SyncGroupRequest) for each in member.in_flight)


def unsubscribe(member: Member, leave: bool | None, reason: str, now_ms: int, result: Result) -> None:
    """Give up all partitions and leave the group. `leave` as in events.Close."""
    if member.membership is not None:
        give_up_all(member, result)
        leave_consumer_group(member, leave, now_ms, result)
        return
    owned = member.assignment
    if owned:
        in_order = member.state is STABLE and member.generation.generation_id >= 0
        result.changes.append(Revoked(owned) if in_order else Lost(owned))
        assign_partitions(member, ())
    leave_group(member, leave, reason, result)


def wake_up(member: Member, now_ms: int, result: Result) -> None:
    """End the current call, if it is a poll or a commit. A join continues in the background as far as it can."""
    sync = member.sync_commit
    if sync is not None and member.closing is None:
        member.sync_commit = None
        if sync.send is not None:
            sync.send.context = None  # the call ends here: the result of the commit is dropped
    if member.in_poll:
        _return(member, Polled({}), now_ms, result)


def begin_close(member: Member, now_ms: int, result: Result) -> None:
    """Start a close. With auto-commit, first commit the consumed offsets, for at most the close's timeout."""
    assert member.closing is not None
    member.close_deadline_ms = now_ms + member.closing.timeout_ms
    member.in_poll = False
    if member.settings.enable_auto_commit and _is_member(member) and member.sync_commit is None:
        commit(member, Commit(None, member.closing.timeout_ms), now_ms, result)


def _is_member(member: Member) -> bool:
    """Return whether a commit may succeed."""
    return member.state is STABLE if member.membership is None else member.membership.epoch > 0

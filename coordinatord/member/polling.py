"""The six steps of a poll (001), as far as each of them can go now.

1. coordinate: find the coordinator, join and sync, commit what is due
2. positions: committed, else by the reset policy
3. records that are kept: with any the poll returns, but first the next fetches go out
4. fetches
5. wait for the network, or a deadline: the step ends, and the next event goes on
6. back to 1

001 describes the client of 2017, which returned empty-handed after step 5 when a rejoin was needed. Kafka 4.3 has no
such check: step 1 takes the records of what it gives up with it, so eager members are empty-handed all the same, and
cooperative ones go on reading what they keep. The client without a thread does have it. Its step 1 also waits for the
join for as long as that takes, whatever the timeout of the poll.

What is kept is handed out while the coordinator is unknown only when the poll's time is up, as in Kafka.
"""

from __future__ import annotations

from coordinatord.member.committing import auto_commit, commit, drive_sync_commit
from coordinatord.member.events import Commit
from coordinatord.member.fetching import collect, send_fetches
from coordinatord.member.finding import ensure_coordinator
from coordinatord.member.heartbeats import run_task
from coordinatord.member.joining import ensure_active_group, rejoin_needed_or_pending
from coordinatord.member.leaving import leave_group
from coordinatord.member.metadata import maintain
from coordinatord.member.positions import assign_partitions, look_up, update_positions
from coordinatord.member.result import Lost, Polled, Result, Revoked
from coordinatord.member.send import Send
from coordinatord.member.state import STABLE, Member
from coordinatord.member.timer import NEVER


def go_on(member: Member, now_ms: int, result: Result) -> None:
    """Go on with whatever call of the application is under way."""
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
            look_up(member, now_ms, result)  # what was kept may have said that an offset is gone
    if member.failure is not None:
        error, what = member.failure
        member.failure = None
        _return(member, Polled({}, error, what), now_ms, result)
        return
    send_fetches(member, now_ms, result)
    if expired:
        _return(member, Polled({}), now_ms, result)


def _coordinate(member: Member, now_ms: int, result: Result) -> bool:
    """Steps 1 and 2; False if the poll has to wait here. For a join it does not (KIP-429)."""
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
    """Commit, give up what we own, leave, and be gone."""
    closing = member.closing
    assert closing is not None
    member.wake_at(member.close_deadline_ms)
    expired = now_ms >= member.close_deadline_ms
    if member.sync_commit is not None and not expired:
        return
    member.sync_commit = None
    if not member.closed:
        member.closed = True
        member.leaving = unsubscribe(member, closing.leave, "the consumer is being closed", result)
    if member.leaving is None or expired:
        member.closing = None
        member.in_poll = False
        result.closed = True


def unsubscribe(member: Member, leave: bool | None, reason: str, result: Result) -> Send | None:
    """Give up what we own, and leave."""
    owned = member.assignment
    if owned:
        in_order = member.state is STABLE and member.generation.generation_id >= 0
        result.changes.append(Revoked(owned) if in_order else Lost(owned))
        assign_partitions(member, ())
    return leave_group(member, leave, reason, result)


def wake_up(member: Member, now_ms: int, result: Result) -> None:
    """End the poll under way, if there is one. A join goes on in the background, as far as it can."""
    if member.in_poll:
        _return(member, Polled({}), now_ms, result)


def begin_close(member: Member, now_ms: int, result: Result) -> None:
    """With auto-commit what was consumed is committed first, while there is time."""
    assert member.closing is not None
    member.close_deadline_ms = now_ms + member.closing.timeout_ms
    member.in_poll = False
    if member.settings.enable_auto_commit and member.state is STABLE and member.sync_commit is None:
        commit(member, Commit(None, member.closing.timeout_ms), now_ms, result)

"""Joining, leaving, being fenced: the changes of a membership that are not about partitions.

| what happens                               | the member                                                            |
|--------------------------------------------|-----------------------------------------------------------------------|
| it has subscribed, and polls               | joins with epoch 0; its id stays the same for its whole life          |
| it unsubscribes, or is closed              | gives up its partitions; leaves: epoch -1, a static member's is -2    |
| no poll for max.poll.interval.ms           | leaves; loses its partitions and joins again at the next poll         |
| FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID     | loses its partitions at the next poll, then joins with epoch 0        |
| an error that no retry can mend            | loses its partitions; the poll raises the error                       |
"""

from __future__ import annotations

from coordinatord.testing.member.consumer.state import (
    FATAL,
    FENCED,
    JOINING,
    JOINING_EPOCH,
    LEAVING,
    LEAVING_EPOCH,
    LEAVING_FOR_NOW_EPOCH,
    NO_ASSIGNMENT,
    PREPARE_LEAVING,
    PREVIOUS_STATES,
    SILENT,
    STALE,
    UNSUBSCRIBED,
    Membership,
    MemberState,
)
from coordinatord.testing.member.positions import assign_partitions
from coordinatord.testing.member.result import Lost, Result, Revoked, Transition
from coordinatord.testing.member.send import Generation
from coordinatord.testing.member.state import Member
from coordinatord.testing.member.timer import NEVER
from kafka_wire.errors import ErrorCode


def membership_of(member: Member) -> Membership:
    """The membership of a member that uses the consumer protocol."""
    assert member.membership is not None
    return member.membership


def transition_to(member: Member, state: MemberState, result: Result, reason: str = "") -> None:
    """The only way to change the state. Heartbeats at once: in JOINING and ACKNOWLEDGING."""
    membership = membership_of(member)
    old = membership.state
    assert state is old or old in PREVIOUS_STATES[state], f"no transition from {old.value} to {state.value}"
    membership.state = state
    if state is not old:
        result.transitions.append(Transition(old.value, state.value, member.generation, reason))


def set_epoch(member: Member, epoch: int) -> None:
    """Commits carry the epoch from now on; those of a member that is in no group carry none."""
    membership = membership_of(member)
    membership.epoch = epoch
    member.generation = Generation(epoch if epoch > 0 else -1, membership.member_id)


def join(member: Member, now_ms: int, result: Result, reason: str = "") -> None:
    """Ask to be taken in, by the next heartbeat, which is due at once."""
    membership = membership_of(member)
    _begin_life(membership)
    set_epoch(member, JOINING_EPOCH)
    transition_to(member, JOINING, result, reason)
    membership.target = NO_ASSIGNMENT
    membership.names.clear()
    membership.due_ms = now_ms


def fenced(member: Member, reason: str, now_ms: int, result: Result) -> None:
    """The coordinator does not know the member, or not in its epoch."""
    membership = membership_of(member)
    transition_to(member, FENCED, result, reason)
    abort_reconciliation(member)
    set_epoch(member, JOINING_EPOCH)
    membership.attempts = membership.retry_ms = 0
    _lose(member, now_ms, result)


def fail(member: Member, error: ErrorCode, what: str, now_ms: int, result: Result) -> None:
    """The coordinator refuses the member for good: the application's poll is told why."""
    transition_to(member, FATAL, result, error.name)
    abort_reconciliation(member)
    set_epoch(member, JOINING_EPOCH)
    member.failure = (error, what)
    _lose(member, now_ms, result)


def leave(member: Member, wanted: bool | None, result: Result) -> bool:
    """Leave the group, whose partitions the caller has given up. Returns whether to tell the coordinator.

    `wanted` as in events.Close: a dynamic member that does not want to leave says nothing, and a static member that
    does not want to leave says that it will be back.
    """
    membership = membership_of(member)
    membership.wants_in = False
    if membership.state is FENCED:
        membership.loses = False
        transition_to(member, UNSUBSCRIBED, result)
    if membership.state in SILENT:
        return False
    abort_reconciliation(member)
    transition_to(member, PREPARE_LEAVING, result)
    is_static = member.settings.group_instance_id is not None
    set_epoch(member, LEAVING_FOR_NOW_EPOCH if is_static and not wanted else LEAVING_EPOCH)
    membership.current = membership.target = NO_ASSIGNMENT
    membership.names.clear()
    transition_to(member, LEAVING, result)
    return member.coordinator is not None and (is_static or wanted is not False)


def left(member: Member, result: Result, *, is_stale: bool, now_ms: int) -> None:
    """The coordinator has been told, or cannot be. A stale member keeps what it owns until the next poll."""
    _begin_life(membership_of(member))
    transition_to(member, STALE if is_stale else UNSUBSCRIBED, result)
    if is_stale:
        _lose(member, now_ms, result)


def take_part(member: Member, now_ms: int, result: Result) -> None:
    """The application polls: give up what was lost, and join if the member is in no group."""
    membership = membership_of(member)
    if membership.loses:
        membership.loses = False
        owned = member.assignment
        if owned:
            result.changes.append(Lost(owned))
            assign_partitions(member, ())
        membership.current = NO_ASSIGNMENT
    if membership.state in (FENCED, STALE):
        join(member, now_ms, result, "rejoins")
    elif membership.state is UNSUBSCRIBED and membership.wants_in:
        join(member, now_ms, result, "subscribed")
    membership.wants_in = False


def give_up_all(member: Member, result: Result) -> None:
    """Give up all partitions, in order if the member is in its group."""
    membership = membership_of(member)
    owned = member.assignment
    if owned:
        in_order = membership.epoch > 0 and not membership.loses
        result.changes.append(Revoked(owned) if in_order else Lost(owned))
        assign_partitions(member, ())
    membership.loses = False
    membership.current = NO_ASSIGNMENT


def abort_reconciliation(member: Member) -> None:
    """The member is to own nothing of what it was about to get: it is out of the group."""
    membership_of(member).reconciling = None
    if member.prepare_commit is not None:
        member.prepare_commit.context = None
    member.prepare_commit = member.prepare_commit_error = None
    member.prepare_deadline_ms = NEVER


def _begin_life(membership: Membership) -> None:
    membership.lives += 1
    membership.in_flight = None
    membership.attempts = membership.retry_ms = 0
    membership.say_all_again()


def _lose(member: Member, now_ms: int, result: Result) -> None:
    """Fetch no more. The partitions are given up within a poll, as the application's listener is called there."""
    membership = membership_of(member)
    membership.loses = True
    for state in member.partitions.values():
        state.pending_revocation = True
    if member.in_poll or (not member.partitions and membership.state is FENCED):
        take_part(member, now_ms, result)

"""Joining, leaving, being fenced: the changes of a membership that do not concern partitions.

| event                                      | the member                                                            |
|--------------------------------------------|-----------------------------------------------------------------------|
| it has subscribed, and polls               | joins with member epoch 0; its id stays the same for its whole life   |
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
    """Return the membership of a member that uses the consumer protocol."""
    assert member.membership is not None
    return member.membership


def transition_to(member: Member, state: MemberState, result: Result, reason: str = "") -> None:
    """Change the state; all changes go through this function. JOINING and ACKNOWLEDGING make a
    heartbeat due at once.
    """
    membership = membership_of(member)
    old = membership.state
    assert state is old or old in PREVIOUS_STATES[state], f"no transition from {old.value} to {state.value}"
    membership.state = state
    if state is not old:
        result.transitions.append(Transition(old.value, state.value, member.generation, reason))


def set_epoch(member: Member, epoch: int) -> None:
    """Set the member epoch, which commits carry from now on; commits of a member without a group carry none."""
    membership = membership_of(member)
    membership.epoch = epoch
    member.generation = Generation(epoch if epoch > 0 else -1, membership.member_id)


def join(member: Member, now_ms: int, result: Result, reason: str = "") -> None:
    """Join the group with the next heartbeat, which is due at once."""
    membership = membership_of(member)
    _begin_life(membership)
    set_epoch(member, JOINING_EPOCH)
    transition_to(member, JOINING, result, reason)
    membership.target = NO_ASSIGNMENT
    membership.names.clear()
    membership.due_ms = now_ms


def fenced(member: Member, reason: str, now_ms: int, result: Result) -> None:
    """Handle FENCED_MEMBER_EPOCH or UNKNOWN_MEMBER_ID: the member is out of the group, and loses its partitions."""
    membership = membership_of(member)
    transition_to(member, FENCED, result, reason)
    abort_reconciliation(member)
    set_epoch(member, JOINING_EPOCH)
    membership.attempts = membership.retry_ms = 0
    _lose(member, now_ms, result)


def fail(member: Member, error: ErrorCode, what: str, now_ms: int, result: Result) -> None:
    """Handle a permanent rejection by the coordinator: the application's poll raises the error."""
    transition_to(member, FATAL, result, error.name)
    abort_reconciliation(member)
    set_epoch(member, JOINING_EPOCH)
    member.failure = (error, what)
    _lose(member, now_ms, result)


def leave(member: Member, wanted: bool | None, result: Result) -> bool:
    """Leave the group; the caller has given up its partitions. Return whether to send the coordinator a heartbeat.

    `wanted` as `leave` in events.Close: with False, a dynamic member sends no heartbeat, and a static member sends one
    that announces its return.
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
    """Complete a leave, once the heartbeat is sent or cannot be. A stale member keeps its partitions until the next
    poll.
    """
    _begin_life(membership_of(member))
    transition_to(member, STALE if is_stale else UNSUBSCRIBED, result)
    if is_stale:
        _lose(member, now_ms, result)


def take_part(member: Member, now_ms: int, result: Result) -> None:
    """Handle a poll of the application: give up lost partitions, and join if the member is in no group."""
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
    """Give up all partitions: they are revoked if the member is in its group, otherwise lost."""
    membership = membership_of(member)
    owned = member.assignment
    if owned:
        in_order = membership.epoch > 0 and not membership.loses
        result.changes.append(Revoked(owned) if in_order else Lost(owned))
        assign_partitions(member, ())
    membership.loses = False
    membership.current = NO_ASSIGNMENT


def abort_reconciliation(member: Member) -> None:
    """Abort a reconciliation because the member is out of the group."""
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
    """Stop fetching. The partitions are given up within a poll, as the application's listener is called there."""
    membership = membership_of(member)
    membership.loses = True
    for state in member.partitions.values():
        state.pending_revocation = True
    if member.in_poll or (not member.partitions and membership.state is FENCED):
        take_part(member, now_ms, result)

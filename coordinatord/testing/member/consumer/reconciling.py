"""Reconciliation: from the partitions that a member owns to those of its target assignment, as in Kafka's
maybeReconcile and revokeAndAssign.

All of it happens within polls, since it calls the application's listener:

1. Find the names of the topics, which the coordinator identifies by id; request metadata if some are unknown. Unknown
   topics are left for later, and the others are reconciled.
2. Stop fetching the partitions to be given up. With auto-commit, commit the consumed offsets, for at most the rebalance
   timeout, after which the coordinator would fence the member.
3. First give up partitions (the application's listener is called), then take new ones. The next heartbeat, which is due
   at once, lists the partitions that the member owns now: only then does another member get those that this member has
   given up.

A new assignment that arrives in the meantime waits until this one is acknowledged, even if it gives back some
partitions.
"""

from __future__ import annotations

from coordinatord.testing.member.committing import commit_before_rejoin
from coordinatord.testing.member.consumer.membership import membership_of, transition_to
from coordinatord.testing.member.consumer.state import ACKNOWLEDGING, RECONCILING, LocalAssignment
from coordinatord.testing.member.positions import assign_partitions
from coordinatord.testing.member.result import Assigned, Result, Revoked
from coordinatord.testing.member.state import Member


def reconcile(member: Member, now_ms: int, result: Result) -> None:
    """Continue a reconciliation as far as possible; called within polls."""
    membership = membership_of(member)
    if membership.state is not RECONCILING:
        return
    if membership.reconciling is None and not _begin(member, now_ms, result):
        return
    if now_ms < member.join_again_ms:
        member.wake_at(member.join_again_ms)
        return
    if commit_before_rejoin(member, now_ms, result):
        _revoke_and_assign(member, now_ms, result)


def _begin(member: Member, now_ms: int, result: Result) -> bool:
    """Begin a reconciliation. Return whether there is something to commit, to give up or to take."""
    membership = membership_of(member)
    if membership.target == membership.current:
        return False
    known = {}
    for topic_id, partitions in membership.target.partitions.items():
        name = member.cluster.names.get(topic_id) or membership.names.get(topic_id)
        if name is None:
            member.metadata_wanted = True
        else:
            membership.names[topic_id] = name
            known[topic_id] = partitions
    resolved = LocalAssignment(membership.target.number, known)
    if membership.current.number >= 0 and membership.current.partitions == known:
        # The remaining topics wait for metadata. Kafka's client acknowledges again and again meanwhile; once is enough.
        if membership.current != resolved:
            membership.current = resolved
            transition_to(member, ACKNOWLEDGING, result)
            membership.due_ms = now_ms
        return False
    membership.reconciling = resolved
    wanted = _named(member, resolved)
    for partition, state in member.partitions.items():
        state.pending_revocation = partition not in wanted
    member.join_again_ms = now_ms
    return True


def _revoke_and_assign(member: Member, now_ms: int, result: Result) -> None:
    membership = membership_of(member)
    resolved = membership.reconciling
    assert resolved is not None
    wanted = _named(member, resolved)
    revoked = tuple(each for each in member.partitions if each not in wanted)
    added = tuple(each for each in sorted(wanted) if each not in member.partitions)
    if revoked:
        result.changes.append(Revoked(revoked))
    assign_partitions(member, wanted)
    result.changes.append(Assigned(added))
    membership.reconciling = None
    membership.current = resolved
    membership.names = {each: name for each, name in membership.names.items() if each in resolved.partitions}
    if member.settings.enable_auto_commit:
        member.auto_commit_ms = now_ms + member.settings.auto_commit_interval_ms
    transition_to(member, ACKNOWLEDGING, result)
    membership.due_ms = now_ms


def _named(member: Member, assignment: LocalAssignment) -> set[tuple[str, int]]:
    names = membership_of(member).names
    return {(names[topic_id], each) for topic_id, numbers in assignment.partitions.items() for each in numbers}

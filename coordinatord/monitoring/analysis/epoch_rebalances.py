"""The cause and the outcome of each epoch of a group of the consumer protocol (KIP-848).

Such a group logs its changes, so most causes are read and not inferred. Only the cause of a member's removal is
inferred: a member that leaves and one that expires produce the same records.
tests/monitoring/pipeline/test_kafka_epochs.py has consumers do each of these things on Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from coordinatord.monitoring.analysis.consumer_group import AWAY, UNREVOKED, MemberState
from coordinatord.monitoring.analysis.generations import COMMIT_MS, CONSUMER_HEARTBEAT_MS, Commits, Generation, Member
from coordinatord.monitoring.analysis.group_epochs import Changes, Epoch
from coordinatord.monitoring.analysis.rebalances import (
    POLL_SURE,
    SAME_MS,
    Finding,
    Rebalance,
    came_and_went,
    inferred,
    moved,
    names_of,
    observed,
    stopped_polling,
    unlogged,
)
from kafka_wire.records.rebalance_ledger import Why

ASSIGNOR_CHANGED = "assignor changed"

AS_USUAL = 1.1
"""Factor by which a member's commits may be later than usual without any cause."""
FIRST_EPOCH = 2
"""The first logged epoch of a new group: the group starts with 1, and its first member increments the epoch."""


def epoch_rebalances(
    found: Iterable[Epoch | None], commits: Commits, ledger: Sequence[Mapping[str, Any]] = ()
) -> Iterator[Rebalance]:
    """Return a row for each epoch of one group; `ledger` has the coordinator's records of them."""
    told = _Ledger(ledger)
    before: Generation | None = None
    for epoch in found:
        if epoch is None:
            before = None
            continue
        if epoch.is_conversion:
            before = epoch.last
            continue
        if before is None and epoch.number <= FIRST_EPOCH:
            before = Generation(epoch.number - 1, epoch.began_ms, None, None, None, {})
        row = _row(before, epoch, commits)
        record = told.take(epoch)
        if record is not None:
            row = replace(row, **_observed(record, before), **came_and_went(before, epoch.first, record))
        yield row
        before = epoch.last
    for record in told.left():
        clients = _clients(record)
        row = unlogged(record)
        client_id = clients.get(row.trigger_member_id or "")
        yield replace(row, group_type="consumer", joined_ms=record["assigned_ms"], trigger_client_id=client_id)


class _Ledger:
    """The ledger records of one group's epochs. Records of the rest of an epoch,
    after a load, lack the cause and are left out.
    """

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        self._by_epoch: dict[int, list[Mapping[str, Any]]] = {}
        for record in records:
            if not record.get("resumed"):
                self._by_epoch.setdefault(record["generation_after"], []).append(record)

    def take(self, epoch: Epoch) -> Mapping[str, Any] | None:
        records = self._by_epoch.get(epoch.number, [])
        for record in records:
            if abs(record["began_ms"] - epoch.began_ms) <= SAME_MS:
                records.remove(record)
                return record
        return None

    def left(self) -> list[Mapping[str, Any]]:
        """Return the records of epochs that the cleaner has removed from the log."""
        records = [record for each in self._by_epoch.values() for record in each]
        return sorted(records, key=lambda record: (record["began_ms"], record["generation_after"]))


def _observed(record: Mapping[str, Any], before: Generation | None) -> dict[str, Any]:
    cause = observed(record)
    member_id = cause["trigger_member_id"]
    client_id = _clients(record).get(member_id)
    if client_id is None and before is not None and member_id in before.members:
        client_id = before.members[member_id].client_id
    return cause | {"trigger_client_id": client_id, "initial": record["initial"]}


def _clients(record: Mapping[str, Any]) -> dict[str, str]:
    return {each["member_id"]: each["client_id"] for each in (*record["members"], *record["rejoined"])}


def _row(before: Generation | None, epoch: Epoch, commits: Commits) -> Rebalance:
    after = epoch.first
    return Rebalance(
        generation_before=None if before is None else before.number,
        generation=epoch.number,
        outcome=epoch.outcome,
        began_ms=epoch.began_ms,
        began_after_ms=epoch.began_ms,
        began_before_ms=epoch.began_ms,
        joined_ms=epoch.target_ms,
        ended_ms=epoch.ended_ms,
        initial=before is not None and not before.members,
        protocol=after.protocol,
        leader=None,
        members_before=None if before is None else len(before.members),
        members=len(after.members),
        skipped_generations=0 if before is None else epoch.number - before.number - 1,
        missed_commit_ms=_missed_commit_ms(before, epoch, commits),
        **came_and_went(before, after),
        **moved(before if epoch.target_ms is not None or not after.members else None, after),
        **inferred(infer(before, epoch, commits)),
        group_type="consumer",
    )


def _missed_commit_ms(before: Generation | None, epoch: Epoch, commits: Commits) -> int | None:
    """Return the delay of commits beyond the usual gap, summed over the partitions with
    a new owner, in milliseconds; None if unknown.
    """
    if before is None or epoch.target_ms is None:
        return None
    total, known = 0, False
    owners = epoch.first.owners()
    for partition, owner in before.owners().items():
        if owners.get(partition, owner) == owner:
            continue
        usual = commits.usual_gap(partition, epoch.began_ms)
        gap = commits.widest_gap(partition, epoch.began_ms, epoch.ended_ms or epoch.began_ms)
        if gap is not None and usual is not None:
            known, total = True, total + max(0, gap - usual)
    return total if known else None


def infer(before: Generation | None, epoch: Epoch, commits: Commits) -> Finding | None:
    """Return the cause of the epoch; None if the log lacks the epoch before. A member that disappears causes a new
    epoch at once, so earlier changes since the last epoch were not enough to cause one.
    """
    changes, after = epoch.changes, epoch.first
    if changes.converted and after.members:
        came = [after.members[each] for each in changes.added if each in after.members]
        who = f"{names_of(came)}, of the consumer protocol," if came else "a member of the consumer protocol"
        return Finding(Why.CONVERTED, came[0] if came else None, f"{who} came to a classic group", 0.97)
    if before is None:
        return None
    if changes.removed:
        return _cause_by_removals(before, epoch, commits)
    found = _cause_by_additions(before, epoch)
    if found is not None:
        return found
    if changes.regexes:
        return Finding(Why.REGEX_RESOLVED, None, f"{', '.join(changes.regexes)} stands for other topics now", 0.95)
    found = _nobody_did_it(before, epoch, changes)
    # The remaining case: members whose expressions have not been resolved, as far as the log shows.
    return found or _cause_by_additions(before, epoch, is_resolved=False)


def _cause_by_additions(before: Generation, epoch: Epoch, *, is_resolved: bool = True) -> Finding | None:
    """Return the cause if members joined or subscribe to other topics. An
    expression causes an epoch once it has been resolved.
    """
    changes, after = epoch.changes, epoch.first
    waits = changes.unresolved if is_resolved else frozenset[str]()

    def members(ids: Iterable[str]) -> list[Member]:
        return [after.members[each] for each in ids if each in after.members and each not in waits]

    added, resubscribed = members(changes.added), members(changes.resubscribed)
    restarted = [each for each in resubscribed if each.member_id in changes.restarted]
    late = members(each for each, regex in changes.resolved.items() if regex in changes.regexes)
    if added:
        text = "the group was empty" if not before.members else f"{names_of(added)} joined"
        return Finding(Why.NEW_MEMBER, added[0], text, 0.99)
    if restarted:
        text = f"{names_of(restarted)} restarted and wants other topics"
        return Finding(Why.STATIC_MEMBER_RESTARTED, restarted[0], text, 0.97)
    if resubscribed:
        return Finding(Why.SUBSCRIPTION_CHANGED, resubscribed[0], f"{names_of(resubscribed)} wants other topics", 0.98)
    if late:
        text = f"{names_of(late)} came a while ago, and its expression has been resolved now"
        return Finding(Why.NEW_MEMBER, late[0], text, 0.85)
    return None


def _nobody_did_it(before: Generation, epoch: Epoch, changes: Changes) -> Finding | None:
    gained = sorted(epoch.first.owners().keys() - before.owners().keys())
    if changes.partitions:
        texts = [
            f"{topic} has {now or 'no'} partitions, and had {old or 'none'}" for topic, old, now in changes.partitions
        ]
        return Finding(Why.TOPICS_CHANGED, None, ", ".join(texts), 0.98)
    if changes.hash_before is not None:
        text = "the metadata of its topics changed"
        if gained and epoch.target_ms is not None:
            text += f": there are {', '.join(f'{topic}-{number}' for topic, number in gained[:3])}" + (
                f" and {len(gained) - 3} more" if len(gained) > 3 else ""
            )
        if changes.hash_before == 0 and not gained:
            return Finding(
                Why.TOPICS_CHANGED, None, "the coordinator began to compare topics by a hash (Kafka 4.1)", 0.5
            )
        return Finding(Why.TOPICS_CHANGED, None, text, 0.95)
    if changes.assignors:
        members = [epoch.first.members[each] for each in changes.assignors if each in epoch.first.members]
        if members:
            return Finding(ASSIGNOR_CHANGED, members[0], f"{names_of(members)} wants another assignor", 0.7)
    return None


def _cause_by_removals(before: Generation, epoch: Epoch, commits: Commits) -> Finding:
    """Return the cause for removed members: a member left, or its session expired; its last sign of life decides."""
    at_ms = epoch.began_ms
    state, member = next((state, before.members[state.member_id]) for state in epoch.changes.removed.values())
    session_ms = member.session_timeout_ms
    if state.epoch == AWAY and state.seen_ms is not None:
        if at_ms - state.seen_ms >= session_ms - CONSUMER_HEARTBEAT_MS:
            text = f"{names_of([member])} closed and did not come back in time"
            return Finding(Why.SESSION_EXPIRED, member, text, 0.97)
        return Finding(Why.MEMBER_LEFT, member, f"{names_of([member])} had closed, and was removed", 0.8)
    if state.state == UNREVOKED and state.unrevoked_ms is not None:
        waited_ms = at_ms - state.unrevoked_ms
        if 0 <= waited_ms - state.rebalance_timeout_ms <= 2 * CONSUMER_HEARTBEAT_MS:
            text = f"{names_of([member])} had to give up partitions, and did not for {waited_ms / 1000:.1f} s"
            return Finding(Why.NOT_REVOKED, member, text, 0.85)
    return _left_or_expired(before, state, at_ms, commits)


def _left_or_expired(before: Generation, state: MemberState, at_ms: int, commits: Commits) -> Finding:
    """Return the cause by the last sign of life: a commit for a partition that the member owned (not for one that it
    was still to get, which other members commit), or a record that its heartbeat caused. An epoch is no sign of life:
    other members may have raised it.
    """
    member = state.as_member(state.assigned | state.revoking)
    session_ms = member.session_timeout_ms
    committed_ms = commits.last(member.assigned, at_ms)
    signs = [each for each in (committed_ms, state.seen_ms) if each is not None]
    if not signs:
        return Finding(Why.MEMBER_LEFT, member, f"{names_of([member])} went, and gave no sign of life before", 0.5)
    last_ms = at_ms - max(signs)
    told = f"{names_of([member])} was heard of last {last_ms / 1000:.1f} s before it went"
    line = session_ms - CONSUMER_HEARTBEAT_MS
    if last_ms < line:
        sure = 0.97 if last_ms <= COMMIT_MS + CONSUMER_HEARTBEAT_MS else 0.9
        return Finding(Why.MEMBER_LEFT, member, told, sure)
    near = session_ms <= 2 * last_ms and last_ms <= session_ms + min(session_ms, COMMIT_MS + 2 * CONSUMER_HEARTBEAT_MS)
    usual = [commits.usual_gap(partition, at_ms) for partition in member.assigned]
    gaps: Sequence[int] = [each for each in usual if each is not None]
    if gaps and last_ms <= AS_USUAL * min(gaps):  # hardly longer than its usual silences
        return Finding(Why.MEMBER_LEFT, member, f"{told}, as is usual with it", 0.5)
    if not gaps:  # the member had nothing to commit, or did not commit
        if near:
            return Finding(Why.SESSION_EXPIRED, member, f"{told}, about as long as its session lasts", 0.7)
        # A member that expires has been silent for this long, a member that leaves may have been.
        return Finding(Why.SESSION_EXPIRED, member, f"{told}; nothing else tells how it went", 0.5)
    if stopped_polling(member, last_ms, commits, at_ms):
        return Finding(Why.MEMBER_LEFT, member, f"{told}: as long as it may be between two polls", POLL_SURE)
    sure = 0.95 if near and last_ms >= 2 * min(gaps) else 0.8  # one commit may be missing for another reason
    return Finding(Why.SESSION_EXPIRED, member, f"{told}, and its session lasts {session_ms / 1000:.0f} s", sure)

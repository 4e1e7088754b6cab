"""The changes between two generations, and their cause.

The ledger's record of a rebalance contains the cause (*observed*). Without a record, the cause is *inferred* from the
traces that a rebalance leaves in a plain Kafka log, with a confidence: the members present, those that have
disappeared, and the last commits of their partitions. A consumer commits when it closes; one that crashed has been
silent for its session timeout when the group continues. The confidences approximate the rates that
tests/monitoring/analysis/test_score.py measures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinatord.monitoring.analysis.generations import COMMIT_MS, HEARTBEAT_MS, Commits, Generation, Member
from kafka_wire.records.rebalance_ledger import Outcome, Why

OBSERVED, INFERRED = "observed", "inferred"
INITIAL_DELAY_MS = 3_000
"""The usual group.initial.rebalance.delay.ms."""
POLL_SURE = 0.85
"""Confidence that a member left if it was silent for its max.poll.interval.ms."""
EXPIRED_OR_LEFT = 0.5
"""Confidence that a session expired if a member that left would have left the same traces."""
SAME_MS = 60_000
"""Maximum milliseconds between the ends of a ledger record and a log record of the same rebalance."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The cause of a rebalance: `trigger`, the member if one caused it, the evidence, and the confidence."""

    trigger: str
    member: Member | None
    evidence: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A row of the table `rebalances`, whose columns describe the fields."""

    generation_before: int | None
    generation: int
    outcome: str
    began_ms: int | None
    began_after_ms: int | None
    began_before_ms: int | None
    joined_ms: int | None
    ended_ms: int | None
    initial: bool
    protocol: str | None
    leader: str | None
    members_before: int | None
    members: int
    added: int | None
    removed: int | None
    kept: int | None
    skipped_generations: int
    partitions_before: int | None
    partitions_moved: int | None
    partitions_revoked: int | None
    stickiness: float | None
    missed_commit_ms: int | None
    trigger: str | None
    trigger_member_id: str | None
    trigger_client_id: str | None
    client_reason: str | None
    cause: str
    how: str
    confidence: float | None
    group_type: str = "classic"


def rebalances(
    log: Sequence[Generation | None], commits: Commits, ledger: Sequence[Mapping[str, Any]] = ()
) -> Iterator[Rebalance]:
    """Return the rebalances of one group. `log` has its generations in
    order, None for a deletion; `ledger` its records.
    """
    told = _Ledger(ledger)
    before: Generation | None = None
    for after in log:
        if after is None:
            before = None
            continue
        if before is not None and after.number < before.number:
            before = None  # deleted and recreated; the cleaner removed the tombstone
        is_made = before is None and not after.members  # a group is logged when it is created: no rebalance yet
        if not is_made and (before is None or after.number > before.number):
            yield _row(before, after, commits, told.take(after))
        before = after
    yield from (unlogged(record) for record in told.left())


class _Ledger:
    """The ledger records of one group; each belongs to at most one generation."""

    def __init__(self, records: Sequence[Mapping[str, Any]]) -> None:
        self._by_generation: dict[int, list[Mapping[str, Any]]] = {}
        for record in records:
            self._by_generation.setdefault(record["generation_after"], []).append(record)

    def take(self, generation: Generation) -> Mapping[str, Any] | None:
        records = self._by_generation.get(generation.number, [])
        for record in records:
            near = abs(record["ended_ms"] - generation.at_ms) <= SAME_MS
            if near and record["outcome"] in (Outcome.COMPLETED, Outcome.EMPTY):
                records.remove(record)
                return record
        return None

    def left(self) -> list[Mapping[str, Any]]:
        records = [record for each in self._by_generation.values() for record in each]
        return sorted(records, key=lambda record: (record["began_ms"], record["ended_ms"]))


def _row(before: Generation | None, after: Generation, commits: Commits, record: Mapping[str, Any] | None) -> Rebalance:
    ended_ms = after.at_ms
    joined_ms = after.joined_ms
    initial = before is not None and not before.members
    earliest_ms = None if before is None else before.at_ms
    latest_ms = ended_ms if joined_ms is None else joined_ms
    if record is not None:
        began_ms = earliest_ms = latest_ms = record["began_ms"]
        joined_ms, initial = record["joined_ms"], record["initial"]
        what = observed(record)
    else:
        finding = infer(before, after, commits)
        began_ms = None if before is None else _began_ms(before, after, commits, latest_ms)
        what = inferred(finding)
    return Rebalance(
        generation_before=None if before is None else before.number,
        generation=after.number,
        outcome=Outcome.COMPLETED if after.members else Outcome.EMPTY,
        began_ms=began_ms,
        began_after_ms=earliest_ms,
        began_before_ms=latest_ms,
        joined_ms=joined_ms,
        ended_ms=ended_ms,
        initial=initial,
        protocol=after.protocol,
        leader=after.leader,
        members_before=None if before is None else len(before.members),
        members=len(after.members),
        skipped_generations=0 if before is None else after.number - before.number - 1,
        missed_commit_ms=_missed_commit_ms(before, after, commits),
        **came_and_went(before, after, record),
        **moved(before, after),
        **what,
    )


def came_and_went(
    before: Generation | None, after: Generation, record: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the columns added, removed, kept. Without the generation before, only the ledger's record shows which
    members are new, except for a group's first generation.
    """
    if before is None and record is not None:
        added = record["added"]
        return {"added": added, "removed": record["removed"], "kept": record["members_after"] - added}
    if before is None and after.number > 1:
        return dict.fromkeys(("added", "removed", "kept"))
    old, new = frozenset(() if before is None else before.members), frozenset(after.members)
    return {"added": len(new - old), "removed": len(old - new), "kept": len(new & old)}


def observed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cause in the ledger's record."""
    trigger = record["trigger"]
    member_id = trigger.get("member_id")
    came = {each["member_id"]: each["client_id"] for each in record["rejoined"]}
    return {
        "trigger": trigger["kind"],
        "trigger_member_id": member_id,
        "trigger_client_id": came.get(member_id),
        "client_reason": trigger.get("reason"),
        "cause": trigger["text"],
        "how": OBSERVED,
        "confidence": 1.0,
    }


def inferred(finding: Finding | None) -> dict[str, Any]:
    if finding is None:
        return {
            "trigger": None,
            "trigger_member_id": None,
            "trigger_client_id": None,
            "client_reason": None,
            "cause": "the log does not have the generation before",
            "how": INFERRED,
            "confidence": None,
        }
    member = finding.member
    return {
        "trigger": finding.trigger,
        "trigger_member_id": None if member is None else member.member_id,
        "trigger_client_id": None if member is None else member.client_id,
        "client_reason": None,
        "cause": finding.evidence,
        "how": INFERRED,
        "confidence": round(finding.confidence, 2),
    }


def moved(before: Generation | None, after: Generation) -> dict[str, Any]:
    """Return the numbers of partitions with another owner than before and of those
    without an owner now, and the share that stayed.
    """
    if before is None:
        return dict.fromkeys(("partitions_before", "partitions_moved", "partitions_revoked", "stickiness"))
    old, new = before.owners(), after.owners()
    same = sum(new.get(partition) == owner for partition, owner in old.items())
    revoked = sum(partition not in new for partition in old)
    return {
        "partitions_before": len(old),
        "partitions_moved": len(old) - same - revoked,
        "partitions_revoked": revoked,
        "stickiness": same / len(old) if old else None,
    }


def _missed_commit_ms(before: Generation | None, after: Generation, commits: Commits) -> int | None:
    """Return the delay of commits, summed over the partitions: the gap across the rebalance less the usual gap, in
    milliseconds; None if unknown.
    """
    if before is None:
        return None
    total, known = 0, False
    for partition in before.owners():
        gap, usual = commits.gap(partition, after.at_ms), commits.usual_gap(partition, after.at_ms)
        if gap is not None and usual is not None:
            known, total = True, total + max(0, gap - usual)
    return total if known else None


def _began_ms(before: Generation, after: Generation, commits: Commits, latest_ms: int) -> int:
    """Return the approximate beginning: shortly before the first of the remaining members rejoined."""
    if not before.members:
        return max(before.at_ms, latest_ms - INITIAL_DELAY_MS)
    if not after.members:
        return latest_ms
    waited_ms = _waited_ms(before, after, commits, latest_ms)
    return max(before.at_ms, latest_ms - (HEARTBEAT_MS // 2 if waited_ms is None else waited_ms))


def _waited_ms(before: Generation, after: Generation, commits: Commits, joined_ms: int) -> int | None:
    """Return the milliseconds for which the first member to rejoin waited for the last one. Eager consumers commit when
    they rejoin, and then not until they have an assignment; for cooperative ones the result is None.
    """
    if any(member.owned for member in after.members.values()):
        return None
    kept = [member for member_id, member in before.members.items() if member_id in after.members]
    waited = [silence_ms(member, before, joined_ms, commits) for member in kept]
    timeout_ms = max(member.rebalance_timeout_ms for member in before.members.values())
    return max((each for each in waited if each is not None and each <= timeout_ms), default=None)


def infer(before: Generation | None, after: Generation, commits: Commits) -> Finding | None:
    """Return the cause that led from `before` to `after`; None if unknown.
    Causes that leave more traces are tried first.
    """
    if before is None:
        return None
    removed = [member for member_id, member in before.members.items() if member_id not in after.members]
    added = [member for member_id, member in after.members.items() if member_id not in before.members]
    statics = after.statics
    restarted = [member for member in removed if member.instance is not None and member.instance in statics]
    if restarted:
        ids = {statics[member.instance] for member in restarted if member.instance is not None}
        removed = [member for member in removed if member not in restarted]
        added = [member for member in added if member.member_id not in ids]
    finding = _finding(before, after, removed, added, restarted, commits)
    skipped = after.number - before.number - 1
    if not skipped:
        return finding
    evidence = f"{finding.evidence}; {skipped} generations in between came to nothing"
    sure = finding.confidence if finding.trigger == Why.NOT_SYNCED else finding.confidence * 0.7
    return Finding(finding.trigger, finding.member, evidence, sure)


def _finding(
    before: Generation,
    after: Generation,
    removed: Sequence[Member],
    added: Sequence[Member],
    restarted: Sequence[Member],
    commits: Commits,
) -> Finding:
    if not before.members:
        first = next(iter(after.members.values()), None)
        return Finding(Why.NEW_MEMBER, first, "the group was empty", 0.99)
    if removed:
        return _somebody_went(before, after, removed, added, commits)
    if added:
        text = f"{names_of(added)} joined, none left"
        return Finding(Why.NEW_MEMBER, added[0], text, 0.97)
    changed = [
        member
        for member in after.members.values()
        if member.member_id in before.members and member.topics != before.members[member.member_id].topics
    ]
    if changed:
        return Finding(Why.METADATA_CHANGED, changed[0], f"{names_of(changed)} changed the topics", 0.95)
    if restarted:
        return Finding(Why.STATIC_MEMBER_RESTARTED, restarted[0], f"{names_of(restarted)} came with a new id", 0.8)
    return _nobody_came_or_went(before, after)


def _nobody_came_or_went(before: Generation, after: Generation) -> Finding:
    """Return the cause if the members are unchanged: a member rejoined on its own. If its subscription differs each
    time, the coordinator detects a change of metadata; if not, only the leader can cause such a rebalance.
    """
    leader = after.members.get(after.leader or "")
    shed = [
        member
        for member_id, member in after.members.items()
        if member_id in before.members and member.owned != before.members[member_id].owned
    ]
    if after.owners().keys() - before.owners().keys() and not shed:
        what = "the same members, with partitions that no member had"
    elif shed:
        # A cooperative member rejoins after it has revoked partitions for other members.
        what = f"{names_of(shed)} rejoined owning other partitions"
    else:
        what = "the same members with the same topics"
    if shed or (leader is not None and leader.tells_generation):
        return Finding(Why.METADATA_CHANGED, shed[0] if shed else None, what, 0.9)
    return Finding(Why.LEADER_REJOINED, leader, what, 0.9)


def _somebody_went(
    before: Generation, after: Generation, removed: Sequence[Member], added: Sequence[Member], commits: Commits
) -> Finding:
    """Return the cause for removed members: one left, or its session expired; the duration of its silence decides."""
    joined_ms = after.at_ms if after.joined_ms is None else after.joined_ms
    silences = [(member, silence_ms(member, before, joined_ms, commits)) for member in removed]
    late = _not_synced(before, after, joined_ms, silences, commits)
    if late is not None:
        return late
    known = [(member, silence) for member, silence in silences if silence is not None]
    if not known:
        return _nothing_committed(removed, added)
    member, silence = min(known, key=lambda each: each[1] / max(each[0].session_timeout_ms, 1))
    expired = silence >= member.session_timeout_ms - HEARTBEAT_MS
    told = f"{names_of([member])} had committed last {silence / 1000:.1f} s before the others had rejoined"
    sure = _how_sure(silence, member.session_timeout_ms, expired=expired)
    doubt = doubt_of_expiry(member, silence, commits, joined_ms) if expired else None
    if stopped_polling(member, silence, commits, joined_ms):
        text = f"{told}: as long as it may be between two polls"
        return Finding(Why.MEMBER_LEFT, member, text, POLL_SURE)
    if not expired:
        if silence > HEARTBEAT_MS + COMMIT_MS:
            sure *= 0.8
        if added and not {each.client for each in added} & {each.client for each in removed}:
            sure *= 0.7  # one joined and one left: either may have been first
        return Finding(Why.MEMBER_LEFT, member, told, sure)
    if added:
        # A joining member triggers the rebalance at once, and the group waits for the lost one.
        text = f"{names_of(added)} joined; {told}, longer than its session lasts"
        return Finding(Why.NEW_MEMBER, added[0], text, 0.85)
    text = f"{told}, longer than its session lasts"
    if doubt is not None:
        return Finding(Why.SESSION_EXPIRED, member, f"{text}; but {doubt}", EXPIRED_OR_LEFT)
    return Finding(Why.SESSION_EXPIRED, member, text, sure)


def _not_synced(
    before: Generation,
    after: Generation,
    joined_ms: int,
    silences: Sequence[tuple[Member, int | None]],
    commits: Commits,
) -> Finding | None:
    """Return the cause if members joined a generation and never requested their assignment. That generation is in the
    log if the leader did send SyncGroup; else its number is missing.
    """
    timeout_ms = max(member.rebalance_timeout_ms for member in before.members.values())
    member, silence = silences[0]
    if after.number > before.number + 1:
        waited_ms = silence
    elif before.joined_ms is not None and (commits.last(member.assigned, joined_ms) or 0) <= before.at_ms:
        waited_ms = joined_ms - before.joined_ms
    else:
        waited_ms = None
    if waited_ms is None or not timeout_ms <= waited_ms <= timeout_ms + 2 * HEARTBEAT_MS:
        return None
    text = f"{names_of([member])} committed nothing for a rebalance timeout after it had joined, and was gone then"
    return Finding(Why.NOT_SYNCED, member, text, 0.9)


def stopped_polling(member: Member, silence: int, commits: Commits, until_ms: int) -> bool:
    """Return whether a member was silent for max.poll.interval.ms, which clients send as their rebalance timeout: a
    client leaves if its application has not polled for that long. False if a session lasts about as long, because the
    two cannot be distinguished.
    """
    poll_ms = member.rebalance_timeout_ms
    spacing_ms = _spacing_ms(member, commits, until_ms)
    is_apart = poll_ms > member.session_timeout_ms + spacing_ms + HEARTBEAT_MS
    return is_apart and poll_ms <= silence <= poll_ms + spacing_ms + 2 * HEARTBEAT_MS


def doubt_of_expiry(member: Member, silence: int, commits: Commits, until_ms: int) -> str | None:
    """Return the reason why a member that was silent for its session timeout may have left all the same, as text; None
    if it did not. The log has no heartbeats and no LeaveGroup requests: only commits, or their absence.
    """
    spacing_ms = _spacing_ms(member, commits, until_ms)
    poll_ms = member.rebalance_timeout_ms
    if poll_ms <= silence <= poll_ms + spacing_ms + 2 * HEARTBEAT_MS:
        return f"a client also leaves when its application has not polled for {poll_ms / 1000:.0f} s"
    if spacing_ms >= member.session_timeout_ms - HEARTBEAT_MS:
        return f"it committed only every {spacing_ms / 1000:.0f} s"
    return None


def _spacing_ms(member: Member, commits: Commits, until_ms: int) -> int:
    """Return the usual distance of the member's commits in milliseconds."""
    gaps = [commits.usual_gap(partition, until_ms) for partition in member.assigned]
    return max((each for each in gaps if each is not None), default=COMMIT_MS)


def silence_ms(member: Member, generation: Generation, until_ms: int, commits: Commits) -> int | None:
    """Return the time since a member's last commit in the generation, or since another sign of life; since the
    generation began if the member has none but the partitions are committed at other times; None if they never are.
    """
    last_ms = commits.last(member.assigned, until_ms)
    return None if last_ms is None else until_ms - max(last_ms, generation.at_ms, member.seen_ms or 0)


def _how_sure(silence: int, session_ms: int, *, expired: bool) -> float:
    """Return the confidence. An expired session ended a moment ago; the confidence that a member left rises with the
    distance of its silence from the session timeout.
    """
    if expired:
        return 0.95 if silence <= session_ms + COMMIT_MS + 3 * HEARTBEAT_MS else 0.85
    line = session_ms - HEARTBEAT_MS
    return min(0.97, 0.75 + 0.5 * (line - silence) / max(line, 1))


def _nothing_committed(removed: Sequence[Member], added: Sequence[Member]) -> Finding:
    text = f"{names_of(removed)} went, and had never committed for what it was assigned"
    if added:
        return Finding(Why.NEW_MEMBER, added[0], f"{names_of(added)} joined; {text}", 0.4)
    return Finding(Why.MEMBER_LEFT, removed[0], text, 0.5)


def unlogged(record: Mapping[str, Any]) -> Rebalance:
    """Return a rebalance without a generation in the log: superseded, stopped, or compacted away."""
    return Rebalance(
        generation_before=record["generation_before"],
        generation=record["generation_after"],
        outcome=record["outcome"],
        began_ms=record["began_ms"],
        began_after_ms=record["began_ms"],
        began_before_ms=record["began_ms"],
        joined_ms=record["joined_ms"],
        ended_ms=record["ended_ms"],
        initial=record["initial"],
        protocol=record["protocol"],
        leader=record["leader"],
        members_before=record["members_before"],
        members=record["members_after"],
        added=record["added"],
        removed=record["removed"],
        kept=record["members_after"] - record["added"],
        skipped_generations=0,
        partitions_before=None,
        partitions_moved=None,
        partitions_revoked=None,
        stickiness=None,
        missed_commit_ms=None,
        **observed(record),
    )


def names_of(members: Sequence[Member]) -> str:
    """Return the names of up to three members, as text."""
    named = [f"{each.instance or each.client_id} on {each.host.removeprefix('/')}" for each in members[:3]]
    more = len(members) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")

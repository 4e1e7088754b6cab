"""The rebalance ledger: for each rebalance, what made it happen, who came when, who went and why, and what it waited
for. DESIGN calls for it because a plain Kafka log has only the outcome.

`Ledger.observe` follows a group from step to step and closes a record when its rebalance ends. A record is a JSON
object, made once, when somebody has time to write it, and kept as the bytes that go into the topic `__rebalances`; the
last ones stay in memory for the admin page, as many as fit into MEMORY_BYTES. A rebalance has two phases, as a group
has states:

    PreparingRebalance: members rejoin  →  CompletingRebalance: the leader assigns  →  Stable
    began_ms .............. joined_ms ......................... ended_ms

What a record says (version 1; fields may be added to a version, and are never changed or removed):

version
    1
group, node_id
    the group, and the node that coordinated it
outcome
    `completed`; `superseded` by another rebalance before the leader's assignment came; `empty`: nobody was left;
    `stopped`: the coordinator stopped serving the group, or it was deleted
trigger
    `kind` (see group.state.Why) and `text`; `member_id` where it was one member; `reason`, the client's own (KIP-800),
    where it gave one
generation_before, generation_after
    equal when no new generation came about
began_ms, joined_ms, ended_ms
    epoch milliseconds; `joined_ms` is null where the members did not all rejoin
initial
    the group was empty before, so that group.initial.rebalance.delay.ms was waited for
protocol_type, protocol, leader
    of the generation after
members_before, members_after, added, removed
    how many; a static member that restarted is added and removed, its id being another
rejoined
    a list of those that joined, in the order in which they came: `member_id`, `client_id`, `after_ms` since `began_ms`;
    `instance` (group.instance.id) and `reason` where there is one; `is_new` where it is
dropped
    a list of those that went: `member_id`, `cause` (see group.state.Cause), `after_ms`; `instance` where there is one
slowest
    what took longest: `phase` (`join` or `sync`), `member_id`, `after_ms` since the phase began; absent where nobody
    was waited for
omitted
    entries of `rejoined` and `dropped` beyond MAX_ENTRIES, which are counted and not listed
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import orjson
import structlog

from coordinatord.group.result import NO_REASON, Dropped, Joined, Result, Transition, Trigger
from coordinatord.group.state import Group
from coordinatord.group.states import COMPLETING_REBALANCE, DEAD, EMPTY, PREPARING_REBALANCE, STABLE, Cause, GroupState

VERSION = 1

MEMORY_BYTES = 4 * 1024 * 1024
"""Of records that are kept for the admin page: some thousands of usual ones."""

MAX_ENTRIES = 2_000
"""Members that one record lists. A record of so many has 300 KB, less than a message may have (max.message.bytes)."""

COMPLETED, SUPERSEDED, NOBODY_LEFT, STOPPED = "completed", "superseded", "empty", "stopped"

Tell = Callable[[dict[str, Any], int], object]
"""Takes a record without its lists, and how many members were dropped."""

Write = Callable[[Group, Callable[[], bytes]], object]
"""Takes a group and what makes the record of its rebalance, as JSON: to be called once, soon."""


@dataclass(slots=True)
class OpenRebalance:
    """A rebalance that is under way. `rejoined` has (member, epoch ms) by member id, `dropped` the same in a list.

    Each member that joins is noted here, so that is all that is done then: what it says is made in the end.
    """

    began_ms: int
    trigger: Trigger
    generation_before: int
    is_initial: bool
    before: set[str]
    joined_ms: int | None = None
    rejoined: dict[str, tuple[Joined, int]] = field(default_factory=dict)
    dropped: list[tuple[Dropped, int]] = field(default_factory=list)
    omitted: int = 0


class _Ended:
    """A rebalance that has ended. Its members' entries cost more than all else, and nobody waits for them."""

    __slots__ = ("head", "rebalance")

    def __init__(self, head: dict[str, Any], rebalance: OpenRebalance) -> None:
        self.head = head
        self.rebalance = rebalance

    def whole(self) -> dict[str, Any]:
        """The record with its lists."""
        rebalance, began_ms = self.rebalance, self.rebalance.began_ms
        record = self.head.copy()
        record["rejoined"] = [_rejoined(joined, at_ms - began_ms) for joined, at_ms in rebalance.rejoined.values()]
        record["dropped"] = [_dropped(dropped, at_ms - began_ms) for dropped, at_ms in rebalance.dropped]
        return record


class Ledger:
    """Of all groups of a node. One thread writes it; `recent` may be called from others."""

    def __init__(self, node_id: int, write: Write, tell: Tell) -> None:
        """`write` appends to the topic, `tell` is for the log line of a rebalance that has ended."""
        self.node_id = node_id
        self._write = write
        self._tell = tell
        self._open: dict[str, OpenRebalance] = {}
        self._ended: dict[_Ended, None] = {}  # and not written yet
        self._recent: deque[tuple[str, bytes]] = deque()
        self._recent_bytes = 0

    def observe(self, group: Group, result: Result, now_ms: int) -> None:
        """A step has been made that changed states or members."""
        rebalance = self._open.get(group.group_id)
        if not result.transitions:
            if rebalance is not None:
                _note(rebalance, result.changes, now_ms)
            return
        ended: Transition | None = None
        for transition in result.transitions:
            if transition.new is PREPARING_REBALANCE:
                if rebalance is not None:
                    self._close(group, rebalance, SUPERSEDED, transition.generation_id, now_ms)
                rebalance = self._begin(group, result, transition, now_ms)
            else:
                ended = transition
        if rebalance is None:
            return
        _note(rebalance, result.changes, now_ms)
        if ended is not None:
            self._follow(group, rebalance, ended.new, now_ms)

    def rejoined(self, group_id: str, joined: Joined, now_ms: int) -> None:
        """A member is here again, and others are waited for."""
        rebalance = self._open.get(group_id)
        if rebalance is None or joined.member_id in rebalance.rejoined:
            return
        if len(rebalance.rejoined) < MAX_ENTRIES:
            rebalance.rejoined[joined.member_id] = joined, now_ms
        else:
            rebalance.omitted += 1

    def _begin(self, group: Group, result: Result, transition: Transition, now_ms: int) -> OpenRebalance:
        before = set(group.members)
        # The step has been made: undo what it did to the members.
        replaced: set[str | None] = set()
        for change in result.changes:
            if isinstance(change, Dropped):
                if change.cause not in (Cause.ID_NOT_USED, Cause.NOT_LOADED):
                    before.add(change.member_id)
                if change.cause == Cause.REPLACED:
                    replaced.add(change.group_instance_id)
            elif change.is_new or change.group_instance_id in replaced:
                before.discard(change.member_id)
        assert result.trigger is not None, "a rebalance has a reason"
        is_initial = transition.old is EMPTY
        rebalance = OpenRebalance(now_ms, result.trigger, transition.generation_id, is_initial, before)
        self._open[group.group_id] = rebalance
        return rebalance

    def _follow(self, group: Group, rebalance: OpenRebalance, state: GroupState, now_ms: int) -> None:
        if state is COMPLETING_REBALANCE:
            rebalance.joined_ms = now_ms
        elif state is STABLE:
            self._close(group, rebalance, COMPLETED, group.generation_id, now_ms)
        elif state is EMPTY:
            self._close(group, rebalance, NOBODY_LEFT, group.generation_id, now_ms)
        elif state is DEAD:
            self._close(group, rebalance, STOPPED, group.generation_id, now_ms)

    def _close(self, group: Group, rebalance: OpenRebalance, outcome: str, generation_id: int, now_ms: int) -> None:
        del self._open[group.group_id]
        record = self._record(group, rebalance, outcome, generation_id, now_ms)
        ended = _Ended(record, rebalance)
        self._ended[ended] = None
        self._write(group, lambda: self._finish(ended))
        self._tell(record, len(rebalance.dropped))

    def _record(
        self, group: Group, rebalance: OpenRebalance, outcome: str, generation_id: int, now_ms: int
    ) -> dict[str, Any]:
        after, before = group.members, rebalance.before
        stayed = len(before.intersection(after))
        record: dict[str, Any] = {
            "version": VERSION,
            "group": group.group_id,
            "node_id": self.node_id,
            "outcome": outcome,
            "trigger": _trigger(rebalance.trigger),
            "generation_before": rebalance.generation_before,
            "generation_after": generation_id,
            "began_ms": rebalance.began_ms,
            "joined_ms": rebalance.joined_ms,
            "ended_ms": now_ms,
            "initial": rebalance.is_initial,
            "protocol_type": group.protocol_type,
            "protocol": group.protocol_name,
            "leader": group.leader_id,
            "members_before": len(before),
            "members_after": len(after),
            "added": len(after) - stayed,
            "removed": len(before) - stayed,
        }
        slowest = _slowest(rebalance, group.leader_id, outcome, now_ms)
        if slowest is not None:
            record["slowest"] = slowest
        if rebalance.omitted:
            record["omitted"] = rebalance.omitted
        return record

    def _finish(self, ended: _Ended) -> bytes:
        """Make a record's JSON."""
        record = ended.whole()
        data = orjson.dumps(record)
        self._remember(record["group"], data)
        del self._ended[ended]
        return data

    def _remember(self, group_id: str, record: bytes) -> None:
        self._recent.append((group_id, record))
        self._recent_bytes += len(record)
        while self._recent_bytes > MEMORY_BYTES:
            self._recent_bytes -= len(self._recent.popleft()[1])

    def recent(self, group_id: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """The last records, newest first, of one group or of all."""
        # One step of the interpreter each: another thread may be writing. In this order nothing is missed.
        ended, recent = list(self._ended), self._recent.copy()
        fresh = [each.whole() for each in reversed(ended) if group_id is None or each.head["group"] == group_id]
        found = [record for name, record in reversed(recent) if group_id is None or name == group_id]
        return [*fresh, *map(orjson.loads, found[:limit])][:limit]

    def open(self, group: Group) -> dict[str, Any] | None:
        """What is known of a rebalance that is under way; None where there is none."""
        rebalance = self._open.get(group.group_id)
        if rebalance is None:
            return None
        missing = [
            member_id
            for member_id, member in list(group.members.items())
            if rebalance.joined_ms is None and member.join_reply_to is None
        ]
        return {
            "group": group.group_id,
            "trigger": _trigger(rebalance.trigger),
            "began_ms": rebalance.began_ms,
            "joined_ms": rebalance.joined_ms,
            "initial": rebalance.is_initial,
            "waits_for": missing[:MAX_ENTRIES] if rebalance.joined_ms is None else [group.leader_id],
        }


def _note(rebalance: OpenRebalance, changes: list[Joined | Dropped], now_ms: int) -> None:
    rejoined = rebalance.rejoined
    for change in changes:
        if type(change) is Joined:
            member_id = change.member_id
            if member_id in rejoined:
                continue  # asked again: it was here already
            if len(rejoined) < MAX_ENTRIES:
                rejoined[member_id] = change, now_ms
                continue
        elif len(rebalance.dropped) < MAX_ENTRIES:
            assert isinstance(change, Dropped)
            rebalance.dropped.append((change, now_ms))
            continue
        rebalance.omitted += 1


def _trigger(trigger: Trigger) -> dict[str, Any]:
    told = {"kind": trigger.kind, "text": trigger.text}
    if trigger.member_id:
        told["member_id"] = trigger.member_id
    if trigger.reason != NO_REASON:
        told["reason"] = trigger.reason
    return told


def _rejoined(joined: Joined, after_ms: int) -> dict[str, Any]:
    member_id, instance, client_id, reason, is_new = joined
    told: dict[str, Any] = {"member_id": member_id, "after_ms": after_ms, "client_id": client_id}
    if instance is not None:
        told["instance"] = instance
    if is_new:
        told["is_new"] = True
    if reason != NO_REASON:
        told["reason"] = reason
    return told


def _dropped(dropped: Dropped, after_ms: int) -> dict[str, Any]:
    member_id, instance, cause = dropped
    told: dict[str, Any] = {"member_id": member_id, "cause": cause, "after_ms": after_ms}
    if instance is not None:
        told["instance"] = instance
    return told


def _slowest(rebalance: OpenRebalance, leader_id: str | None, outcome: str, now_ms: int) -> dict[str, Any] | None:
    """Who was waited for longest. A member that never came made all others wait for the whole rebalance timeout."""
    ended_ms = now_ms if rebalance.joined_ms is None else rebalance.joined_ms
    join_ms, sync_ms = ended_ms - rebalance.began_ms, now_ms - ended_ms
    if rebalance.joined_ms is not None and sync_ms > join_ms and outcome == COMPLETED:
        return {"phase": "sync", "member_id": leader_id, "after_ms": sync_ms}
    for dropped, _after_ms in rebalance.dropped:
        if dropped.cause == Cause.NOT_REJOINED:
            return {"phase": "join", "member_id": dropped.member_id, "after_ms": join_ms}
    if not rebalance.rejoined or rebalance.is_initial:
        return None
    joined, at_ms = max(rebalance.rejoined.values(), key=_when)
    return {"phase": "join", "member_id": joined.member_id, "after_ms": at_ms - rebalance.began_ms}


_when = itemgetter(1)


def lines() -> Tell:
    """Tells of rebalances in the log, in one line each. To be made when logging is set up."""
    info = structlog.get_logger("coordinatord.ledger").bind().info

    def tell(record: dict[str, Any], dropped: int) -> None:
        trigger, slowest = record["trigger"], record.get("slowest", {})
        info(
            "rebalance",
            group=record["group"],
            outcome=record["outcome"],
            trigger=trigger["kind"],
            member=trigger.get("member_id"),
            client_reason=trigger.get("reason"),
            generation_before=record["generation_before"],
            generation_after=record["generation_after"],
            members_before=record["members_before"],
            members_after=record["members_after"],
            dropped=dropped,
            seconds=(record["ended_ms"] - record["began_ms"]) / 1000,
            slowest=slowest.get("member_id"),
            slowest_phase=slowest.get("phase"),
            slowest_seconds=slowest["after_ms"] / 1000 if slowest else None,
        )

    return tell

"""The rebalance ledger: the trigger of each rebalance, the join time of each member, the removed members with causes,
and the longest wait. A plain Kafka log contains only the result.

`Ledger.observe` follows a group from step to step and closes a record when its rebalance ends. A record is a JSON
object (fields: kafka_wire/records/rebalance_ledger.py). It is encoded once, when the writer has time, and kept as the
bytes that are appended to the topic `__rebalances`; the latest records stay in memory for the admin page, as many as
fit into MEMORY_BYTES.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice, repeat
from typing import Any

import orjson

from coordinatord.base.observe.logger import get_logger
from coordinatord.coordination.group.result import NO_REASON, Dropped, Joined, Result, Transition, Trigger
from coordinatord.coordination.group.state import Group
from coordinatord.coordination.group.states import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    AnyState,
    Cause,
)
from coordinatord.coordination.service.epoch_ledger import EndedEpoch, trigger_fields, under_way
from kafka_wire.records.rebalance_ledger import CLASSIC_VERSION, Outcome

MAX_RECENT = 100
"""Maximum number of records in a response."""

MEMORY_BYTES = 4 * 1024 * 1024
"""Maximum bytes of the records kept for the admin page: several thousand typical ones."""

MAX_ENTRIES = 2_000
"""Maximum number of members listed in one record. A record of this size takes 300 KB, less than max.message.bytes."""


class Rebalance:
    """A rebalance that is in progress, or has ended but is not written yet. A join only stores the member here; its
    entry in the record is built at the end.
    """

    __slots__ = (
        "added",
        "began_ms",
        "came_ms",
        "dropped",
        "ended_ms",
        "generation_after",
        "generation_before",
        "group_id",
        "is_initial",
        "joined_ms",
        "leader",
        "members_after",
        "members_before",
        "newcomers",
        "node_id",
        "omitted",
        "outcome",
        "protocol",
        "protocol_type",
        "rejoined",
        "slowest",
        "trigger",
    )

    # set at the end
    outcome: str
    generation_after: int
    ended_ms: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    members_after: int
    added: int
    slowest: dict[str, Any] | None

    def __init__(
        self, group_id: str, node_id: int, began_ms: int, trigger: Trigger, generation_before: int, *, is_initial: bool
    ) -> None:
        self.group_id = group_id
        self.node_id = node_id
        self.began_ms = began_ms
        self.joined_ms: int | None = None
        self.trigger = trigger
        self.generation_before = generation_before
        self.is_initial = is_initial
        self.members_before = 0
        #: members that are new in this rebalance and still in the group
        self.newcomers: dict[str, None] = {}
        #: by member id, in order of arrival; `came_ms` has the times
        self.rejoined: dict[str, Joined] = {}
        self.came_ms: list[int] = []
        self.dropped: list[tuple[Dropped, int]] = []
        self.omitted = 0

    def came(self, joined: Joined, now_ms: int) -> None:
        """Record a member that has joined. A repeated JoinGroup of the same member counts once."""
        rejoined = self.rejoined
        if joined.member_id in rejoined:
            return
        if len(rejoined) < MAX_ENTRIES:
            rejoined[joined.member_id] = joined
            self.came_ms.append(now_ms)
        else:
            self.omitted += 1

    def note(self, changes: list[Joined | Dropped], now_ms: int) -> None:
        """Record a step's changes to the members."""
        are_the_same = True
        for change in changes:
            if type(change) is Joined:
                are_the_same = are_the_same and not change.is_new
                self.came(change, now_ms)
                continue
            assert isinstance(change, Dropped)
            are_the_same = False
            if len(self.dropped) < MAX_ENTRIES:
                self.dropped.append((change, now_ms))
            else:
                self.omitted += 1
        if not are_the_same:
            self.count(changes)

    def count(self, changes: list[Joined | Dropped]) -> None:
        """Count members that were added and removed."""
        newcomers = self.newcomers
        replaced: str | None = None
        for change in changes:
            if type(change) is Joined:
                # A restarted static member replaces its earlier instance in one step.
                if change.is_new or (replaced is not None and change.group_instance_id == replaced):
                    newcomers[change.member_id] = None
            else:
                assert isinstance(change, Dropped)
                newcomers.pop(change.member_id, None)
                if change.cause == Cause.REPLACED:
                    replaced = change.group_instance_id

    def end(self, group: Group, outcome: str, generation_id: int, now_ms: int) -> None:
        """End the rebalance: store the group's data for the record."""
        members, newcomers = group.members, self.newcomers
        self.outcome = outcome
        self.generation_after = generation_id
        self.ended_ms = now_ms
        self.protocol_type = group.protocol_type
        self.protocol = group.protocol_name
        self.leader = group.leader_id
        self.members_after = len(members)
        self.added = len(newcomers.keys() & members.keys()) if newcomers else 0
        self.slowest = self._slowest()

    def _slowest(self) -> dict[str, Any] | None:
        """Return the longest wait. For a member that never rejoined, all
        others waited for the whole rebalance timeout.
        """
        joined_ms, ended_ms, began_ms = self.joined_ms, self.ended_ms, self.began_ms
        join_ms = (ended_ms if joined_ms is None else joined_ms) - began_ms
        if joined_ms is not None and ended_ms - joined_ms > join_ms and self.outcome == Outcome.COMPLETED:
            return {"phase": "sync", "member_id": self.leader, "after_ms": ended_ms - joined_ms}
        for dropped, _at_ms in self.dropped:
            if dropped.cause == Cause.NOT_REJOINED:
                return {"phase": "join", "member_id": dropped.member_id, "after_ms": join_ms}
        if not self.came_ms or self.is_initial:
            return None
        last_ms = max(self.came_ms)
        member_id = next(islice(self.rejoined, self.came_ms.index(last_ms), None))
        return {"phase": "join", "member_id": member_id, "after_ms": last_ms - began_ms}

    def head(self) -> dict[str, Any]:
        """Return the record without its lists, once the rebalance has ended."""
        head: dict[str, Any] = {
            "version": CLASSIC_VERSION,
            "group": self.group_id,
            "node_id": self.node_id,
            "outcome": self.outcome,
            "trigger": trigger_fields(self.trigger),
            "generation_before": self.generation_before,
            "generation_after": self.generation_after,
            "began_ms": self.began_ms,
            "joined_ms": self.joined_ms,
            "ended_ms": self.ended_ms,
            "initial": self.is_initial,
            "protocol_type": self.protocol_type,
            "protocol": self.protocol,
            "leader": self.leader,
            "members_before": self.members_before,
            "members_after": self.members_after,
            "added": self.added,
            "removed": self.members_before + self.added - self.members_after,
        }
        if self.slowest is not None:
            head["slowest"] = self.slowest
        if self.omitted:
            head["omitted"] = self.omitted
        return head

    def line(self) -> dict[str, Any]:
        """Return the fields of the log line."""
        trigger, slowest = self.trigger, self.slowest or {}
        return {
            "group": self.group_id,
            "outcome": self.outcome,
            "trigger": trigger.kind,
            "member": trigger.member_id or None,
            "client_reason": None if trigger.reason == NO_REASON else trigger.reason,
            "generation_before": self.generation_before,
            "generation_after": self.generation_after,
            "members_before": self.members_before,
            "members_after": self.members_after,
            "dropped": len(self.dropped),
            "seconds": (self.ended_ms - self.began_ms) / 1000,
            "slowest": slowest.get("member_id"),
            "slowest_phase": slowest.get("phase"),
            "slowest_seconds": slowest["after_ms"] / 1000 if slowest else None,
        }

    def whole(self) -> dict[str, Any]:
        """Return the complete record."""
        record, began_ms = self.head(), self.began_ms
        record["rejoined"] = list(map(_rejoined, self.rejoined.values(), self.came_ms, repeat(began_ms)))
        record["dropped"] = [_dropped(dropped, at_ms - began_ms) for dropped, at_ms in self.dropped]
        return record


Tell = Callable[[Rebalance | EndedEpoch], object]
"""Function that is called with a rebalance or an epoch that has ended."""

Write = Callable[[Group, Callable[[], bytes]], object]
"""Function that is called with a group and a function that encodes its rebalance's
record as JSON; the latter is called once, soon.
"""


class Ledger:
    """The ledger of all groups of a node. One thread writes it; `recent` may be called from other threads."""

    def __init__(self, node_id: int, write: Write, write_line: Tell) -> None:
        """`write` appends to the topic; `tell` logs a rebalance that has ended."""
        self.node_id = node_id
        self._write = write
        self._tell = write_line
        self._open: dict[str, Rebalance] = {}
        self._ended: dict[Rebalance | EndedEpoch, None] = {}  # but not written yet
        self._recent: deque[tuple[str, bytes]] = deque()
        self._recent_bytes = 0
        self.watched: deque[Rebalance | EndedEpoch] | None = None
        """Rebalances and epochs that have ended, for a consumer of this queue; None without one."""

    def observe(self, group: Group, result: Result, now_ms: int) -> None:
        """Record a step that has changed states or members, or ended epochs."""
        for account in result.ended:
            self._record(group, EndedEpoch(group.group_id, self.node_id, account))
        rebalance = self._open.get(group.group_id)
        if group.consumer is not None:
            if rebalance is not None:  # the group was a classic group before this step
                self._close(group, rebalance, Outcome.STOPPED, rebalance.generation_before, now_ms)
            return
        if not result.transitions:
            if rebalance is not None:
                rebalance.note(result.changes, now_ms)
            return
        ended: Transition | None = None
        is_noted = False
        for transition in result.transitions:
            if transition.new is PREPARING_REBALANCE:
                if rebalance is not None:
                    rebalance.count(result.changes)  # the group's members already reflect this step
                    self._close(group, rebalance, Outcome.SUPERSEDED, transition.generation_id, now_ms)
                rebalance = self._begin(group, result, transition, now_ms)
                is_noted = True
            else:
                ended = transition
        if rebalance is None:
            return
        if not is_noted:
            rebalance.note(result.changes, now_ms)
        if ended is not None:
            self._follow(group, rebalance, ended.new, now_ms)

    def rejoined(self, group_id: str, joined: Joined, now_ms: int) -> None:
        """Record a member that has rejoined while the group waits for more members."""
        rebalance = self._open.get(group_id)
        if rebalance is None:
            return
        member_id, rejoined = joined.member_id, rebalance.rejoined
        if member_id not in rejoined and len(rejoined) < MAX_ENTRIES:  # nearly always
            rejoined[member_id] = joined
            rebalance.came_ms.append(now_ms)
        else:
            rebalance.came(joined, now_ms)

    def _begin(self, group: Group, result: Result, transition: Transition, now_ms: int) -> Rebalance:
        assert result.trigger is not None, "a rebalance has a reason"
        rebalance = self._open[group.group_id] = Rebalance(
            group.group_id,
            self.node_id,
            now_ms,
            result.trigger,
            transition.generation_id,
            is_initial=transition.old is EMPTY,
        )
        rebalance.note(result.changes, now_ms)
        # The step is already applied: undo its effect on the members.
        members_before = len(group.members) - len(rebalance.newcomers)
        for change in result.changes:  # all changes: the record lists only a limited number of dropped members
            if type(change) is Dropped and change.cause not in (Cause.ID_NOT_USED, Cause.NOT_LOADED):
                members_before += 1
        rebalance.members_before = members_before
        return rebalance

    def _follow(self, group: Group, rebalance: Rebalance, state: AnyState, now_ms: int) -> None:
        if state is COMPLETING_REBALANCE:
            rebalance.joined_ms = now_ms
        elif state is STABLE:
            self._close(group, rebalance, Outcome.COMPLETED, group.generation_id, now_ms)
        elif state is EMPTY:
            self._close(group, rebalance, Outcome.EMPTY, group.generation_id, now_ms)
        elif state is DEAD:
            self._close(group, rebalance, Outcome.STOPPED, group.generation_id, now_ms)

    def _close(self, group: Group, rebalance: Rebalance, outcome: str, generation_id: int, now_ms: int) -> None:
        del self._open[group.group_id]
        rebalance.end(group, outcome, generation_id, now_ms)
        self._record(group, rebalance)

    def _record(self, group: Group, ended: Rebalance | EndedEpoch) -> None:
        self._ended[ended] = None
        self._write(group, partial(self._finish, ended))
        self._tell(ended)
        if self.watched is not None:
            self.watched.append(ended)

    def _finish(self, rebalance: Rebalance | EndedEpoch) -> bytes:
        """Encode a record as JSON."""
        data = orjson.dumps(rebalance.whole())
        self._add_recent(rebalance.group_id, data)
        del self._ended[rebalance]
        return data

    def _add_recent(self, group_id: str, record: bytes) -> None:
        self._recent.append((group_id, record))
        self._recent_bytes += len(record)
        while self._recent_bytes > MEMORY_BYTES:
            self._recent_bytes -= len(self._recent.popleft()[1])

    def recent(self, group_id: str | None = None) -> list[dict[str, Any]]:
        """Return the latest records, newest first, of one group or of all groups. Other threads may call this."""
        # Each copy is atomic in the interpreter: another thread may be writing. In this order no record is missed.
        ended, recent = list(self._ended), self._recent.copy()
        fresh = [each.whole() for each in reversed(ended) if group_id is None or each.group_id == group_id]
        found = [record for name, record in reversed(recent) if group_id is None or name == group_id]
        return [*fresh, *map(orjson.loads, found[:MAX_RECENT])][:MAX_RECENT]

    def open(self, group: Group) -> dict[str, Any] | None:
        """Return the current data of a rebalance in progress; None when there is none."""
        consumer = group.consumer
        if consumer is not None:
            return under_way(group.group_id, consumer)
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
            "trigger": trigger_fields(rebalance.trigger),
            "began_ms": rebalance.began_ms,
            "joined_ms": rebalance.joined_ms,
            "initial": rebalance.is_initial,
            "waits_for": missing[:MAX_ENTRIES] if rebalance.joined_ms is None else [group.leader_id],
        }


def _rejoined(joined: Joined, at_ms: int, began_ms: int) -> dict[str, Any]:
    member_id, instance, client_id, reason, is_new = joined
    told: dict[str, Any] = {"member_id": member_id, "after_ms": at_ms - began_ms, "client_id": client_id}
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


def lines() -> Tell:
    """Return a function that logs each rebalance in one line."""
    log = get_logger("coordinatord.ledger")

    def write_line(rebalance: Rebalance | EndedEpoch) -> None:
        log.info("rebalance", **rebalance.line())

    return write_line

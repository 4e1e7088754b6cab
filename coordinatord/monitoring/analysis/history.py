"""A group's rebalances and its members' lives as its log grows, in bounded memory, for callers that follow a log.

The rows are those of the tables: the same functions, called for each new record, with the commits until then. Only the
last of each are kept: KEEP_REBALANCES, KEEP_LIVES that are over, KEEP_COMMITS times of each partition.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from coordinatord.monitoring.analysis.consumer_group import METADATA, SESSION_MS, ConsumerGroup, MemberState, Row
from coordinatord.monitoring.analysis.epoch_rebalances import epoch_rebalances
from coordinatord.monitoring.analysis.generations import Commits, Generation, Member, TopicPartition
from coordinatord.monitoring.analysis.group_epochs import Epoch, EpochReader
from coordinatord.monitoring.analysis.members import (
    EXPIRED,
    LEFT,
    REPLACED,
    WENT,
    Event,
    Life,
    Lives,
    events,
    how_they_went,
)
from coordinatord.monitoring.analysis.rebalances import Rebalance, rebalances, unlogged
from kafka_wire.records.rebalance_ledger import Cause, Outcome

KEEP_COMMITS = 32
KEEP_REBALANCES = 100
KEEP_LIVES = 200
KEEP_SIZES = 200
"""Number of generations of which the time and the number of members are kept."""
MANY_PARTITIONS, LONG_MS = 1_000, 24 * 3_600_000
UNKNOWN = "unknown"
ENDS = {Cause.SESSION_EXPIRED: EXPIRED, Cause.LEFT: LEFT, Cause.REPLACED: REPLACED}
"""The end of a member's life, by the cause for which a coordinator removed the member."""

CAUSE = ("trigger", "trigger_member_id", "trigger_client_id", "client_reason", "cause", "how", "confidence")


class History:
    """The history of one group. Records are added in the order of the log."""

    def __init__(self, names: Mapping[str, str] | None = None, session_ms: int = SESSION_MS) -> None:
        """`names` are topic names by id, and may grow; `session_ms` is for members of the consumer protocol."""
        self.times: dict[TopicPartition, list[int]] = {}
        self.rebalances: deque[Rebalance] = deque(maxlen=KEEP_REBALANCES)
        self.counts: Counter[str] = Counter()
        """Number of rebalances by trigger, of those while `is_counting`."""
        self.is_counting = True
        self.group_type: str | None = None
        self.epoch: Epoch | None = None
        """The open epoch of a group of the consumer protocol."""
        self._commits = Commits(self.times)
        self._lives, self._epoch_lives = Lives(), Lives()
        self._sizes: deque[Generation | None] = deque(maxlen=KEEP_SIZES)
        self._before: Generation | None = None
        self._reader = EpochReader(ConsumerGroup(names if names is not None else {}, session_ms))
        self._past: Epoch | None = None
        self._row: Rebalance | None = None
        """The row of the open epoch, with the cause that was found at its start."""
        self._events: list[Event] | None = None

    @property
    def session_ms(self) -> int:
        """The session timeout of members of the consumer protocol whose subscriptions are added next."""
        return self._reader.group.session_ms

    @session_ms.setter
    def session_ms(self, session_ms: int) -> None:
        self._reader.group.session_ms = session_ms

    def committed(self, partition: TopicPartition, times_ms: Iterable[int]) -> None:
        """Add commits of a partition, in the order of the log."""
        known = self.times.setdefault(partition, [])
        for time_ms in times_ms:
            if known and time_ms < known[-1]:
                insort(known, time_ms)
            else:
                known.append(time_ms)
        del known[:-KEEP_COMMITS]

    def forget(self, now_ms: int) -> None:
        """Drop old partitions of a group that has committed for very many: topics are created and deleted."""
        if len(self.times) > MANY_PARTITIONS:
            old = [place for place, times in self.times.items() if now_ms - times[-1] > LONG_MS]
            for place in old:
                del self.times[place]

    def generation(self, after: Generation | None) -> None:
        """Add a record of a classic group; None for a tombstone."""
        self._events = None
        self._lives.take(after, self._commits, 1 << 62 if after is None else after.at_ms)
        if after is not None:
            self.group_type = "classic"
            before = self._before
            pair = [after] if before is None else [before, after]
            rows = list(rebalances(pair, self._commits))
            if rows and rows[-1].generation == after.number and (before is None or before.number != after.number):
                self._add(rows[-1])
        self._before = after
        self._note_size(after)

    def record(self, kind: str, row: Row) -> None:
        """Add a record of a group of the consumer protocol: its kind and its columns."""
        self._events = None
        reader = self._reader
        number = len(reader.found)
        if kind == METADATA:
            self._settle()  # while the changes of the open epoch are known
        reader.take(kind, row)
        for found in reader.found[number:]:
            self._close()
            if found is None:
                self._epoch_lives.take(None, self._commits, 1 << 62)
                self._past = None
            else:
                self.group_type = "consumer"
                self._open(found)
        del reader.found[:-1]

    def _open(self, epoch: Epoch) -> None:
        self.epoch = epoch
        first = self._reader.generation(epoch.number)
        self._epoch_lives.take(first, self._commits, first.at_ms)
        self._row = self._row_of(replace(epoch, generations=[first]))
        self._note_size(first)
        if self._row is not None:
            self._add(self._row)

    def _row_of(self, epoch: Epoch) -> Rebalance | None:
        found = [epoch] if self._past is None else [self._past, epoch]
        rows = list(epoch_rebalances(found, self._commits))
        return rows[-1] if rows and rows[-1].generation == epoch.number else None

    def _settle(self) -> None:
        """Update the row and the lives of the open epoch with its present state: its outcome, the assignments."""
        epoch = self.epoch
        if epoch is None or epoch.generations:
            return
        now = self._reader.generation(epoch.number)
        self._epoch_lives.take(now, self._commits, now.at_ms, is_same=True)
        self._update(replace(epoch, generations=[now]))

    def _update(self, epoch: Epoch) -> None:
        row = self._row_of(epoch)
        if row is None or self._row is None:
            return
        kept = {name: getattr(self._row, name) for name in CAUSE}
        for number, each in enumerate(self.rebalances):
            if each is self._row:
                self.rebalances[number] = self._row = replace(row, **kept)
                return

    def _close(self) -> None:
        """End the open epoch, which has its generations."""
        if self.epoch is None:
            return
        for further in self.epoch.generations[1:]:
            self._epoch_lives.take(further, self._commits, further.at_ms)
        self._update(self.epoch)
        self._past, self.epoch, self._row = self.epoch, None, None

    def observed(self, record: Mapping[str, Any]) -> None:
        """Add a rebalance that has ended, from a record of a coordinator's ledger."""
        self._events = None
        if record.get("group_type") == "consumer":
            self.group_type = "consumer"
            rows = list(epoch_rebalances([], self._commits, [record]))
        else:
            self.group_type = "classic"
            rows = [unlogged(record)]
        for row in rows:
            self._add(row)
        # A superseded rebalance of a classic group lists the members that had rejoined by then, not all members.
        if record["outcome"] in (Outcome.COMPLETED, Outcome.EMPTY) or record.get("members") is not None:
            after = _generation_of(record)
            self._lives.take(after, self._commits, after.at_ms)
            causes = {each["member_id"]: each["cause"] for each in record["dropped"]}
            for life in self._lives.found:
                if life.until_ms == after.at_ms and life.member_id in causes:
                    life.end = ENDS.get(causes[life.member_id], WENT)
            self._note_size(after)

    def _add(self, row: Rebalance) -> None:
        self.rebalances.append(row)
        if self.is_counting:
            self.counts[row.trigger or UNKNOWN] += 1

    def _note_size(self, after: Generation | None) -> None:
        if after is not None:
            after = Generation(after.number, after.at_ms, None, None, None, _Size(len(after.members)))
        self._sizes.append(after)

    def unreached(self) -> list[MemberState]:
        """Return the members that have not reached the open epoch yet."""
        members = self._reader.group.members
        return [members[each] for each in sorted(self._reader.pending) if each in members]

    def owners(self) -> dict[TopicPartition, tuple[str, str]]:
        """Return the client id and the host of the member that each partition is assigned to."""
        members: list[Member | MemberState] = list(self._reader.group.members.values())
        if self._before is not None:
            members += self._before.members.values()
        return {place: (each.client_id, each.host) for each in members for place in each.assigned}

    def lives(self) -> list[Life]:
        """Return the members' lives, in the order of their starts."""
        self._settle()
        found = []
        for lives in (self._lives, self._epoch_lives):
            lives.note(self._commits)
            over = [life for life in lives.found if life.until_ms is not None]
            if len(over) > KEEP_LIVES:
                gone = set(map(id, over[:-KEEP_LIVES]))
                lives.found = [life for life in lives.found if id(life) not in gone]
            found += lives.found
        return found

    def went(self) -> str | None:
        """Return how the last members ended: members.how_they_went."""
        return how_they_went(self.lives())

    def topics(self) -> frozenset[str] | None:
        """Return all topics that a member subscribes to; None if they are unknown for any member."""
        group = self._reader.group
        found: list[frozenset[str]] = []
        for member in group.members.values():
            if member.regex is not None and member.regex not in group.regexes:
                return None
            found.append(group.topics_of(member))
        if self._before is not None:
            found += [member.topics for member in self._before.members.values()]
        return frozenset().union(*found) if found and all(found) else None

    def events(self) -> list[Event]:
        """Return crash loops, deployments, storms and zombies."""
        if self._events is None:
            self._events = list(events(self.lives(), list(self._sizes), self._commits))
        return self._events


class _Size(Mapping[str, Member]):
    """A mapping with only the number of members, without the members."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Any:
        return iter(())

    def __getitem__(self, name: str) -> Member:
        raise KeyError(name)


def _generation_of(record: Mapping[str, Any]) -> Generation:
    """Return the members after a rebalance, as far as the ledger has them."""
    gone = {each["member_id"] for each in record.get("dropped", ())}
    there = {each["member_id"]: each for each in (*record.get("members", ()), *record.get("rejoined", ()))}
    members = {
        member_id: Member(
            member_id,
            each.get("instance"),
            each.get("client_id") or "",
            "",
            0,
            0,
            frozenset(),
            frozenset(),
            frozenset(),
        )
        for member_id, each in there.items()
        if member_id not in gone
    }
    at_ms = record["ended_ms"] if record["ended_ms"] is not None else record["began_ms"]
    return Generation(record["generation_after"], at_ms, record.get("joined_ms"), None, None, members)

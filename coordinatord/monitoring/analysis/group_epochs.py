"""The epochs of a group of the consumer protocol (KIP-848): the changes of each one, and
the time at which all members had reached it.

An epoch begins when its record is written. Its changes precede it in the log, after the last epoch: members that joined
or left, other subscriptions, other topics. An epoch has a target once the target is computed, and ends when each member
has its target assignment, or when the next epoch begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from coordinatord.monitoring.analysis.consumer_group import (
    CURRENT,
    MEMBER,
    METADATA,
    PARTITION_METADATA,
    REGEX,
    SESSION_MS,
    TARGET,
    ConsumerGroup,
    MemberState,
    Row,
    TopicNames,
)
from coordinatord.monitoring.analysis.generations import Generation
from kafka_wire.records.rebalance_ledger import Outcome

RECONCILING = "reconciling"
"""The outcome of an epoch in progress; all other outcomes are those of the ledger."""


@dataclass(slots=True)
class Changes:
    """Changes since the last epoch began. Members by id; `partitions` has (topic, number before, number now)."""

    added: list[str] = field(default_factory=list)
    removed: dict[str, MemberState] = field(default_factory=dict)
    resubscribed: list[str] = field(default_factory=list)
    regexes: list[str] = field(default_factory=list)
    assignors: list[str] = field(default_factory=list)
    partitions: list[tuple[str, int | None, int | None]] = field(default_factory=list)
    hash_before: int | None = None
    """The previous hash of the topics' metadata, if it has changed; 0 if there was none."""
    restarted: list[str] = field(default_factory=list)
    """Members that replaced a static member just before the epoch began."""
    unresolved: frozenset[str] = frozenset()
    """Members whose regular expressions had not been resolved when the epoch began: they did not cause it."""
    resolved: dict[str, str] = field(default_factory=dict)
    """Members that joined or resubscribed earlier with an expression that
    has been resolved since, with the expressions.
    """
    converted: bool = False
    """The group was a classic one before."""


@dataclass(slots=True)
class Epoch:
    """An epoch of a group. `generations` has the members and their target assignments: several if a static member
    returned with a new id, which does not increment the epoch. `target_ms` is None if no target was computed for it.
    """

    number: int
    began_ms: int
    changes: Changes
    generations: list[Generation] = field(default_factory=list)
    target_ms: int | None = None
    ended_ms: int | None = None
    outcome: str = RECONCILING
    is_conversion: bool = False
    """The epoch has not risen: a classic group was logged as a consumer group, with its generation as the epoch."""

    @property
    def first(self) -> Generation:
        return self.generations[0]

    @property
    def last(self) -> Generation:
        return self.generations[-1]


def epochs(
    rows: Iterable[tuple[str, Row]], names: TopicNames | None = None, session_ms: int = SESSION_MS
) -> list[Epoch | None]:
    """Return the epochs in one group's rows with their kinds, in the order
    of the log; None where the group was deleted.
    """
    reader = EpochReader(ConsumerGroup(names or {}, session_ms))
    for kind, row in rows:
        reader.take(kind, row)
    reader.close()
    return reader.found


def generations(found: Iterable[Epoch | None]) -> Iterator[Generation | None]:
    """Return the epochs' generations for analysis.members."""
    for epoch in found:
        if epoch is None:
            yield None
        else:
            yield from epoch.generations


class EpochReader:
    """A reader of epochs, record by record."""

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.found: list[Epoch | None] = []
        self.open: Epoch | None = None
        self.since_ms = 0
        """Time at which the period described by the next generation began."""
        self.changes = Changes()
        self.unresolved: dict[str, str] = {}
        """Members whose regular expression has not been resolved yet, with the expression."""
        self.replaced_ms: dict[str, int] = {}
        """Times at which members replaced a static member."""
        self.converted = False
        """True if the last epoch is the first one of a converted classic group."""
        self.pending: set[str] = set()
        """Members that have not reached the epoch yet."""

    def take(self, kind: str, row: Row) -> None:
        if kind == METADATA:
            self._epoch(row)
        elif kind == MEMBER:
            self._member(row)
        elif kind == REGEX:
            before = self.group.regexes.get(row["regular_expression"], frozenset())
            self.group.apply(kind, row)
            if not row["tombstone"]:
                self._resolved(row["regular_expression"], before)
        elif kind == PARTITION_METADATA:
            self._topics(row)
        else:
            self.group.apply(kind, row)
            if not row["tombstone"]:
                self._follow(kind, row)

    def close(self) -> None:
        """End the log: complete the last epoch with its generation."""
        if self.open is not None:
            self.open.generations.append(self.generation(self.open.number))
            self.open = None

    def generation(self, number: int) -> Generation:
        """Return the generation before the changes that lead to the next epoch."""
        here = [each for each in self.group.members.values() if each.member_id not in self.changes.added]
        members = {each.member_id: each.as_member(each.target) for each in (*here, *self.changes.removed.values())}
        return Generation(number, self.since_ms, None, self.group.assignor, None, members)

    def _epoch(self, row: Row) -> None:
        at_ms, hash_before, is_known = row["timestamp_ms"], self.group.metadata_hash, self.group.epoch is not None
        if not row["tombstone"] and row["epoch"] == self.group.epoch:
            self.group.apply(METADATA, row)
            return
        if self.open is not None and self.open.ended_ms is None:
            self.open.ended_ms, self.open.outcome = at_ms, Outcome.SUPERSEDED
        self.close()
        self.group.apply(METADATA, row)
        changes, self.changes = self.changes, Changes()
        changes.unresolved = frozenset(self.unresolved)
        changes.restarted = [each for each, when_ms in self.replaced_ms.items() if when_ms == at_ms]
        self.replaced_ms = {}
        self.pending = set(self.group.members)
        if row["tombstone"]:
            self.found.append(None)
            return
        if is_known and hash_before != self.group.metadata_hash:
            changes.hash_before = hash_before
        changes.converted = self.converted
        self.converted = not is_known and all(each.is_classic for each in self.group.members.values())
        self.open = Epoch(row["epoch"], at_ms, changes, is_conversion=self.converted)
        self.since_ms = at_ms
        self.found.append(self.open)
        if not self.group.members:
            self.open.ended_ms, self.open.outcome = at_ms, Outcome.EMPTY

    def _member(self, row: Row) -> None:
        group, changes, member_id = self.group, self.changes, row["member_id"]
        old = group.members.get(member_id)
        if row["tombstone"]:
            group.apply(MEMBER, row)
            self.pending.discard(member_id)
            self.unresolved.pop(member_id, None)
            if member_id in changes.added:
                changes.added.remove(member_id)  # its regular expression was never resolved
            elif old is not None:
                changes.removed[member_id] = old
            return
        if old is None:
            old = self._replaced(row)
        if member_id in group.ahead:  # it has been a member throughout
            group.apply(MEMBER, row)
            return
        group.apply(MEMBER, row)
        new = group.members[member_id]
        self.unresolved.pop(member_id, None)
        if new.regex is not None and new.regex not in group.regexes:
            self.unresolved[member_id] = new.regex
        if old is None:
            changes.added.append(member_id)
            return
        if (new.topics, new.regex) != (old.topics, old.regex) and member_id not in changes.added:
            changes.resubscribed.append(member_id)
        if new.assignor != old.assignor:
            changes.assignors.append(member_id)

    def _replaced(self, row: Row) -> MemberState | None:
        """Return the static member that a new one replaces, or None; a replacement does not cause an epoch."""
        instance = row.get("instance_id")
        if instance is None:
            return None
        for old in self.changes.removed.values():
            if old.instance == instance:
                if self.open is not None:
                    self.open.generations.append(self.generation(self.open.number))
                    self.pending.add(row["member_id"])
                self.since_ms = row["timestamp_ms"]
                self.replaced_ms[row["member_id"]] = self.since_ms
                del self.changes.removed[old.member_id]
                return old
        return None

    def _resolved(self, regex: str, before: frozenset[str]) -> None:
        if self.group.regexes[regex] != before:
            self.changes.regexes.append(regex)
        for member_id in [each for each, waited in self.unresolved.items() if waited == regex]:
            del self.unresolved[member_id]
            self.changes.resolved[member_id] = regex

    def _topics(self, row: Row) -> None:
        before = self.group.topics
        self.group.apply(PARTITION_METADATA, row)
        now = self.group.topics
        if before is None or now is None:
            return
        for topic in sorted(before.keys() | now.keys()):
            if before.get(topic) != now.get(topic):
                self.changes.partitions.append((topic, before.get(topic), now.get(topic)))

    def _follow(self, kind: str, row: Row) -> None:
        epoch = self.open
        if epoch is None:
            return
        has_target = (self.group.assignment_epoch or 0) >= epoch.number
        if kind == TARGET and has_target and epoch.target_ms is None and epoch.ended_ms is None:
            epoch.target_ms = row["timestamp_ms"]
        if kind == CURRENT and row["member_id"] in self.group.members:
            if self.group.members[row["member_id"]].has_reached(epoch.number):
                self.pending.discard(row["member_id"])
            else:
                self.pending.add(row["member_id"])
        if has_target and not self.pending and epoch.ended_ms is None:
            epoch.ended_ms, epoch.outcome = row["timestamp_ms"], Outcome.COMPLETED

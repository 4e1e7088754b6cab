"""A group of the consumer protocol (KIP-848), rebuilt record by record: plain values, made from rows.

Kafka logs nearly all its decisions: a member's subscription (record type 5), the group epoch, which rises when members
or topics change (3), the target assignment (7 for each member whose share changes, then 6), and each member's current
assignment, whenever a heartbeat moves it closer to the target (8). A member that leaves or expires gets three
tombstones (8, 7, 5) before the epoch rises; the log does not show which of the two happened. Topics are ids except in
type 4, which Kafka wrote until 4.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coordinatord.monitoring.analysis.generations import (
    CONSUMER_HEARTBEAT_MS,
    HEARTBEAT_MS,
    Generation,
    Member,
    TopicPartition,
)

METADATA = "consumer_group_metadata"
PARTITION_METADATA = "consumer_group_partition_metadata"
MEMBER = "consumer_group_member_metadata"
TARGET = "consumer_group_target_assignment_metadata"
TARGET_MEMBER = "consumer_group_target_assignment_member"
CURRENT = "consumer_group_current_member_assignment"
REGEX = "consumer_group_regular_expression"
CONSUMER_KINDS = (METADATA, PARTITION_METADATA, MEMBER, TARGET, TARGET_MEMBER, CURRENT, REGEX)

SESSION_MS = 45_000
"""Default of group.consumer.session.timeout.ms; the log does not contain the setting, nor a group's own."""
STABLE, UNREVOKED = 0, 1
"""States of a current assignment: it equals the target; partitions must be revoked."""
AWAY = -2
"""The epoch of a static member that has closed and is expected to rejoin."""

Row = Mapping[str, Any]
TopicNames = Mapping[str, str]
"""The known topic names by id."""


@dataclass(slots=True)
class MemberState:
    """The state of one member. `epoch` is None until the member has an assignment. `seen_ms` is the time at which the
    assignment or the subscription was last written, which only the member's own heartbeat causes. `unrevoked_ms` is the
    time at which the member was last requested to revoke partitions: its rebalance timeout starts then.
    """

    member_id: str
    instance: str | None
    client_id: str
    host: str
    topics: frozenset[str]
    regex: str | None
    assignor: str | None
    rebalance_timeout_ms: int
    session_timeout_ms: int
    is_classic: bool = False
    """True if the member uses the classic protocol, and the coordinator translates."""
    target: frozenset[TopicPartition] = frozenset()
    assigned: frozenset[TopicPartition] = frozenset()
    revoking: frozenset[TopicPartition] = frozenset()
    epoch: int | None = None
    state: int = STABLE
    seen_ms: int | None = None
    unrevoked_ms: int | None = None

    def has_reached(self, epoch: int) -> bool:
        """Return whether the member has its target assignment of an epoch, or of a later one."""
        return self.epoch is not None and self.epoch >= epoch and self.state == STABLE and self.assigned == self.target

    def as_member(self, assigned: frozenset[TopicPartition]) -> Member:
        return Member(
            self.member_id, self.instance, self.client_id, self.host, self.session_timeout_ms,
            self.rebalance_timeout_ms, self.topics, frozenset(), assigned, seen_ms=self.seen_ms,
            # A third of a session at most, as Kafka advises; at least a classic client's interval.
            heartbeat_ms=min(CONSUMER_HEARTBEAT_MS, max(HEARTBEAT_MS, self.session_timeout_ms // 3)),
        )  # fmt: skip


@dataclass(slots=True)
class ConsumerGroup:
    """The group's state after the records so far; `apply` adds the next one. `names` are topic names by id."""

    names: TopicNames = field(default_factory=dict)
    session_ms: int = SESSION_MS
    members: dict[str, MemberState] = field(default_factory=dict)
    ahead: dict[str, MemberState] = field(default_factory=dict)
    """Members whose assignments precede their subscription in the log: the subscription was written again, and the
    cleaner removed the first one.
    """
    epoch: int | None = None
    epoch_ms: int = 0
    metadata_hash: int = 0
    assignment_epoch: int | None = None
    regexes: dict[str, frozenset[str]] = field(default_factory=dict)
    topics: dict[str, int] | None = None
    """Partition count by topic, if the log contains it."""

    def apply(self, kind: str, row: Row) -> None:
        """Apply a record's row: the columns of its kind (null ones may be missing), and `timestamp_ms`."""
        gone = row["tombstone"]
        if kind == METADATA:
            if gone:
                self.epoch, self.assignment_epoch, self.topics = None, None, None
                self.members.clear()
                self.ahead.clear()
                self.regexes.clear()
                return
            self.epoch, self.epoch_ms = row["epoch"], row["timestamp_ms"]
            self.metadata_hash = row.get("metadata_hash") or 0
        elif kind == MEMBER:
            self._member(row, gone=gone)
        elif kind == TARGET:
            self.assignment_epoch = None if gone else row["assignment_epoch"]
        elif kind == REGEX:
            topics = frozenset(() if gone else row.get("topics") or ())
            self.regexes.pop(row["regular_expression"], None)
            if not gone:
                self.regexes[row["regular_expression"]] = topics
        elif kind == PARTITION_METADATA:
            self.topics = (
                None if gone else {each["topic_name"]: each["num_partitions"] for each in row.get("topics") or ()}
            )
        elif not gone:  # if gone, the tombstone of the member's subscription follows
            member = self.members.get(row["member_id"]) or self._ahead(row["member_id"])
            if kind == TARGET_MEMBER:
                member.target = self.partitions(row.get("topic_partitions"))
            elif kind == CURRENT:
                self._current(member, row)

    def _ahead(self, member_id: str) -> MemberState:
        unknown = MemberState(member_id, None, "", "", frozenset(), None, None, self.session_ms, self.session_ms)
        return self.ahead.setdefault(member_id, unknown)

    def _member(self, row: Row, *, gone: bool) -> None:
        member_id = row["member_id"]
        old = self.ahead.pop(member_id, None) or self.members.get(member_id)
        if gone:
            self.members.pop(member_id, None)
            return
        classic = row.get("classic_member_metadata")
        timeout_ms = row.get("rebalance_timeout_ms")
        new = MemberState(
            member_id,
            row.get("instance_id"),
            row["client_id"],
            row["client_host"],
            frozenset(row.get("subscribed_topic_names") or ()),
            row.get("subscribed_topic_regex") or None,
            row.get("server_assignor"),
            self.session_ms if timeout_ms is None else timeout_ms,
            self.session_ms if classic is None else classic["session_timeout_ms"],
            classic is not None,
            seen_ms=row["timestamp_ms"],
        )
        if old is not None:
            new.target, new.assigned, new.revoking, new.epoch = old.target, old.assigned, old.revoking, old.epoch
            new.state, new.unrevoked_ms = old.state, old.unrevoked_ms
        self.members[member_id] = new

    def _current(self, member: MemberState, row: Row) -> None:
        state = row["state"]
        member.unrevoked_ms = row["timestamp_ms"] if state == UNREVOKED else None
        member.epoch, member.state, member.seen_ms = row["member_epoch"], state, row["timestamp_ms"]
        member.assigned = self.partitions(row.get("assigned_partitions"))
        member.revoking = self.partitions(row.get("partitions_pending_revocation"))

    def partitions(self, topics: Iterable[Row] | None) -> frozenset[TopicPartition]:
        """Return partitions by topic name, or by topic id if the name is unknown."""
        return frozenset(
            (self.names.get(each["topic_id"], each["topic_id"]), partition)
            for each in topics or ()
            for partition in each["partitions"]
        )

    def topics_of(self, member: MemberState) -> frozenset[str]:
        """Return the topics that the member subscribes to: by name, and by the resolution of its regular expression."""
        found = self.regexes.get(member.regex) if member.regex is not None else None
        return member.topics if found is None else member.topics | found

    @property
    def assignor(self) -> str | None:
        """The assignor that most members request, which the coordinator uses; None for the coordinator's default."""
        asked = sorted(each.assignor for each in self.members.values() if each.assignor)
        return max(asked, key=asked.count) if asked else None

    @property
    def reached(self) -> int:
        """Number of members that have their target assignment."""
        return sum(each.has_reached(self.epoch or 0) for each in self.members.values())

    def as_generation(self) -> Generation | None:
        """Return the current state with the members' partitions, including those still
        to be revoked. None if the group was deleted.
        """
        if self.epoch is None:
            return None
        members = {each.member_id: each.as_member(each.assigned | each.revoking) for each in self.members.values()}
        return Generation(self.epoch, self.epoch_ms, None, self.assignor, None, members)

"""Results of reads: records, groups, members, rebalances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Record:
    """A record as consumers get it; `timestamp_ms` is milliseconds since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member of a group. `assignment` has partitions by topic."""

    member_id: str
    client_id: str
    instance_id: str | None
    assignment: Mapping[str, tuple[int, ...]]

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """Assigned partitions, as (topic, partition)."""
        return frozenset((topic, each) for topic, partitions in self.assignment.items() for each in partitions)

    def is_called(self, name: str) -> bool:
        """Return whether `name` is its member id, client id or group.instance.id."""
        return name in (self.member_id, self.client_id, self.instance_id)

    def __str__(self) -> str:
        told = ", ".join(f"{topic} {list(partitions)}" for topic, partitions in self.assignment.items())
        return f"{self.client_id} ({told or 'nothing assigned'})"


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A completed rebalance, from the ledger: kafka_wire/records/rebalance_ledger.py defines the fields of `record`.
    `trigger` is one of its `Why`, such as "session expired".
    """

    trigger: str
    text: str
    outcome: str
    generation_before: int
    generation_after: int
    record: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Rebalance:
        """Return a rebalance from a record of the ledger."""
        trigger = record["trigger"]
        return cls(
            trigger["kind"],
            trigger["text"],
            record["outcome"],
            record["generation_before"],
            record["generation_after"],
            record,
        )

    def __str__(self) -> str:
        took_ms = self.record["ended_ms"] - self.record["began_ms"]
        told = (
            f"generation {self.generation_before} → {self.generation_after}, {took_ms} ms, {self.outcome}: {self.text}"
        )
        gone = ", ".join(f"{each['member_id']} ({each['cause']})" for each in self.record["dropped"])
        return f"{told}; dropped: {gone}" if gone else told


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group at one moment. `protocol` is classic or consumer, "" if there is no such group: its `state` is Dead.
    `generation` is the group epoch of a consumer group. `rebalances` begin with the oldest. `waits_for` has the members
    that the running rebalance waits for. `node` is the id of its coordinator, -1 if unknown.
    """

    group_id: str
    protocol: str
    state: str
    generation: int
    members: tuple[MemberView, ...]
    rebalances: tuple[Rebalance, ...] = ()
    waits_for: tuple[str, ...] = ()
    node: int = -1
    version: int = field(default=0, repr=False)

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> GroupView:
        """Return a group from the response of the control's command `group`."""
        members = tuple(
            MemberView(
                each["member_id"],
                each["client_id"],
                each["instance_id"],
                {topic: tuple(partitions) for topic, partitions in each["assignment"].items()},
            )
            for each in told["members"]
        )
        under_way = told["under_way"] or {}
        return cls(
            told["group"],
            told["protocol"],
            told["state"],
            told["generation"],
            members,
            tuple(map(Rebalance.of, told["rebalances"])),
            tuple(each for each in under_way.get("waits_for", ()) if each),
            told["node"],
            told["version"],
        )

    @property
    def is_stable(self) -> bool:
        """True if the group's state is Stable: all members have their generation and their partitions."""
        return self.state == "Stable"

    @property
    def assignment(self) -> dict[str, frozenset[TopicPartition]]:
        """Partitions by client id; by member id if several members have the same client id."""
        clients = [each.client_id for each in self.members]
        return {
            each.client_id if clients.count(each.client_id) == 1 else each.member_id: each.partitions
            for each in self.members
        }

    def member(self, name: str) -> MemberView | None:
        """Return the member with this member id, client id or group.instance.id; None if there is none."""
        return next((each for each in self.members if each.is_called(name)), None)

    def __str__(self) -> str:
        members = ", ".join(map(str, self.members)) or "no members"
        waits = f"; it waits for {', '.join(self.waits_for)}" if self.waits_for else ""
        return f"group {self.group_id} is {self.state} in generation {self.generation} with {members}{waits}"

"""A share group in a test: what its members have acquired, commands and waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

from coordinatord.testing.groups import TIMEOUT_S, Group, Offsets
from coordinatord.testing.links import Link
from coordinatord.testing.views import GroupView, MemberView, TopicPartition
from coordinatord.testing.waits import Looking, Waited


class GroupSettings(Offsets, Protocol):
    """Committed offsets and settings of groups."""

    def configure_group(self, group_id: str, settings: Mapping[str, object]) -> None: ...


@dataclass(frozen=True, slots=True)
class AcquiredRecord:
    """A record that a member has acquired. Its lock ends in `seconds_left`."""

    topic: str
    partition: int
    offset: int
    member_id: str
    client_id: str
    delivery_count: int
    seconds_left: float


@dataclass(frozen=True, slots=True)
class SharePartition:
    """A partition of a share group: numbers of records. `available` were released or have lost their lock;
    `acknowledged` and `archived` (rejected, or delivered too often) count since the start of the server, a record with
    a dead letter when that is in its topic.
    """

    topic: str
    partition: int
    start_offset: int
    available: int
    acknowledged: int
    archived: int
    acquired: tuple[AcquiredRecord, ...]

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> SharePartition:
        """Return a share partition from the response of the control's command `share_group`."""
        acquired = tuple(
            AcquiredRecord(
                told["topic"],
                told["partition"],
                offset,
                each["member_id"],
                each["client_id"],
                each["delivery_count"],
                each["left_ms"] / 1000,
            )
            for each in told["acquired"]
            for offset in range(each["first_offset"], each["last_offset"] + 1)
        )
        return cls(
            told["topic"],
            told["partition"],
            told["start_offset"],
            told["available"],
            told["acknowledged"],
            told["archived"],
            acquired,
        )


@dataclass(frozen=True, slots=True)
class Redelivery:
    """Records that a member has lost without accepting or rejecting them. `cause` is "lock expired", "released",
    "member gone" or "renewed too late"; of `count` records, `archived` were delivered too often and do not come again.
    """

    cause: str
    member_id: str
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    count: int
    archived: int
    delivery_count: int

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Redelivery:
        """Return a redelivery from a record of the ledger."""
        return cls(**{each.name: record[each.name] for each in fields(cls)})

    def __str__(self) -> str:
        told = f"{self.cause}: {self.count} records of {self.topic}-{self.partition} of {self.member_id}"
        gone = f"; {self.archived} archived" if self.archived else ""
        return f"{told}, offsets {self.first_offset} to {self.last_offset}{gone}"


@dataclass(frozen=True, slots=True)
class ShareGroupView:
    """A share group at one moment. `partitions` has those of which the group keeps state, `redeliveries` begin with the
    oldest.
    """

    group: GroupView
    partitions: dict[TopicPartition, SharePartition]
    redeliveries: tuple[Redelivery, ...]

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> ShareGroupView:
        """Return a share group from the response of the control's command `share_group`."""
        partitions = map(SharePartition.of, told["partitions"])
        return cls(
            GroupView.of(told),
            {(each.topic, each.partition): each for each in partitions},
            tuple(map(Redelivery.of, told["redeliveries"])),
        )

    @property
    def acquired(self) -> tuple[AcquiredRecord, ...]:
        """The acquired records of all partitions."""
        return tuple(record for each in self.partitions.values() for record in each.acquired)

    @property
    def acknowledged(self) -> int:
        """The number of acknowledged records of all partitions."""
        return sum(each.acknowledged for each in self.partitions.values())

    @property
    def archived(self) -> int:
        """The number of archived records of all partitions."""
        return sum(each.archived for each in self.partitions.values())

    def __str__(self) -> str:
        return (
            f"{self.group}; {len(self.acquired)} records acquired, {self.acknowledged} acknowledged, {self.archived} "
            "archived"
        )


class ShareGroup:
    """The result of `kafka.share_group(group_id)`. Members are named by member id or client id."""

    def __init__(self, link: Link, group_id: str, kafka: GroupSettings) -> None:
        self.group_id = group_id
        self._link = link
        self._kafka = kafka
        self._group = Group(link, group_id, kafka)

    def __repr__(self) -> str:
        return f"<share group {self.group_id}>"

    # Reading

    @property
    def view(self) -> ShareGroupView:
        """The present state of the group."""
        return ShareGroupView.of(self._link.call("share_group", group=self.group_id))

    @property
    def state(self) -> str:
        """The state of the group, by Kafka's name."""
        return self._group.state

    @property
    def members(self) -> tuple[MemberView, ...]:
        """The members of the group, the oldest first."""
        return self._group.members

    @property
    def partitions(self) -> dict[TopicPartition, SharePartition]:
        """The partitions of which the group keeps state."""
        return self.view.partitions

    @property
    def acquired(self) -> tuple[AcquiredRecord, ...]:
        """The records that members have acquired."""
        return self.view.acquired

    @property
    def redeliveries(self) -> tuple[Redelivery, ...]:
        """The last records that members have lost, and why."""
        return self.view.redeliveries

    # Waiting

    def until(
        self, holds: Callable[[ShareGroupView], object], timeout: float = TIMEOUT_S, what: str = "what `until` asks for"
    ) -> Waited[ShareGroupView]:
        """Wait until `holds(view)` is true; the result is that view. `timeout` is in seconds. Raises NotInTime."""

        def look() -> tuple[int, ShareGroupView]:
            view = self.view
            return view.group.version, view

        what = f"share group {self.group_id}: {what}"
        return Looking(self._link, what, look, lambda view: bool(holds(view)), timeout).waited()

    def until_members(self, count: int, timeout: float = TIMEOUT_S) -> Waited[ShareGroupView]:
        """Wait until the group has `count` members. Raises NotInTime."""
        return self.until(lambda view: len(view.group.members) == count, timeout, f"{count} members")

    def until_acquired(self, count: int, timeout: float = TIMEOUT_S) -> Waited[ShareGroupView]:
        """Wait until exactly `count` records are acquired. Raises NotInTime."""
        return self.until(lambda view: len(view.acquired) == count, timeout, f"{count} acquired records")

    def until_acknowledged(self, count: int, timeout: float = TIMEOUT_S) -> Waited[ShareGroupView]:
        """Wait until at least `count` records are acknowledged since the start of the server. Raises NotInTime."""
        return self.until(lambda view: view.acknowledged >= count, timeout, f"{count} acknowledged records")

    # Verbs

    def configure(self, settings: Mapping[str, object]) -> None:
        """Set settings of the group, by Kafka's names: `{"share.auto.offset.reset": "earliest"}`."""
        self._kafka.configure_group(self.group_id, settings)

    def expire_lock(self, *, member: str | None = None, offset: int | None = None) -> int:
        """End locks now, as if their time had passed: of all acquired records, of those of a member, or of those at an
        offset. Returns the number of records. Raises KafkaError if there are none.
        """
        arguments = {name: value for name, value in (("member", member), ("offset", offset)) if value is not None}
        count: int = self._link.call("expire_lock", group=self.group_id, **arguments)["records"]
        return count

    def release(self, member: str) -> int:
        """Release all records of a member, as if it had released them itself. Returns their number."""
        count: int = self._link.call("release_records", group=self.group_id, member=member)["records"]
        return count

    def kick(self, member: str) -> str:
        """Remove a member and release its records; returns its member id. A client that is alive joins again."""
        return self._group.kick(member)

    def expire(self, member: str) -> str:
        """End a member's session in the group, as if its heartbeats had stopped; returns its member id. What it has
        acquired stays locked.
        """
        return self._group.expire(member)

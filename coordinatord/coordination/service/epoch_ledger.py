"""The ledger's records of epochs of consumer groups, built from the accounts in the groups
(coordination/group/consumer/epoch_record.py).

A record has the fields of a classic rebalance's record, and those specific to an epoch
(kafka_wire/records/rebalance_ledger.py). It is built when it is written: an account holds references to the targets
before and after, no copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coordinatord.broker.log.checkpoint import uuid_text
from coordinatord.coordination.group.consumer.epoch_record import Account, HeldUp, open_account
from coordinatord.coordination.group.consumer.state import LEAVING_FOR_NOW, ConsumerGroup, ConsumerMember
from coordinatord.coordination.group.result import NO_REASON, Dropped, Joined, Trigger
from kafka_wire.records.rebalance_ledger import EPOCH_VERSION

MAX_ENTRIES = 2_000
"""Maximum number of members in each list of one record."""
MAX_PARTITIONS = 10_000
"""Maximum number of partitions in one record: with as many members it takes 400 KB, less than max.message.bytes."""


class EndedEpoch:
    """A closed account, as the ledger writes it."""

    __slots__ = ("account", "group_id", "node_id")

    def __init__(self, group_id: str, node_id: int, account: Account) -> None:
        self.group_id = group_id
        self.node_id = node_id
        self.account = account

    def head(self) -> dict[str, Any]:
        """Return the record without its lists."""
        account = self.account
        new = sum(each.is_new for each in account.joined)
        head: dict[str, Any] = {
            "version": EPOCH_VERSION,
            "group": self.group_id,
            "group_type": "consumer",
            "node_id": self.node_id,
            "outcome": account.outcome,
            "trigger": trigger_fields(account.trigger),
            "generation_before": account.epoch if account.is_resumed else account.epoch - 1,
            "generation_after": account.epoch,
            "began_ms": account.began_ms,
            "joined_ms": None,
            "assigned_ms": account.assigned_ms,
            "ended_ms": account.ended_ms,
            "initial": account.is_initial,
            "protocol_type": "consumer",
            "protocol": account.assignor,
            "leader": None,
            "members_before": account.members_before,
            "members_after": account.size,
            "added": new,
            "removed": len(account.dropped),
        }
        if account.is_resumed:
            head["resumed"] = True
        if account.overtaken_by is not None:
            head["overtaken_by"] = trigger_fields(account.overtaken_by)
        if account.held_up is not None:
            head["held_up"] = _held_up(account.held_up, account.members.get(account.held_up.member_id))
        if account.waits:
            head["not_reached"] = len(account.waits)
        return head

    def whole(self) -> dict[str, Any]:
        """Return the complete record. The admin thread may build it at the same time."""
        account, record, listing = self.account, self.head(), _Listing(self.account.names)
        shares = {each: (account.gave_up(each), account.got(each)) for each in (*account.changed, *account.departed)}
        for number, name in enumerate(("gave_up", "got")):
            record[name] = sum(_count(share[number]) for share in shares.values())
        record["rejoined"] = [_joined(each) for each in account.joined[:MAX_ENTRIES]]
        record["dropped"] = [self._dropped(each, shares, listing) for each in account.dropped[:MAX_ENTRIES]]
        members = [*account.reached, *(each for each in account.members if each not in account.reached)]
        listed = [each for each in members if each in account.members]
        record["members"] = [self._member(each, shares, listing) for each in listed[:MAX_ENTRIES]]
        omitted = sum(max(0, len(each) - MAX_ENTRIES) for each in (account.joined, account.dropped, listed))
        if omitted:
            record["omitted"] = omitted
        if listing.room < 0:
            record["omitted_partitions"] = -listing.room
        return record

    def line(self) -> dict[str, Any]:
        """Return the fields of the log line."""
        account = self.account
        trigger, held_up = account.trigger, account.held_up
        return {
            "group": self.group_id,
            "group_type": "consumer",
            "outcome": account.outcome,
            "trigger": trigger.kind,
            "member": trigger.member_id or None,
            "generation_before": account.epoch if account.is_resumed else account.epoch - 1,
            "generation_after": account.epoch,
            "members_before": account.members_before,
            "members_after": account.size,
            "dropped": len(account.dropped),
            "seconds": (account.ended_ms - account.began_ms) / 1000,
            "slowest": None if held_up is None else held_up.member_id,
            "slowest_phase": None if held_up is None else held_up.phase,
            "slowest_seconds": None if held_up is None else held_up.waited_ms / 1000,
        }

    def _member(self, member_id: str, shares: _Shares, listing: _Listing) -> dict[str, Any]:
        account = self.account
        member, began_ms = account.members[member_id], account.began_ms
        told: dict[str, Any] = {
            "member_id": member_id,
            "client_id": member.client_id,
            "after_ms": _after(account.reached.get(member_id), began_ms),
        }
        if member.instance_id is not None:
            told["instance"] = member.instance_id
        if member.classic is not None:
            told["classic"] = True
        if member.epoch == LEAVING_FOR_NOW:
            told["away"] = True
        if member_id in account.told:
            told["told_after_ms"] = _after(account.told[member_id], began_ms)
            told["revoked_after_ms"] = _after(account.revoked.get(member_id), began_ms)
        for name, share in zip(("gave_up", "got"), shares.get(member_id, ({}, {})), strict=True):
            if share:
                told[name] = listing.partitions(share)
        return told

    def _dropped(self, dropped: Dropped, shares: _Shares, listing: _Listing) -> dict[str, Any]:
        told: dict[str, Any] = {"member_id": dropped.member_id, "cause": dropped.cause, "after_ms": 0}
        member = self.account.went.get(dropped.member_id)
        if member is not None:
            told["client_id"] = member.client_id
        if dropped.group_instance_id is not None:
            told["instance"] = dropped.group_instance_id
        gave_up = shares.get(dropped.member_id, ({}, {}))[0]
        if gave_up:
            told["gave_up"] = listing.partitions(gave_up)
        return told


class _Listing:
    """Partitions by topic, for one record: as many as there is `room` for."""

    __slots__ = ("_names", "room")

    def __init__(self, names: Mapping[bytes, str]) -> None:
        self._names = names
        self.room = MAX_PARTITIONS

    def partitions(self, share: Mapping[bytes, frozenset[int]]) -> dict[str, list[int]]:
        """Return the partitions by topic name; by topic id if the name is unknown."""
        told = {}
        for topic_id, partitions in share.items():
            listed = sorted(partitions)[: max(0, self.room)]
            self.room -= len(partitions)
            if listed:
                told[self._names.get(topic_id) or uuid_text(topic_id)] = listed
        return told


_Shares = dict[str, tuple[dict[bytes, frozenset[int]], dict[bytes, frozenset[int]]]]


def under_way(group_id: str, consumer: ConsumerGroup) -> dict[str, Any] | None:
    """Return the known data of the epoch that a group is reconciling to; None if it has reached its epoch. Other
    threads call this.
    """
    account = open_account(consumer)
    if account is None:
        return None
    return {
        "group": group_id,
        "group_type": "consumer",
        "trigger": trigger_fields(account.trigger),
        "generation_after": account.epoch,
        "began_ms": account.began_ms,
        "joined_ms": None,
        "assigned_ms": account.assigned_ms,
        "initial": account.is_initial,
        "waits_for": list(account.waits.copy())[:MAX_ENTRIES],
    }


def trigger_fields(trigger: Trigger) -> dict[str, Any]:
    """Return a trigger in the form of a record."""
    told = {"kind": trigger.kind, "text": trigger.text}
    if trigger.member_id:
        told["member_id"] = trigger.member_id
    if trigger.reason != NO_REASON:
        told["reason"] = trigger.reason
    return told


def _held_up(held_up: HeldUp, member: ConsumerMember | None) -> dict[str, Any]:
    told: dict[str, Any] = {
        "phase": held_up.phase,
        "member_id": held_up.member_id,
        "after_ms": held_up.waited_ms,
    }
    if member is not None:
        told["client_id"] = member.client_id
        if member.instance_id is not None:
            told["instance"] = member.instance_id
    if held_up.is_away:
        told["away"] = True
    return told


def _joined(joined: Joined) -> dict[str, Any]:
    told: dict[str, Any] = {"member_id": joined.member_id, "after_ms": 0, "client_id": joined.client_id}
    if joined.group_instance_id is not None:
        told["instance"] = joined.group_instance_id
    if joined.is_new:
        told["is_new"] = True
    return told


def _after(at_ms: int | None, began_ms: int) -> int | None:
    return None if at_ms is None else at_ms - began_ms


def _count(share: Mapping[bytes, frozenset[int]]) -> int:
    return sum(map(len, share.values()))

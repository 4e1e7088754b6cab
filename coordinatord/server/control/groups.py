"""A group as JSON, and verbs for groups: rebalance, expire, kick."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from coordinatord.coordination.group.consumer.state import ConsumerMember
from coordinatord.coordination.group.events import Leave, Rebalance, TimedOut
from coordinatord.coordination.group.result import SESSION, TimerKey
from coordinatord.coordination.group.share.state import ShareMember
from coordinatord.coordination.group.state import Group
from coordinatord.coordination.group.states import PREPARING_REBALANCE
from coordinatord.coordination.service.groups import GroupActor
from coordinatord.server.control import share_groups
from coordinatord.server.control.node import Node
from coordinatord.server.control.problems import ControlError, listed, not_now, not_there
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.errors import DecodeError
from kafka_wire.records.consumer_assignment import decode_assignment

CONSUMERS = "consumer"
"""The protocol type of classic groups whose assignments can be decoded."""

Partitions = dict[str, list[int]]
"""Partitions by topic."""


@dataclass(frozen=True, slots=True)
class _Who:
    """A member under each of its names."""

    member_id: str
    client_id: str
    instance_id: str | None

    def is_called(self, name: str) -> bool:
        return name in (self.member_id, self.client_id, self.instance_id)


def names(node: Node) -> list[str]:
    """Return the ids of all groups, sorted."""
    return sorted(group_id for group_id, actor in node.coordinator.actors.items() if actor.group.exists)


def show(node: Node, group_id: str) -> dict[str, Any]:
    """Return a group as JSON; a missing group is Dead, as in Kafka. `rebalances` begins with the oldest."""
    actor = node.coordinator.actors.get(group_id)
    ledger = node.ledger
    told: dict[str, Any] = {
        "group": group_id,
        "node": node.nodes.node_id,
        "protocol": "",
        "state": "Dead",
        "generation": 0,
        "members": [],
        "pending_members": 0,
        "rebalances": [] if ledger is None else ledger.recent(group_id)[::-1],
        "under_way": None,
    }
    if actor is None or not actor.group.exists:
        return told
    group, consumer = actor.group, actor.group.consumer
    if group.share is not None:
        return told | {
            "protocol": "share",
            "state": group.share.state.shown,
            "generation": group.share.epoch,
            "members": _consumers(node, group.share.members.values()),
        }
    if consumer is not None:
        return told | {
            "protocol": "consumer",
            "state": consumer.state.shown,
            "generation": consumer.epoch,
            "members": _consumers(node, consumer.members.values()),
            "under_way": None if ledger is None else ledger.open(group),
        }
    return told | {
        "protocol": "classic",
        "state": group.state.shown,
        "generation": group.generation_id,
        "members": _members(group),
        "pending_members": len(group.pending_members),
        "under_way": None if ledger is None else ledger.open(group),
    }


def _members(group: Group) -> list[dict[str, Any]]:
    return [
        {
            "member_id": each.member_id,
            "client_id": each.client_id,
            "instance_id": each.group_instance_id,
            "assignment": _assigned(each.assignment) if group.protocol_type == CONSUMERS else {},
        }
        for each in group.members.values()
    ]


def _assigned(assignment: bytes) -> Partitions:
    found: Partitions = {}
    try:
        for topic, partition in decode_assignment(assignment) if assignment else ():
            found.setdefault(topic, []).append(partition)
    except DecodeError:  # the assignment has a format of the client's own
        return {}
    return {topic: sorted(partitions) for topic, partitions in sorted(found.items())}


def _consumers(node: Node, members: Iterable[ConsumerMember | ShareMember]) -> list[dict[str, Any]]:
    return [
        {
            "member_id": each.member_id,
            "client_id": each.client_id,
            "instance_id": each.instance_id if isinstance(each, ConsumerMember) else None,
            "assignment": _named(node, each.assigned),
        }
        for each in members
    ]


def _named(node: Node, by_id: Mapping[bytes, Iterable[int]]) -> Partitions:
    found = {node.topics.topic_name(topic_id): sorted(partitions) for topic_id, partitions in by_id.items()}
    return {name: partitions for name, partitions in sorted(found.items(), key=str) if name is not None}


def rebalance(node: Node, group_id: str, reason: str) -> int:
    """Make a group rebalance; return the generation or group epoch before."""
    actor = _actor(node, group_id)
    group, consumer = actor.group, actor.group.consumer
    modern = consumer or group.share
    members = len(group.members) if modern is None else len(modern.members)
    if not members:
        raise not_now(f"Group {group_id} has no members, so there is nothing to rebalance.")
    if modern is None and group.state is PREPARING_REBALANCE:
        raise not_now(f"Group {group_id} is rebalancing already: wait until it is Stable.")
    before = group.generation_id if modern is None else modern.epoch
    actor.tell(Rebalance(reason))
    return before


def expire(node: Node, group_id: str, name: str) -> str:
    """End a member's session now; return its member id."""
    actor = _actor(node, group_id)
    group, consumer, now_ms = actor.group, actor.group.consumer or actor.group.share, node.now_ms()
    member_id = _find(actor, name).member_id
    key = TimerKey(group_id, SESSION, member_id)
    if consumer is not None:
        session = consumer.sessions.get(member_id)
        if session is None:
            raise not_now(f"Member {member_id} has no session yet: its first heartbeat begins one.")
        session.deadline_ms = session.timer_ms = now_ms
    else:
        member = group.members[member_id]
        if member.join_reply_to is not None or member.sync_reply_to is not None:
            # As in Kafka: a member with a parked request is known to be alive.
            raise not_now(
                f"Member {member_id} waits for the rebalance to end and cannot expire meanwhile: "
                "wait until the group is Stable, or kick it."
            )
        member.heard_ms, member.patience_ms, member.timer_ms = now_ms, 0, now_ms
    node.timers.cancel(key)
    actor.tell(TimedOut(key))
    return member_id


def kick(node: Node, group_id: str, name: str) -> str:
    """Remove a member as an operator does (removeMembersFromConsumerGroup); return its member id."""
    actor = _actor(node, group_id)
    member_id = _find(actor, name).member_id
    if actor.group.share is not None:
        share_groups.kick(node, actor, member_id)
        return member_id
    identity = MemberIdentity(member_id, None, "removed by a test")
    actor.tell(Leave.of(LeaveGroupRequest(group_id, "", [identity]), 5))
    return member_id


def member_id(node: Node, group_id: str, name: str) -> str:
    """Return the id of a member."""
    return _find(_actor(node, group_id), name).member_id


def _actor(node: Node, group_id: str) -> GroupActor:
    actor = node.coordinator.actors.get(group_id)
    if actor is None or not actor.group.exists:
        raise not_there(f"There is no group {group_id!r}. There are {listed(names(node), 'no groups')}.")
    return actor


def _find(actor: GroupActor, name: str) -> _Who:
    """Return the member with this member id, client id or instance id. Raises ControlError if there is none or
    several.
    """
    group, consumer = actor.group, actor.group.consumer
    members = [_Who(each.member_id, each.client_id, each.group_instance_id) for each in group.members.values()]
    if group.share is not None:
        members = [_Who(each.member_id, each.client_id, None) for each in group.share.members.values()]
    if consumer is not None:
        members = [_Who(each.member_id, each.client_id, each.instance_id) for each in consumer.members.values()]
    found = [each for each in members if each.is_called(name)]
    if len(found) == 1:
        return found[0]
    if not found:
        known = [f"{each.client_id} ({each.member_id})" for each in members]
        raise not_there(f"Group {group.group_id} has no member {name!r}. It has {listed(known, 'no members')}.")
    ids = listed(each.member_id for each in found)
    raise ControlError(f"Group {group.group_id} has {len(found)} members called {name!r}: say which of {ids}.")

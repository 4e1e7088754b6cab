"""The requests that a random program's steps stand for, made of what a broker has said so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from coordinatord.testing.conform.normalized import Names
from kafka_wire.api.delete_groups import DeleteGroupsRequest
from kafka_wire.api.describe_groups import DescribeGroupsRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.api.list_groups import ListGroupsRequest
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kafka_wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.codecs import encode_message
from kafka_wire.errors import ErrorCode
from kafka_wire.records.consumer import ConsumerProtocolSubscription
from tests.reference.random_steps import Step

UNKNOWN_ID = b"\x07" * 16
"""A topic id that no topic has."""

LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)


@dataclass(slots=True)
class Seat:
    """A member as a client knows itself. `life` counts its joins without an id, `change` its subscriptions."""

    letter: str
    settings: Step
    connection: str = ""
    life: int = 0
    change: int = 0
    member_id: str = ""
    stale_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.connection = self.letter

    def forget(self) -> None:
        """Begin anew, without a member id."""
        if self.member_id:
            self.stale_id, self.member_id = self.member_id, ""

    def metadata(self, protocol: str) -> bytes:
        """Unlike anybody else's, so that members can be told apart whatever their ids are."""
        mark = f"#{self.letter}{self.life}.{self.change}.{protocol}#".encode()
        if self.settings["type"] != "consumer":
            return mark
        subscription = ConsumerProtocolSubscription(self.settings["topics"], mark)
        return b"\0\0" + encode_message(subscription, 0)


def learn(seat: Seat, request: Any, message: Any, names: Names) -> None:
    """What a client makes of an answer, whose ids have their names already."""
    kind = type(message).__name__
    if kind == "JoinGroupResponse":
        if message.error_code == ErrorCode.NONE:
            seat.generation = message.generation_id
            seat.protocol_type, seat.protocol_name = message.protocol_type, message.protocol_name
            seat.leader = message.leader
            # A broker's order says nothing, and what the leader assigns shall not depend on it.
            seat.members = sorted((member.member_id for member in message.members), key=names.ids.__getitem__)
        if message.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            seat.member_id = message.member_id
    if getattr(message, "error_code", 0) in LOST and request.member_id == seat.member_id:
        seat.forget()


class Wording:
    """One request of one seat."""

    def __init__(self, step: Step, seat: Seat, seats: list[Seat], topic_ids: dict[str, bytes], names: Names) -> None:
        self.step = step
        self.seat = seat
        self.seats = seats
        self.topic_ids = topic_ids
        self.names = names

    def next_seat(self, seat: Seat) -> Seat:
        return self.seats[(self.seats.index(seat) + 1) % len(self.seats)]

    def member_id(self, step: Step, seat: Seat) -> str:
        match step.get("id", "own"):
            case "own":
                return seat.member_id
            case "stale":
                return seat.stale_id or "stranger"
            case "next":
                return self.next_seat(seat).member_id
            case "leader":
                return seat.leader
            case "stranger":
                return "stranger"
        return ""

    def instance(self, step: Step, seat: Seat, version: int, since: int) -> str | None:
        kind = step.get("instance", "own")
        if version < since or kind == "none":
            return None
        if kind == "stranger":
            return "static-stranger"
        found: str | None = (self.next_seat(seat) if kind == "next" else seat).settings["instance"]
        return found

    def generation(self) -> int:
        wanted = self.step.get("generation", 0)
        return -1 if wanted == "none" else self.seat.generation + wanted

    def group(self, name: str = "group") -> str:
        return f"{self.names.story}.{name}"

    def join(self) -> tuple[Any, int]:
        step, seat, settings = self.step, self.seat, self.seat.settings
        version = step.get("version")
        version = settings["version"] if version is None else version
        member_id = self.member_id(step, seat)
        seat.life += not member_id
        seat.change += step.get("change", False)
        wanted = step.get("protocols")
        type_ = step.get("type", "own")
        session = step.get("session", "own")
        request = JoinGroupRequest(
            self.group(),
            # Two sessions never end at the same instant: the order would be that of a hash map.
            settings["session"] + 10 * self.seats.index(seat) if session == "own" else session,
            settings["rebalance"] if version else -1,
            member_id,
            self.instance(step, seat, version, 5),
            settings["type"] if type_ == "own" else type_,
            [
                JoinGroupRequestProtocol(name, seat.metadata(name))
                for name in (settings["protocols"] if wanted is None else wanted)
            ],
        )
        if version >= 8:
            request.reason = step.get("reason")
        return request, version

    def sync(self) -> tuple[Any, int]:
        step, seat = self.step, self.seat
        version = step.get("version", 5)
        kind = step.get("assign", "all")
        to = {"all": seat.members, "first": seat.members[:1], "stranger": ["stranger"]}.get(kind, [])
        request = SyncGroupRequest(
            self.group(), self.generation(), self.member_id(step, seat), self.instance(step, seat, version, 3)
        )
        if version >= 5:
            type_, name = step.get("type", "own"), step.get("name", "own")
            # Versions of JoinGroup before v7 do not tell the type; a client knows it by itself.
            request.protocol_type = seat.settings["type"] if type_ == "own" else type_
            request.protocol_name = seat.protocol_name if name == "own" else name
        request.assignments = [
            SyncGroupRequestAssignment(member_id, f"{self.names.text(member_id)} in {seat.generation}".encode())
            for member_id in to
        ]
        return request, version

    def heartbeat(self) -> tuple[Any, int]:
        step, seat = self.step, self.seat
        version = step["version"]
        instance = self.instance(step, seat, version, 3)
        return HeartbeatRequest(self.group(), self.generation(), self.member_id(step, seat), instance), version

    def leave(self) -> tuple[Any, int]:
        step, seat = self.step, self.seat
        version = step["version"]
        if version < 3:
            return LeaveGroupRequest(self.group(), self.member_id(step, seat)), version
        members = []
        for one in (step, *step["others"]):
            who = self.seats[one["seat"] % len(self.seats)]
            members.append(MemberIdentity(self.member_id(one, who), self.instance(one, who, version, 3)))
        return LeaveGroupRequest(self.group(), members=members), version

    def commit(self) -> tuple[Any, int]:
        step, seat = self.step, self.seat
        version = step["version"]
        topics = []
        for name, partitions in step["topics"].items():
            topic = OffsetCommitRequestTopic(name) if version < 10 else OffsetCommitRequestTopic(topic_id=self.id(name))
            for number in partitions:
                one = OffsetCommitRequestPartition(number, step["offset"] + number, -1, step["metadata"])
                one.committed_leader_epoch = step["epoch"] if version >= 6 else -1
                topic.partitions.append(one)
            topics.append(topic)
        request = OffsetCommitRequest(
            self.group(step["group"]),
            self.generation(),
            self.member_id(step, seat),
            self.instance(step, seat, version, 7),
            step["retention"] if version <= 4 else -1,
            topics,
        )
        return request, version

    def id(self, topic: str) -> bytes:
        return self.topic_ids.get(topic, UNKNOWN_ID)

    def fetch(self) -> tuple[Any, int]:
        step, seat = self.step, self.seat
        version = step["version"]
        topics: dict[str, list[int]] | None = step["topics"]
        request = OffsetFetchRequest()
        if version >= 7:
            request.require_stable = step["stable"]
        if version < 8:
            request.group_id = self.group(step["groups"][0])
            if topics is not None or version < 2:
                request.topics = [OffsetFetchRequestTopic(*topic) for topic in (topics or {}).items()]
            else:
                request.topics = None
            return request, version
        for name in step["groups"]:
            one = OffsetFetchRequestGroup(self.group(name), topics=None)
            if version >= 9 and step["id"]:
                one.member_id = self.member_id(step, seat)
                one.member_epoch = seat.generation if step["epoch"] == "own" else step["epoch"]
            if topics is not None:
                one.topics = [
                    OffsetFetchRequestTopics(topic, partition_indexes=list(numbers))
                    if version < 10
                    else OffsetFetchRequestTopics(topic_id=self.id(topic), partition_indexes=list(numbers))
                    for topic, numbers in topics.items()
                ]
            request.groups.append(one)
        return request, version

    def describe(self) -> tuple[Any, int]:
        version = self.step["version"]
        return DescribeGroupsRequest([self.group(name) for name in self.step["groups"]]), version

    def list(self) -> tuple[Any, int]:
        version = self.step["version"]
        states = self.step["states"] if version >= 4 else []
        return ListGroupsRequest(states, self.step["types"] if version >= 5 else []), version

    def delete(self) -> tuple[Any, int]:
        return DeleteGroupsRequest([self.group(name) for name in self.step["groups"]]), self.step["version"]

    def delete_offsets(self) -> tuple[Any, int]:
        topics = [
            OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(number) for number in numbers])
            for name, numbers in self.step["topics"].items()
        ]
        return OffsetDeleteRequest(self.group(self.step["group"]), topics), 0


WORDS: dict[str, Callable[[Wording], tuple[Any, int]]] = {
    "join": Wording.join,
    "sync": Wording.sync,
    "heartbeat": Wording.heartbeat,
    "leave": Wording.leave,
    "commit": Wording.commit,
    "fetch": Wording.fetch,
    "describe": Wording.describe,
    "list": Wording.list,
    "delete": Wording.delete,
    "delete offsets": Wording.delete_offsets,
}


def request_for(
    step: Step, seat: Seat, seats: list[Seat], topic_ids: dict[str, bytes], names: Names
) -> tuple[Any, int]:
    """A step's request and its version."""
    return WORDS[step["do"]](Wording(step, seat, seats, topic_ids, names))

"""The requests that the steps of consumer_steps.py stand for, made of what a broker has said so far."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coordinatord.testing.conform.normalized import Names
from kafka_wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafka_wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kafka_wire.api.end_txn import EndTxnRequest
from kafka_wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_wire.api.init_producer_id import InitProducerIdRequest
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_wire.codecs import decoder, encode_message
from kafka_wire.errors import DecodeError, ErrorCode
from kafka_wire.records.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition
from tests.reference.consumer_steps import OWN, Step
from tests.reference.random_requests import WORDS as CLASSIC_WORDS
from tests.reference.random_requests import Seat, Wording
from tests.reference.random_requests import learn as learn_classic

CLASSIC, CONSUMER = "classic", "consumer"
LEAVING, LEAVING_FOR_NOW = -1, -2
_VERSION = struct.Struct(">h")
GROUP_RESOURCE = 32
_MADE_FOR_NOBODY = re.compile(r"Static member (?:[A-Za-z0-9_-]{22})? with")
"""A refusal of one without an id, for whom Kafka has made one all the same."""

FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)

Partitions = dict[bytes, list[int]]
"""Topic id -> partitions."""


@dataclass(slots=True)
class ConsumerSeat(Seat):
    """A client that may use either protocol. `told` is what it was last given, `owned` what it has said it owns."""

    kind: str = ""
    told: Partitions = field(default_factory=dict)
    owned: Partitions = field(default_factory=dict)
    before: Partitions = field(default_factory=dict)
    previous: int = 0  # the epoch before this one
    changed: Step = field(default_factory=dict)  # what it subscribes to now, if that has changed

    def __post_init__(self) -> None:
        # Without super(): it does not work in a dataclass with slots.
        self.connection = self.letter
        self.kind = self.settings["kind"]

    def now(self, name: str) -> Any:
        return self.changed.get(name, self.settings.get(name))

    def drop(self) -> None:
        """What it owned is not its own any more."""
        self.told, self.owned, self.before = {}, {}, {}

    def subscription(self, protocol: str, topics: list[str], owned: list[TopicPartition]) -> bytes:
        """Metadata unlike anybody else's, so that members can be told apart whatever their ids are."""
        mark = f"#{self.letter}{self.life}.{self.change}.{protocol}#".encode()
        if self.settings["type"] != CONSUMER:
            return mark
        version = self.settings["subscription"]
        message = ConsumerProtocolSubscription(topics, mark)
        if version >= 1:
            message.owned_partitions = owned
        if version >= 2:
            message.generation_id = self.generation
        if version >= 3:
            message.rack_id = self.now("rack")
        return _VERSION.pack(version) + encode_message(message, version)


def assignment_of(data: bytes) -> ConsumerProtocolAssignment | None:
    """What SyncGroup has brought, None if it is no assignment."""
    try:
        (version,) = _VERSION.unpack_from(data)
        decode = decoder(ConsumerProtocolAssignment, max(0, min(version, 3)))
        found: ConsumerProtocolAssignment = decode(data, _VERSION.size, len(data))
    except (DecodeError, struct.error):
        return None
    return found


def _is(data: bytes, assignment: ConsumerProtocolAssignment) -> bool:
    """Whether this is all that the bytes say."""
    return data[_VERSION.size :] == encode_message(assignment, min(data[1], 3))


class ConsumerNames(Names):
    """Names in which no hash map shows: partitions in order, and member ids and groups within messages as well."""

    def text(self, value: str) -> str:
        return self._without_ids(super().text(value))

    def value(self, value: Any, is_id: bool = False) -> Any:
        if isinstance(value, bytes) and not is_id and (found := assignment_of(value)) is not None and _is(value, found):
            topics = sorted((part.topic, sorted(part.partitions)) for part in found.assigned_partitions)
            text = f"v{value[1]} {topics} {found.user_data!r}"
            return self._without_ids(f"<{text}>")
        shown = super().value(value, is_id)
        return self._without_ids(shown) if isinstance(shown, str) else shown

    def _without_ids(self, text: str) -> str:
        text = text.replace(f"{self.story}.", ".")
        for known, name in self.ids.items():
            if isinstance(known, str) and len(known) > 8 and known in text:
                text = text.replace(known, name)
        return _MADE_FOR_NOBODY.sub("Static member SOMEBODY with", text)


def full_name(name: str, story: str) -> str:
    return f"{story}.{name}" if name in OWN else name


class ConsumerWording(Wording):
    """One request of one seat. `counts` has the topics that there are, and their partitions."""

    seat: ConsumerSeat
    seats: list[ConsumerSeat]  # type: ignore[assignment]  # a list is only read here

    def __init__(
        self,
        step: Step,
        seat: ConsumerSeat,
        seats: list[ConsumerSeat],
        topic_ids: dict[str, bytes],
        names: Names,
        counts: Mapping[str, int],
    ) -> None:
        if isinstance(step.get("topics"), dict):
            topics = {full_name(name, names.story): numbers for name, numbers in step["topics"].items()}
            step = {**step, "topics": topics}
        super().__init__(step, seat, seats, topic_ids, names)  # type: ignore[arg-type]
        self.counts = counts

    def names_of(self, topics: Iterable[str]) -> list[str]:
        return [full_name(name, self.names.story) for name in topics]

    # The consumer protocol

    def beat(self) -> tuple[Any, int]:
        step, seat = self.step, self.seat
        version = seat.settings["beat"] if step["version"] is None else step["version"]
        epoch = self._epoch(step["epoch"])
        member_id = self._member_id(epoch, version)
        full = step["full"] or epoch == 0
        request = ConsumerGroupHeartbeatRequest(self.group(step["group"]), member_id, epoch)
        request.instance_id = self._instance(epoch)
        change = step.get("change", {})
        if epoch == 0 or full:
            self._tell_all(request, version)
        if "topics" in change and change["topics"] is not None:
            request.subscribed_topic_names = self.names_of(change["topics"])
        if "pattern" in change and version:
            request.subscribed_topic_regex = change["pattern"]
        if "assignor" in change:
            request.server_assignor = change["assignor"]
        if "rack" in change:
            request.rack_id = change["rack"]
        if "rebalance" in change:
            request.rebalance_timeout_ms = change["rebalance"]
        if "instance" in change and epoch:
            request.instance_id = change["instance"]
        request.topic_partitions = self._owned(step["ack"], full, epoch)
        return request, version

    def _instance(self, epoch: int) -> str | None:
        """A member that is there joins under no other instance id than its own, which nobody else does: Kafka keeps a
        member's earlier instance id, and refuses everybody who comes with it until its next load (a listed difference).
        """
        step, seat = self.step, self.seat
        if epoch == 0 and seat.member_id and step["id"] in ("own", "none"):
            found: str | None = seat.settings["instance"]
            return found
        if epoch == 0 and step["id"] not in ("own", "none"):
            return None
        return self.instance(step, seat, 9, 0)

    def _tell_all(self, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
        seat = self.seat
        request.rebalance_timeout_ms = seat.settings["rebalance"]
        topics = seat.now("topics")
        request.subscribed_topic_names = None if topics is None else self.names_of(topics)
        pattern = seat.now("pattern")
        if version and pattern is not None:
            request.subscribed_topic_regex = pattern
        request.server_assignor = seat.now("assignor")
        request.rack_id = seat.now("rack")

    def _epoch(self, wanted: Any) -> int:
        seat = self.seat
        known = seat.generation if seat.kind == CONSUMER and seat.member_id else 0
        match wanted:
            case "own":
                return max(0, known)
            case "before":
                return max(0, known - 1)
            case "after":
                return known + 1
            case "stale":
                return seat.previous
        number: int = wanted
        return number

    def _member_id(self, epoch: int, version: int) -> str:
        """Who joins by v1 makes its id."""
        seat, step = self.seat, self.step
        member_id = self.member_id(step, seat)
        if step["id"] == "own" and not member_id and (epoch == 0 and version):
            seat.life += 1
            return self.names.ids.setdefault(made := f"{seat.letter.lower()}-{seat.life}", made)
        return member_id

    def _owned(self, how: str, full: bool, epoch: int) -> list[TopicPartitions] | None:
        seat = self.seat
        if how == "none" or epoch < 0:
            return None
        if how == "empty" or (epoch == 0 and how == "told"):
            return []
        owned = dict(seat.before if how == "old" else seat.told)
        if how == "more":
            for topic_id in list(self.topic_ids.values())[:1]:
                owned[topic_id] = sorted({*owned.get(topic_id, []), 0, 1})
        if how == "told" and owned == seat.owned and not full:
            return None
        # A broker's order says nothing, and what the member says shall not depend on it.
        known = sorted(owned, key=self.names.ids.__getitem__)
        return [TopicPartitions(topic_id, list(owned[topic_id])) for topic_id in known]

    def describe_consumer(self) -> tuple[Any, int]:
        groups = [self.group(name) if name else "" for name in self.step["groups"]]
        return ConsumerGroupDescribeRequest(groups, self.step["operations"]), self.step["version"]

    # The classic protocol

    def join(self) -> tuple[Any, int]:
        request, version = super().join()
        seat = self.seat
        topics = self.names_of(seat.now("topics") or [])
        owned = self._owned_by_name() if self.step.get("owned", "told") == "told" else []
        for protocol in request.protocols:
            protocol.metadata = seat.subscription(protocol.name, topics, owned)
        return request, version

    def _owned_by_name(self) -> list[TopicPartition]:
        by_id = {topic_id: name for name, topic_id in self.topic_ids.items()}
        told = sorted((by_id[topic_id], numbers) for topic_id, numbers in self.seat.told.items() if topic_id in by_id)
        return [TopicPartition(name, list(numbers)) for name, numbers in told]

    def sync(self) -> tuple[Any, int]:
        kind = self.step.get("assign", "all")
        plain = {"all": "all", "first": "first", "garbage": "all", "user data": "all"}.get(kind, "none")
        original, self.step = self.step, {**self.step, "assign": plain}
        request, version = super().sync()
        self.step = original
        assert isinstance(request, SyncGroupRequest)
        members = [one.member_id for one in request.assignments]
        request.assignments = [
            SyncGroupRequestAssignment(member_id, b"\0" if kind == "garbage" else self._share(number, members, kind))
            for number, member_id in enumerate(members)
        ]
        return request, version

    def _share(self, number: int, members: list[str], kind: str) -> bytes:
        """What a member is given by the leader: every so manieth partition of the leader's topics."""
        parts = []
        for name in self.names_of(self.seat.now("topics") or []):
            numbers = list(range(self.counts.get(name, 0)))[number :: len(members)]
            if numbers:
                parts.append(TopicPartition(name, numbers))
        data = b"x" if kind == "user data" else None
        version = self.seat.settings["subscription"]
        return _VERSION.pack(version) + encode_message(ConsumerProtocolAssignment(parts, data), version)

    # Transactions

    def init(self) -> tuple[Any, int]:
        return InitProducerIdRequest(self._transaction(), 60_000), 4

    def add_offsets(self) -> tuple[Any, int]:
        step = self.step
        return AddOffsetsToTxnRequest(self._transaction(), step["producer_id"], 0, self.group()), 3

    def commit_in_transaction(self) -> tuple[Any, int]:
        step, seat = self.step, self.seat
        version = step["version"]
        request = TxnOffsetCommitRequest(self._transaction(), self.group(), step["producer_id"], 0)
        if version >= 3:
            request.generation_id = self.generation()
            request.member_id = self.member_id(step, seat)
            request.group_instance_id = self.instance(step, seat, version, 3)
        for name, numbers in step["topics"].items():
            parts = [TxnOffsetCommitRequestPartition(each, step["offset"] + each, -1, "") for each in numbers]
            request.topics.append(TxnOffsetCommitRequestTopic(name, partitions=parts))
        return request, version

    def end_transaction(self) -> tuple[Any, int]:
        return EndTxnRequest(self._transaction(), self.step["producer_id"], 0, self.step["commits"]), 3

    def _transaction(self) -> str:
        return f"{self.names.story}.transaction{self.step['transaction']}"

    def configure(self) -> tuple[Any, int]:
        name, value = self.step["name"], self.step["value"]
        change = AlterableConfig(name, 1 if value is None else 0, value)
        resource = AlterConfigsResource(GROUP_RESOURCE, self.group(), [change])
        return IncrementalAlterConfigsRequest([resource]), 1


WORDS = CLASSIC_WORDS | {
    "beat": ConsumerWording.beat,
    "begin": ConsumerWording.beat,
    "end": ConsumerWording.beat,
    "pattern": ConsumerWording.beat,
    "join": ConsumerWording.join,
    "sync": ConsumerWording.sync,
    "describe consumer": ConsumerWording.describe_consumer,
    "init": ConsumerWording.init,
    "add offsets": ConsumerWording.add_offsets,
    "commit in transaction": ConsumerWording.commit_in_transaction,
    "end transaction": ConsumerWording.end_transaction,
    "configure": ConsumerWording.configure,
}


def learn(seat: ConsumerSeat, request: Any, message: Any, names: Names, topic_ids: Mapping[str, bytes]) -> None:
    """What a client makes of an answer."""
    kind = type(message).__name__
    if kind == "ConsumerGroupHeartbeatResponse":
        _learn_heartbeat(seat, request, message, names)
        return
    was = seat.member_id
    learn_classic(seat, request, message, names)
    if kind == "JoinGroupResponse" and not message.error_code:
        seat.kind = CLASSIC
    if kind == "SyncGroupResponse" and not message.error_code and seat.kind == CLASSIC:
        found = assignment_of(message.assignment)
        parts = [] if found is None else found.assigned_partitions
        seat.told = {topic_ids[part.topic]: sorted(part.partitions) for part in parts if part.topic in topic_ids}
    if was and not seat.member_id:
        seat.drop()


def _learn_heartbeat(seat: ConsumerSeat, request: Any, message: Any, names: Names) -> None:
    if not request.group_id.endswith(".group"):
        return
    is_own = request.member_id == seat.member_id
    if message.error_code in FENCED and is_own and seat.kind == CONSUMER:
        seat.previous, seat.generation = seat.generation, 0
        seat.drop()
        return
    if message.error_code or not (is_own or request.member_epoch == 0):
        return
    if message.member_epoch < 0:
        seat.forget()
        seat.previous, seat.generation = seat.generation, 0
        seat.drop()
        return
    if re.fullmatch(r"[A-Za-z0-9_-]{22}", message.member_id):
        names.id_for("M", message.member_id)
    if seat.member_id and message.member_id != seat.member_id:
        seat.stale_id = seat.member_id
    seat.kind, seat.member_id = CONSUMER, message.member_id
    if message.member_epoch != seat.generation:
        seat.previous, seat.generation = seat.generation, message.member_epoch
    if request.member_epoch == 0:
        seat.drop()
    if request.topic_partitions is not None:
        seat.owned = {each.topic_id: list(each.partitions) for each in request.topic_partitions}
    if message.assignment is not None:
        seat.before = seat.told
        seat.told = {each.topic_id: sorted(each.partitions) for each in message.assignment.topic_partitions}
    _learn_change(seat, request)


def _learn_change(seat: ConsumerSeat, request: Any) -> None:
    story = request.group_id.removesuffix("group")
    if request.subscribed_topic_names is not None:
        seat.changed["topics"] = [name.removeprefix(story) for name in request.subscribed_topic_names]
    if request.subscribed_topic_regex is not None:
        seat.changed["pattern"] = request.subscribed_topic_regex
    if request.server_assignor is not None:
        seat.changed["assignor"] = request.server_assignor
    if request.rack_id is not None:
        seat.changed["rack"] = request.rack_id

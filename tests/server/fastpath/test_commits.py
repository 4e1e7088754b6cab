"""A commit that is not decoded is answered, logged and applied as if it were, whatever has happened before."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from coordinatord.base.observe.logger import captured
from coordinatord.coordination.group.events import EndTransaction, TxnCommit, Unload
from coordinatord.server.fastpath import commits
from coordinatord.server.fastpath.commit_shape import MAX_PARTITIONS
from coordinatord.server.fastpath.commits import KEPT_MS
from kafka_wire.api.delete_groups import DeleteGroupsRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_wire.api_key import ApiKey
from kafka_wire.codecs import encode_message
from kafka_wire.errors import ErrorCode
from kafka_wire.lengths import write_uvarint
from kafka_wire.records.batch import Records
from kafka_wire.schema import ZERO_UUID
from tests.handlers.world import World
from tests.support.shell import Wire, read_records, request_frame, with_behind

INSTANCE = "instance-1"
SESSION_MS = 10_000
COMMIT = ApiKey.OFFSET_COMMIT


class Side:
    """A world with one connection."""

    def __init__(self, *, with_shortcuts: bool, **settings: Any) -> None:
        self.world = World(with_shortcuts=with_shortcuts, **settings)
        self.logged: list[tuple[int, list[tuple[bytes, bytes | None]], int]] = []
        append = self.world.append

        def append_watched(partition: int, records: Records, now_ms: int, producer: Any = None) -> int:
            self.logged.append((partition, read_records(records, now_ms), now_ms))
            return append(partition, records, now_ms, producer)

        self.world.append = append_watched  # type: ignore[method-assign]
        self.wire = self.world.wire()

    def send(self, frame: bytes) -> bytes:
        """The answers to a frame, as bytes."""
        if self.wire.connection.closed:
            self.wire = self.world.wire()
        self.wire.transport.written.clear()
        self.wire.connection.data_received(frame)
        self.world.turns.run()
        return bytes(self.wire.transport.written)

    @property
    def group(self) -> Any:
        actor = self.world.coordinator.actors.get("g")
        return None if actor is None else actor.group

    def looks(self) -> Any:
        """All that a commit may change."""
        group = self.group
        if group is None:
            return None
        members = {each.member_id: (each.session_deadline_ms, each.timer_ms) for each in group.members.values()}
        state = group.state, group.generation_id, group.exists, group.pending
        counts = self.world.coordinator.offset_count(), self.world.coordinator.metrics.offset_commits
        return members, state, counts, self.world.timers.armed


class Story:
    """The same things happen on both sides, of which one has no shortcuts."""

    def __init__(self, seed: int, **settings: Any) -> None:
        self.rng = random.Random(seed)
        self.sides = [Side(with_shortcuts=each, **settings) for each in (True, False)]
        self.member, self.generation, self.instance = "", 0, None
        self.version, self.empty = 8, ""
        self.session_ms = SESSION_MS
        self.set: list[tuple[str, list[int]]] = [("orders", [0, 1, 3])]

    def send(self, message: Any, version: int, tail: bytes = b"") -> bytes:
        frame = request_frame(message, version, self.rng.randrange(1000))
        if tail:
            frame = (int.from_bytes(frame[:4], "big") + len(tail) - 1).to_bytes(4, "big") + frame[4:-1] + tail
        behind = self.rng.choice([b"\0\0\0", b"\0", frame]) if self.rng.random() < 0.1 else b""
        frames = with_behind(frame, behind), frame
        one, other = [side.send(each) for side, each in zip(self.sides, frames, strict=True)]
        assert one == other
        return one

    def check(self) -> None:
        one, other = self.sides
        assert one.logged == other.logged
        assert one.world.log == other.world.log
        assert one.looks() == other.looks()
        if one.group is not None:
            assert one.group.offsets == other.group.offsets

    def topic(self, name: str) -> tuple[bytes, int]:
        return self.sides[0].world.topics.table.get(name, (ZERO_UUID, 0))

    # What happens

    def commit(self, **fields: Any) -> None:
        rng = self.rng
        metadata = "here" if rng.random() < 0.03 else self.empty
        topics = [
            OffsetCommitRequestTopic(
                name,
                self.topic(name)[0],
                [
                    OffsetCommitRequestPartition(
                        each, rng.choice([rng.randrange(1 << 40), -1]), rng.choice([-1, 0, 7]), metadata
                    )
                    for each in (rng.sample(partitions, len(partitions)) if rng.random() < 0.3 else partitions)
                ],
            )
            for name, partitions in self.set
        ]
        if rng.random() < 0.03:
            rng.choice(topics[0].partitions).committed_metadata = "here"
        request = OffsetCommitRequest("g", self.generation, self.member, self.instance, topics=topics)
        tags = b"\1\x05\2hi" if rng.random() < 0.03 else b""
        version = 8 if tags else rng.choice([7, 8, 9, 10]) if rng.random() < 0.03 else self.version
        self.send(replace(request, **fields), version, tags)

    def commit_often(self) -> None:
        for _ in range(self.rng.randrange(1, 9)):
            self.commit()
            self.check()

    def commit_as_before(self) -> None:
        self.commit(generation_id_or_member_epoch=self.generation - 1)

    def commit_as_somebody_else(self) -> None:
        self.commit(member_id="somebody")

    def commit_otherwise(self) -> None:
        self.version = self.rng.choice([7, 8, 8, 9, 10])
        self.empty = self.rng.choice(["", None])

    def commit_other_partitions(self) -> None:
        self.set = self.rng.choice(
            [
                [("orders", [0, 1, 3])],
                [("orders", [0, 1, 2])],
                [("orders", [0, 1, 2, 3])],
                [("orders", [2])],
                [("orders", [1]), ("clicks", [0, 1])],
                [("orders", [0, 0])],
                [("orders", [7])],
                [("none", [0])],
            ]
        )

    def begin_anew(self) -> None:
        """All is well again: the topics are there, and there is one member."""
        self.set = [("orders", [0, 1, 3])]
        for side in self.sides:
            for name in ("orders", "clicks"):
                side.world.topics.table[name] = (self.topic(name)[0] if self.topic(name)[1] else b"\x50" * 16), 4
        members = [] if self.sides[0].group is None else list(self.sides[0].group.members)
        self.send(LeaveGroupRequest("g", members=[MemberIdentity(each) for each in members]), 5)
        self.join()

    def join(self) -> None:
        self.instance = self.rng.choice([None, INSTANCE])
        self.session_ms = self.rng.choice([6_000, SESSION_MS])
        protocols = [JoinGroupRequestProtocol("range", self.rng.randbytes(3))]
        for _ in range(3):
            joined = self.ask(
                JoinGroupRequest("g", self.session_ms, 60_000, self.member, self.instance, "consumer", protocols), 9
            )
            if joined is None:
                return  # it is parked
            if joined.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                self.member = ""
                continue
            self.member = joined.member_id
            if joined.error_code == ErrorCode.NONE:
                self.generation = joined.generation_id
                assignments = [SyncGroupRequestAssignment(self.member, b"a")]
                if self.rng.random() < 0.8:
                    self.send(
                        SyncGroupRequest(
                            "g", self.generation, self.member, self.instance, "consumer", "range", assignments
                        ),
                        5,
                    )
                return

    def ask(self, message: Any, version: int) -> Any:
        if not (answer := self.send(message, version)):
            for side in self.sides:
                side.wire = side.world.wire()
            return None
        wire = Wire(self.sides[0].world.door, self.sides[0].world.turns)
        wire.frame(message, version)
        wire.transport.written += answer[:4] + (1).to_bytes(4, "big") + answer[8:]
        return wire.answers[0][1]

    def be_fenced(self) -> None:
        """A static member is started a second time, and the first one goes on."""
        if self.instance is not None:
            member, self.member = self.member, ""
            self.join()
            if self.rng.random() < 0.5:
                self.member = member

    def leave(self) -> None:
        self.send(LeaveGroupRequest("g", members=[MemberIdentity(self.member, self.instance)]), 5)

    def use_without_members(self) -> None:
        self.leave()
        self.member, self.generation, self.instance = "", -1, None

    def heartbeat(self) -> None:
        self.send(HeartbeatRequest("g", self.generation, self.member, self.instance), 4)

    def wait(self) -> None:
        passed = self.rng.choice([1, 1, 50, 3_000])
        for side in self.sides:
            side.world.now += passed

    def change_topic(self) -> None:
        """It is deleted and made again, or has more or fewer partitions, or is gone for good."""
        name = self.rng.choice(["orders", "clicks"])
        kind = self.rng.randrange(4)
        for side in self.sides:
            table = side.world.topics.table
            topic_id, size = table.get(name, (b"\x30" * 16, 4))
            if kind == 0:
                table[name] = topic_id, size + 1
            else:
                side.world.topics.deletions += 1
                side.world.coordinator.topic_deleted(name, topic_id)
                table[name] = bytes([topic_id[0] + 1] * 16), size
            if kind == 1:
                del table[name]

    def delete_offsets(self) -> None:
        topics = [OffsetDeleteRequestTopic("orders", [OffsetDeleteRequestPartition(self.rng.randrange(4))])]
        self.send(OffsetDeleteRequest("g", topics), 0)

    def delete_group(self) -> None:
        self.send(DeleteGroupsRequest(["g"]), 2)

    def tell(self, event: Callable[[], Any]) -> None:
        for side in self.sides:
            actor = side.world.coordinator.actors.get("g")
            if actor is not None:
                actor.tell(event())

    def begin_transaction(self) -> None:
        partitions = [TxnOffsetCommitRequestPartition(self.rng.randrange(4), self.rng.randrange(1000))]
        topics = [TxnOffsetCommitRequestTopic("orders", partitions=partitions)]
        self.tell(lambda: TxnCommit(TxnOffsetCommitRequest("tx", "g", 7, 0, topics=topics)))

    def end_transaction(self) -> None:
        if self.sides[0].group is not None and self.sides[0].group.pending is not None:
            self.tell(lambda: EndTransaction(7, True))

    def go_elsewhere_and_back(self) -> None:
        """The partition is another node's for a while; then its groups are back, with nothing."""
        if self.rng.random() < 0.3:
            self.tell(Unload)
            self.commit()
            for side in self.sides:
                side.world.coordinator.actors.pop("g", None)


USUAL = [Story.commit_often] * 16 + [Story.wait] * 4 + [Story.join] * 2 + [Story.begin_anew] * 5
HAPPENS = [
    *USUAL,
    Story.commit_as_before,
    Story.commit_as_somebody_else,
    Story.commit_otherwise,
    Story.commit_other_partitions,
    Story.be_fenced,
    Story.leave,
    Story.use_without_members,
    Story.heartbeat,
    Story.change_topic,
    Story.delete_offsets,
    Story.delete_group,
    Story.begin_transaction,
    Story.end_transaction,
    Story.go_elsewhere_and_back,
]


@pytest.mark.interpreted
@pytest.mark.parametrize("seed", range(16))
def test_whatever_happens_it_is_as_if_each_commit_were_decoded(seed: int) -> None:
    story = Story(seed)
    for side in story.sides:
        side.world.door.connections.max_connections = 10_000
    hits = story.sides[0].world.hits
    for number in range(1_000):
        story.rng.choice(HAPPENS)(story)
        story.check()
        if number > 150 and hits[COMMIT] > 2:
            break  # in a few stories the first commits are all of another kind
    assert hits[COMMIT] > 2


def commit(world: World, wire: Wire, group: str, partitions: list[int], offset: int = 5) -> list[int]:
    """Somebody who is no member commits; the error codes."""
    each = [OffsetCommitRequestPartition(partition, offset, 3, "") for partition in partitions]
    wire.send(OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("orders", partitions=each)]), 8)
    topics = wire.answers[-1][1].topics if wire.answers else []
    return [partition.error_code for topic in topics for partition in topic.partitions]


def made(world: World) -> list[Any]:
    return [known.shape for known in world.shortcut(COMMIT, 8)._known.values()]


def test_an_answer_waits_for_the_log_and_says_so_when_that_fails() -> None:
    world = World()
    wire = world.wire()
    commit(world, wire, "g", [0, 1])
    commit(world, wire, "g", [0, 1])
    assert None not in made(world)
    world.gate.flushed_epoch = 2
    assert commit(world, wire, "g", [0, 1], 6) == [0, 0], "the answer before"
    assert len(wire.answers) == 2
    world.gate.flush(3)
    world.turns.run()
    assert len(wire.answers) == 3
    hits = world.hits[COMMIT]
    commit(world, wire, "g", [1, 0], 7)
    assert world.hits[COMMIT] == hits + 1, "in another order"
    world.gate.fail()
    world.turns.run()
    response = wire.answers[3][1]
    assert [(each.partition_index, each.error_code) for each in response.topics[0].partitions] == [
        (1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (0, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ]
    assert response.topics[0].name == "orders"


def test_a_shape_is_made_at_the_second_commit_and_seldom_for_who_never_commits_the_same_twice() -> None:
    world = World()
    world.topics.table["orders"] = (b"\1" * 16, 100)
    wire = world.wire()
    shapes = []
    for number in range(40):
        commit(world, wire, "g", [number])
        (shape,) = made(world)
        shapes.append(shape)
    assert shapes[0] is None
    assert len({id(shape) for shape in shapes[1:]}) == 5, "at the 2nd, 4th, 8th, 16th and 32nd commit"


def test_large_commits_have_no_shape() -> None:
    world = World()
    world.topics.table["orders"] = (b"\1" * 16, 100)
    wire = world.wire()
    for _ in range(3):
        commit(world, wire, "some", list(range(MAX_PARTITIONS)))
        commit(world, wire, "many", list(range(MAX_PARTITIONS + 1)))
    some, many = made(world)
    assert some is not None
    assert many is None


def test_no_more_are_known_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "MAX_KNOWN", 3)
    world = World()
    wire = world.wire()
    sizes = []
    for number in range(8):
        assert commit(world, wire, f"g{number}", [0]) == [0]
        sizes.append(len(world.shortcut(COMMIT, 8)))
    assert sizes == [1, 2, 3, 1, 2, 3, 3, 3], "all are forgotten, but not again so soon"
    world.now += KEPT_MS
    assert commit(world, wire, "new", [0]) == [0]
    assert len(world.shortcut(COMMIT, 8)) == 1


def test_a_request_that_is_cut_off_is_refused_as_any() -> None:
    each = [OffsetCommitRequestPartition(partition, 5, 3, "") for partition in (0, 1)]
    request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("orders", partitions=each)])
    frame = request_frame(request, 8, 1)[4:]
    worlds = World(), World()
    for _ in range(3):
        worlds[0].ask(request, 8)
    assert None not in made(worlds[0])
    for size in range(10, len(frame)):
        reasons = []
        for world in worlds:
            wire = world.wire()
            with captured() as lines:
                wire.connection.data_received(size.to_bytes(4, "big") + frame[:size])
            assert wire.connection.closed
            wire.connection.connection_lost(None)
            reasons.append([line["reason"] for line in lines])
        assert reasons[0] == reasons[1] != []
        assert "IndexError" not in reasons[0][0], "our own decoders say what is wrong"


def test_a_request_of_another_version_with_the_same_bytes_is_another_request() -> None:
    """What is a name with its length in v8 is a topic id in v10."""
    world = World()
    name = "fifteen-letters"
    world.topics.table = {name: (b"\1" * 16, 4), "other": (b"\x10" + name.encode(), 4)}
    each = [OffsetCommitRequestPartition(0, 5, 3, "")]
    by_name = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic(name, partitions=each)])
    by_id = OffsetCommitRequest(
        "g", topics=[OffsetCommitRequestTopic(topic_id=world.topics.table["other"][0], partitions=each)]
    )
    assert encode_message(by_name, 8) == encode_message(by_id, 10)
    for _ in range(3):
        world.ask(by_name, 8)
    assert world.ask(by_id, 10).topics[0].topic_id == world.topics.table["other"][0]
    assert list(world.coordinator.actors["g"].group.offsets) == [name, "other"]


def test_a_length_of_two_bytes_says_whose_it_is_as_well() -> None:
    """The look-up takes a slice that is too short; all of the request is compared nevertheless."""
    world = World()
    wire = world.wire()
    names = ["g" * 140 + "1", "g" * 140 + "2"]
    for number in range(6):
        for name in names:
            assert commit(world, wire, name, [0], number) == [0]
    for name in names:
        assert world.coordinator.actors[name].group.offsets["orders"][0].offset == 5
    assert write_uvarint(len(names[0]) + 1) == b"\x8e\x01"

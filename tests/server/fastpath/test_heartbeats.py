"""Heartbeats that are the same bytes are not decoded, and nobody can tell: the same answers, the same deadlines."""

from __future__ import annotations

import random
from typing import Any

import pytest

from coordinatord.coordination.group.result import TimerKey
from coordinatord.coordination.group.state import Member
from coordinatord.coordination.group.states import COMPLETING_REBALANCE, PREPARING_REBALANCE
from coordinatord.server.fastpath.heartbeats import LEAST_KEPT
from kafka_wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from tests.handlers.test_handlers import join_request, stable
from tests.handlers.world import World
from tests.support.shell import Wire, request_frame, with_behind

HEARTBEAT = ApiKey.HEARTBEAT
VERSIONS = range(5)


def beat(world: World, wire: Wire, member: str, group: str = "g", version: int = 4) -> int | None:
    """The error code of a heartbeat, None when it is not answered now."""
    before = len(wire.answers)
    wire.send(HeartbeatRequest(group, 1, member), version)
    return wire.answers[-1][1].error_code if len(wire.answers) > before else None


def test_the_second_of_two_equal_heartbeats_is_not_decoded_and_counts_like_the_first() -> None:
    world = World()
    wire = world.wire()
    member = stable(world, wire)
    metrics = world.metrics
    for number in range(600):
        world.now += 1
        wire.transport.written.clear()
        wire.send(HeartbeatRequest("g", 1, member), 4)
        ((correlation_id, response),) = wire.answers
        assert (correlation_id, response) == (wire.next_id - 1, HeartbeatResponse())
        assert world.coordinator.actors["g"].group.members[member].session_deadline_ms == world.now + 10_000
        assert (world.hits[HEARTBEAT], metrics.requests[HEARTBEAT]) == (number, number + 1)
    timed = sum(metrics.request_seconds[HEARTBEAT].counts)
    assert timed == 600 // 16 * 16, "the first 256, then each sixteenth for sixteen"


def test_it_is_known_on_any_connection_and_only_for_the_same_bytes_in_the_same_version() -> None:
    world = World()
    member = stable(world, world.wire())
    beat(world, world.wire(), member)
    beat(world, world.wire(), member)
    assert world.hits[HEARTBEAT] == 1
    beat(world, world.wire(), member, version=1)
    beat(world, world.wire(), member, version=2)  # the same bytes, and no other answer; but it might be
    assert world.hits[HEARTBEAT] == 1
    assert [len(world.shortcut(HEARTBEAT, version)) for version in VERSIONS] == [0, 1, 1, 0, 1]
    wire = world.wire()
    for name in ("one", "two"):
        frame = request_frame(HeartbeatRequest("g", 1, member), 2, 7, name)
        wire.connection.data_received(frame)
        assert wire.connection.client_id == name
    assert world.hits[HEARTBEAT] == 1
    wire.connection.data_received(request_frame(HeartbeatRequest("g", 2, member), 2, 7, "two"))
    assert world.hits[HEARTBEAT] == 1
    assert bytes(wire.transport.written)[-2:] == ErrorCode.ILLEGAL_GENERATION.to_bytes(2, "big")


def test_of_a_member_that_says_ever_new_things_no_more_is_kept_than_there_is_room_for() -> None:
    world = World()
    member, other = stable(world, world.wire()), stable(world, world.wire(), group="h")
    beat(world, world.wire(), other, group="h")
    wire = world.wire()
    for number in range(3 * LEAST_KEPT):
        wire.connection.data_received(request_frame(HeartbeatRequest("g", 1, member), 4, 7, f"client-{number}"))
        wire.transport.written.clear()
    known = world.shortcut(HEARTBEAT, 4)
    assert len(known) <= LEAST_KEPT
    assert beat(world, world.wire(), other, group="h") == ErrorCode.NONE
    assert world.hits[HEARTBEAT] == 1, "who says the same thing all the time is still known"


def test_what_does_not_hold_any_more_is_forgotten_when_there_is_no_room() -> None:
    world = World(max_groups=3 * LEAST_KEPT)
    for number in range(LEAST_KEPT + 1):
        group, wire = f"g{number}", world.wire()
        member = stable(world, wire, group=group)
        beat(world, wire, member, group=group)
        wire.send(LeaveGroupRequest(group, member), 1)
        wire.connection.connection_lost(None)
    assert len(world.shortcut(HEARTBEAT, 4)) == 1


def test_the_same_bytes_are_answered_in_their_own_version() -> None:
    world = World()
    wire = world.wire()
    member = stable(world, wire)
    request = HeartbeatRequest("g", 1, member)
    wire.send(request, 1)
    wire.connection.data_received(b"".join(wire.frame(request, version) for version in (1, 1, 0, 1, 0)))
    assert [response for _, response in wire.answers[3:]] == [HeartbeatResponse()] * 6
    assert world.hits[HEARTBEAT] == 4, "all but the first of each version"


def test_a_heartbeat_waits_for_a_record_of_its_group_although_the_group_stays_stable() -> None:
    world = World()
    member = stable(world, world.wire())
    world.gate.flushed_epoch = world.epoch
    commit(world, world.wire(), member)
    world.gate.flush(world.epoch)
    assert [beat(world, world.wire(), member) for _ in range(2)] == [0, 0]
    assert world.hits[HEARTBEAT] == 1
    waiting = world.wire()
    world.coordinator.topic_deleted("orders", world.topics.table["orders"][0])  # a tombstone
    assert world.coordinator.actors["g"].group.state.shown == "Stable"
    assert beat(world, waiting, member) is None
    world.gate.flush(world.epoch)
    world.turns.run()
    assert [response.error_code for _, response in waiting.answers] == [ErrorCode.NONE]
    assert world.hits[HEARTBEAT] == 1
    assert [beat(world, world.wire(), member) for _ in range(2)] == [0, 0]
    assert world.hits[HEARTBEAT] == 2


def commit(world: World, wire: Wire, member: str) -> None:
    topics = [OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition(0, 5)])]
    wire.send(OffsetCommitRequest("g", 1, member, topics=topics), 8)


def test_behind_an_answer_that_waits_for_the_log_it_waits_too() -> None:
    world = World()
    wire = world.wire()
    member = stable(world, wire)
    for _ in range(2):
        beat(world, wire, member)
    known = world.hits[HEARTBEAT]
    world.gate.flushed_epoch = world.epoch
    answered = len(wire.answers)
    commit(world, wire, member)
    assert beat(world, wire, member) is None
    assert beat(world, world.wire(), member) == ErrorCode.NONE
    assert world.hits[HEARTBEAT] == known + 1
    world.gate.flush(world.epoch)
    world.turns.run()
    assert [correlation_id for correlation_id, _ in wire.answers[answered:]] == [answered + 1, answered + 2]


def test_a_daemon_that_stops_knows_nobody() -> None:
    world = World()
    wire = world.wire()
    member = stable(world, wire)
    assert [beat(world, wire, member) for _ in range(2)] == [0, 0]
    world.coordinator.drain()
    assert beat(world, wire, member) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.hits[HEARTBEAT] == 1


def test_a_heartbeat_that_had_to_wait_counts_from_when_it_is_looked_at() -> None:
    """Behind a join on its own connection. So no deadline is ever earlier than the last one was."""
    world = World(initial_rebalance_delay_ms=3_000)
    wire, other = world.wire(), world.wire()

    def begin(group: str) -> None:
        world.now += 3_000
        world.coordinator.timed_out(TimerKey(group, "join"))
        world.turns.run()

    other.send(join_request(), 3)
    begin("g")
    member = other.answers[0][1].member_id
    other.send(SyncGroupRequest("g", 1, member, assignments=[SyncGroupRequestAssignment(member, b"")]), 3)
    assert beat(world, other, member) == ErrorCode.NONE
    wire.send(join_request(group="h"), 3)
    assert beat(world, wire, member) is None
    begin("h")
    assert [response.error_code for _, response in wire.answers] == [ErrorCode.NONE] * 2
    assert world.coordinator.actors["g"].group.members[member].session_deadline_ms == world.now + 10_000


# Whatever happens


WIRES = 6


class Pair:
    """Two worlds to which the same happens. One of them has no shortcuts."""

    def __init__(self, rng: random.Random, **settings: Any) -> None:
        self.rng = rng
        settings |= {"durable": False, "initial_rebalance_delay_ms": rng.choice([0, 3_000])}
        self.worlds = World(**settings), World(**settings, with_shortcuts=False)
        self.wires = [[world.wire() for _ in range(WIRES)] for world in self.worlds]
        self.is_flushing = True
        self.sent = 0
        self.said: list[tuple[HeartbeatRequest, int]] = []

    @property
    def group(self) -> Any:
        actor = self.worlds[0].coordinator.actors.get("g")
        return None if actor is None else actor.group

    def send(self, *messages: tuple[Any, int], client_id: str = "c") -> None:
        """Some requests in one read, mostly where nobody waits."""
        free = [number for number, wire in enumerate(self.wires[0]) if not wire.connection.line.parked]
        number = self.rng.choice(free if free and self.rng.random() < 0.9 else range(WIRES))
        data, plain = b"", b""
        for message, version in messages:
            self.sent += 1
            frame = request_frame(message, version, self.sent, client_id)
            data += with_behind(frame, self.rng.choice([*[b""] * 8, b"\0", b"\0\0\0"]))
            plain += frame
        for wires, each in zip(self.wires, (data, plain), strict=True):
            wires[number].connection.data_received(each)

    def settle(self) -> None:
        """Let the loops turn, and see that the worlds are still the same."""
        for world in self.worlds:
            world.turns.run()
            if self.is_flushing:
                world.gate.flush(world.epoch)
                world.turns.run()
        one, other = (
            (
                [(bytes(wire.transport.written), wire.transport.closed) for wire in wires],
                world.timers.armed,
                {
                    name: (actor.group.state, actor.epoch, actor.membership_epoch, [_told(each) for each in members])
                    for name, actor in world.coordinator.actors.items()
                    for members in [actor.group.members.values()]
                },
                world.metrics.requests,
            )
            for world, wires in zip(self.worlds, self.wires, strict=True)
        )
        assert one == other
        for world in self.worlds:
            groups = [actor.group for actor in world.coordinator.actors.values()]
            assert world.coordinator.pending_ids == sum(len(group.pending_members) for group in groups)
        for number in range(WIRES):
            if self.wires[0][number].transport.closed:
                for world, wires in zip(self.worlds, self.wires, strict=True):
                    wires[number].connection.connection_lost(None)
                    wires[number] = world.wire()


def _told(member: Member) -> tuple[Any, ...]:
    return member.member_id, member.session_deadline_ms, member.timer_ms, member.session_timeout_ms, member.assignment


def some_member(pair: Pair) -> tuple[str, str | None]:
    members = list(pair.group.members.values()) if pair.group is not None else []
    if not members:
        return "nobody", None
    member = pair.rng.choice(members)
    return member.member_id, member.group_instance_id


def heartbeats(pair: Pair) -> None:
    rng, generation = pair.rng, pair.group.generation_id if pair.group is not None else 0
    beats = []
    for _ in range(rng.randint(1, 3)):
        member, instance = some_member(pair)
        version = rng.choice([4, 4, 4, 4, 3, 1, 0])
        off_by = rng.choice([0] * 9 + [1])
        instance = instance if version >= 3 and rng.random() < 0.9 else None
        beats.append((HeartbeatRequest("g", generation - off_by, member, instance), version))
        if pair.said and rng.random() < 0.3:
            beats[-1] = rng.choice(pair.said[-20:])  # perhaps of one who has gone
    pair.said += beats
    for _ in range(rng.choice([1, 2])):
        pair.send(*beats, client_id=rng.choice(["c", "c", "c", "c", "d"]))


def join(pair: Pair) -> None:
    rng = pair.rng
    member, instance = some_member(pair) if rng.random() < 0.6 else ("", rng.choice([None, "i", "j"]))
    if instance is not None and rng.random() < 0.5:
        member = ""  # it has restarted
    protocols = [JoinGroupRequestProtocol("range", rng.choice([b"topics", b"topics", b"other"]))]
    session_ms = rng.choice([6_000, 20_000])
    pair.send(
        (JoinGroupRequest("g", session_ms, 60_000, member, instance, "consumer", protocols), rng.choice([9, 5, 3]))
    )


def balance(pair: Pair) -> None:
    """All members do what they are asked to, and there are two at least."""
    while pair.group is None or len(pair.group.members) < 2:
        # What is behind a join or a sync waits for its answer, and that may wait for the log.
        pair.is_flushing |= all(wire.connection.line.parked for wire in pair.wires[0])
        protocols = [JoinGroupRequestProtocol("range", b"topics")]
        instance = None if pair.group is None or "i" in pair.group.static_members else "i"
        pair.send((JoinGroupRequest("g", 20_000, 60_000, "", instance, "consumer", protocols), 5 if instance else 3))
        pair.settle()
        time_passes(pair)
    for _ in range(3):
        group = pair.group
        for member in list(group.members.values()) if group is not None else ():
            if group.state is PREPARING_REBALANCE and member.join_reply_to is None:
                protocols = [JoinGroupRequestProtocol(name, metadata) for name, metadata in member.protocols]
                again = JoinGroupRequest("g", 20_000, 60_000, member.member_id, None, "consumer", protocols)
                pair.send((again, 9))
            elif group.state is COMPLETING_REBALANCE and member.sync_reply_to is None:
                assignments = [SyncGroupRequestAssignment(each, each.encode()) for each in group.members]
                pair.send((SyncGroupRequest("g", group.generation_id, member.member_id, assignments=assignments), 3))
            pair.settle()


def leave(pair: Pair) -> None:
    member, instance = some_member(pair)
    pair.send((LeaveGroupRequest("g", members=[MemberIdentity(member, instance)]), 3))


def commits(pair: Pair) -> None:
    member, instance = some_member(pair)
    generation = pair.group.generation_id if pair.group is not None else -1
    topics = [OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition(0, pair.sent)])]
    pair.send((OffsetCommitRequest("g", generation, member, instance, topics=topics), 8))


def topic_goes(pair: Pair) -> None:
    for world in pair.worlds:
        world.coordinator.topic_deleted("orders", world.topics.table["orders"][0])


def time_passes(pair: Pair) -> None:
    by_ms = pair.rng.choice([1, 1_000, 3_000, 5_999, 6_000])
    for world in pair.worlds:
        world.now += by_ms
        for key in sorted(key for key, deadline_ms in world.timers.armed.items() if deadline_ms <= world.now):
            if world.timers.armed.pop(key, None) is not None:
                world.coordinator.timed_out(key)


def disk(pair: Pair) -> None:
    pair.is_flushing = not pair.is_flushing


def unload(pair: Pair) -> None:
    if pair.rng.random() < 0.1:
        for world in pair.worlds:
            world.coordinator.drain()
            world.coordinator.draining = False


HAPPENS = [*[heartbeats] * 12, *[balance] * 6, *[commits] * 3, time_passes, time_passes, disk]
CHANGES = [join, join, leave, topic_goes, unload]


@pytest.mark.parametrize("seed", range(10))
def test_whatever_happens_it_is_answered_as_if_it_were_decoded(seed: int) -> None:
    pair = Pair(random.Random(seed))
    for world in pair.worlds:
        world.door.connections.max_connections = 10_000
    for _ in range(1_000):
        pair.rng.choice(HAPPENS if pair.rng.random() < 0.9 else CHANGES)(pair)
        pair.settle()
    assert pair.worlds[0].hits[HEARTBEAT] > 20

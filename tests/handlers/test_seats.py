"""Joins and syncs that are not decoded are answered as if they were, whatever has happened before."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from coordinatord.group.state import Member
from coordinatord.group.states import COMPLETING_REBALANCE, PREPARING_REBALANCE
from coordinatord.net.connection import Connection
from coordinatord.net.request import RequestContext
from coordinatord.observe.ledger import Ledger
from coordinatord.shortcuts.seats import Seat
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.errors import ErrorCode
from kafka_wire.rejoin_shape import MAX_BYTES, RejoinShape
from tests.handlers.world import World
from tests.shell import Wire, request_frame

TIMEOUT_MS = 60_000
MAX_METADATA = 1_000  # of World
SIZES = [0, 1, 5, 5, 5, 126, 127, 128, 300, 600]


class Client:
    """A consumer with a connection, and what it usually says."""

    def __init__(self, rng: random.Random, number: int) -> None:
        self.wire = number
        self.member_id = ""
        self.instance = rng.choice([None, None, f"instance-{number}"])
        self.join_version = rng.choice([9, 9, 8, 7, 6, 5])
        self.sync_version = rng.choice([5, 5, 5, 4, 3])
        self.names = rng.choice([["range"], ["range", "sticky"], ["range", "range"]])
        self.session_ms = rng.choice([6_000, 20_000])
        self.client_id: str | None = rng.choice(["c", "consumer-é", "", None])


class Side:
    """A world with connections, and the ledger's records of it. In one of two nobody has a seat."""

    def __init__(self, *, seats: bool, wires: int, **settings: Any) -> None:
        self.world = World(**settings)
        self.world.router.max_connections = 10_000
        self.records: list[bytes] = []
        self.ledger = Ledger(1, lambda _group, record: self.records.append(record()), lambda *_: None)
        self.world.coordinator.ledger = self.ledger
        if not seats:
            self.world.membership.seats.rejoined = lambda *_: None  # type: ignore[method-assign]
        self.wires = [self.world.wire() for _ in range(wires)]

    def looks(self) -> Any:
        """All that a join or a sync may change."""
        groups = {
            name: (
                (actor.group.state, actor.group.generation_id, actor.group.leader_id, actor.epoch),
                (actor.group.awaiting_join_count, list(actor.group.pending_sync_members)),
                actor.group.supported_protocols,
                [_told(each) for each in actor.group.members.values()],
                self.ledger.open(actor.group),
            )
            for name, actor in self.world.coordinator.actors.items()
        }
        wires = [(bytes(wire.transport.written), wire.transport.closed, _waits(wire.connection)) for wire in self.wires]
        return wires, groups, self.world.timers.armed, self.world.router.metrics.requests, self.records


def _waits(connection: Connection) -> tuple[bool, int]:
    return connection.is_parked, connection.waiting_count


def _told(member: Member) -> tuple[Any, ...]:
    parked = tuple(reply and (reply.correlation_id, reply.client_id, reply.body) for reply in _replies(member))
    deadlines = member.session_deadline_ms, member.timer_ms, member.session_timeout_ms, member.rebalance_timeout_ms
    return member.member_id, member.protocols, member.assignment, parked, deadlines


def _replies(member: Member) -> list[RequestContext | None]:
    return [member.join_reply_to, member.sync_reply_to]


class Story:
    """The same things happen on both sides."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.clients = [Client(rng, number) for number in range(5)]
        settings: dict[str, Any] = {"durable": False, "max_size": 100}
        self.sides = [Side(seats=seats, wires=len(self.clients), **settings) for seats in (True, False)]
        self.is_flushing = True
        self.sent = 0

    @property
    def group(self) -> Any:
        actor = self.sides[0].world.coordinator.actors.get("g")
        return None if actor is None else actor.group

    def send(self, client: Client, message: Any, version: int) -> None:
        wire = client.wire
        if self.rng.random() < 0.03:
            wire = self.rng.randrange(len(self.clients))  # on somebody else's connection
        client_id = "another" if self.rng.random() < 0.03 else client.client_id
        self.sent += 1
        frame = request_frame(message, version, self.sent, client_id)
        if self.rng.random() < 0.03:
            self.sent += 1
            frame += request_frame(HeartbeatRequest("g", 1, client.member_id), 4, self.sent)
        for side in self.sides:
            side.wires[wire].connection.data_received(frame)
        self.settle()

    def settle(self) -> None:
        for side in self.sides:
            side.world.turns.run()
            if self.is_flushing:
                side.world.gate.flush(side.world.epoch)
                side.world.turns.run()
        one, other = (side.looks() for side in self.sides)
        assert one == other
        for number, wire in enumerate(self.sides[0].wires):
            if wire.transport.closed:
                self.reconnect(number)
            for side in self.sides:
                side.wires[number].transport.written.clear()
        known = self.group.members if self.group is not None else {}
        for client in self.clients:
            if client.member_id not in known:
                client.member_id = ""

    def reconnect(self, number: int) -> None:
        for side in self.sides:
            side.wires[number].connection.connection_lost(None)
            side.wires[number] = side.world.wire()

    # What clients do

    def join(self, client: Client) -> None:
        rng, group = self.rng, self.group
        before = set(group.members) if group is not None else set()
        names = client.names if rng.random() < 0.96 else ["sticky", "range"]
        request = JoinGroupRequest(
            "g",
            client.session_ms if rng.random() < 0.96 else 10_000,
            TIMEOUT_MS if rng.random() < 0.96 else 2 * TIMEOUT_MS,
            client.member_id,
            client.instance,
            "consumer" if rng.random() < 0.96 else "connect",
            [JoinGroupRequestProtocol(name, bytes(rng.choice(SIZES))) for name in names],
            None if rng.random() < 0.9 else "because",
        )
        version = client.join_version if rng.random() < 0.96 else 7
        if not client.member_id and client.instance is None:
            version = 3  # needs no second round
        if version < 8:
            request.reason = None
        if version < 5:
            request.group_instance_id = None
        self.send(client, request, version)
        if not client.member_id and self.group is not None:
            client.member_id = next((each for each in self.group.members if each not in before), "")

    def sync(self, client: Client) -> None:
        rng, group = self.rng, self.group
        is_leader = group.leader_id == client.member_id
        assigned = [SyncGroupRequestAssignment(each, each.encode() * 20) for each in group.members]
        version = client.sync_version
        request = SyncGroupRequest(
            "g",
            group.generation_id - (rng.random() < 0.05),
            client.member_id,
            client.instance,
            "consumer" if rng.random() < 0.99 else "connect",
            group.protocol_name if rng.random() < 0.99 else "other",
            assigned if is_leader is (rng.random() < 0.97) else [],
        )
        if version < 5:
            request.protocol_type = request.protocol_name = None
        self.send(client, request, version)

    def rebalance(self) -> None:
        """Everybody does what the group waits for, in some order, and some do it twice."""
        for _ in range(3):
            for client in self.rng.sample(self.clients, len(self.clients)):
                self.go_on(client)
            self.is_flushing |= self.rng.random() < 0.8
        if self.group is not None and self.group.state is PREPARING_REBALANCE:
            self.time_passes(TIMEOUT_MS)

    def go_on(self, client: Client) -> None:
        group = self.group
        member = group.members.get(client.member_id) if group is not None else None
        if member is None:
            self.join(client)
        elif any(_replies(member)) and self.rng.random() < 0.98:
            return
        elif group.state is PREPARING_REBALANCE:
            self.join(client)
        elif group.state is COMPLETING_REBALANCE or self.rng.random() < 0.5:
            self.sync(client)

    def begin(self) -> None:
        members = [client for client in self.clients if client.member_id]
        if members:
            self.join(self.rng.choice(members))

    def leave(self) -> None:
        client = self.rng.choice(self.clients)
        self.send(client, LeaveGroupRequest("g", members=[MemberIdentity(client.member_id, client.instance)]), 4)

    def restart(self) -> None:
        client = self.rng.choice(self.clients)
        if client.instance is not None:
            client.member_id = ""
            self.join(client)

    def lose_connection(self) -> None:
        self.reconnect(self.rng.randrange(len(self.clients)))

    def time_passes(self, by_ms: int = 0) -> None:
        by_ms = by_ms or self.rng.choice([1, 1_000, 5_999, TIMEOUT_MS])
        for side in self.sides:
            world = side.world
            world.now += by_ms
            for key in sorted(key for key, deadline_ms in world.timers.armed.items() if deadline_ms <= world.now):
                if world.timers.armed.pop(key, None) is not None:
                    world.coordinator.timed_out(key)

    def disk(self) -> None:
        self.is_flushing = not self.is_flushing

    def unload(self) -> None:
        for side in self.sides:
            side.world.coordinator.drain()
            side.world.coordinator.draining = False


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """How many requests were not decoded, by api key."""
    counts = {11: 0, 14: 0}
    again = Seat.again

    def counted(seat: Seat, key: bytes, buf: bytes, start: int, end: int) -> bool:
        found = again(seat, key, buf, start, end)
        counts[key[1]] += found
        return found

    monkeypatch.setattr(Seat, "again", counted)
    return counts


@pytest.mark.interpreted
@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_they_are_answered_as_if_they_were_decoded(seed: int, taken: dict[int, int]) -> None:
    story = Story(seed)
    rare = [story.leave, story.restart, story.lose_connection, story.time_passes, story.disk, story.unload]
    for _ in range(250):
        story.begin()
        story.rebalance()
        if story.rng.random() < 0.3:
            story.rng.choice(rare)()
            story.settle()
    assert taken[11] > 50
    assert taken[14] > 20
    assert any(b'"completed"' in record for record in story.sides[0].records)


# One after the other


def protocols(size: int, name: str = "range") -> list[JoinGroupRequestProtocol]:
    return [JoinGroupRequestProtocol(name, bytes(size))]


def join(member_id: str, size: int = 5, **other: Any) -> JoinGroupRequest:
    request = JoinGroupRequest("g", 6_000, TIMEOUT_MS, member_id, None, "consumer", protocols(size))
    return replace(request, **other)


class Three:
    """A group of three members, each on its connection, all of whom have a seat. The first one leads."""

    def __init__(self, *, seats: bool = True, **settings: Any) -> None:
        self.side = Side(seats=seats, wires=3, **settings)
        self.world, self.wires = self.side.world, self.side.wires
        for wire in self.wires:
            wire.send(join(""), 3)
        self.wires[0].send(join(self.group.leader_id), 9)
        self.ids = list(self.group.members)
        for size in (1, 2):
            self.sync_all()
            for number in (0, *(size, 3 - size)):
                self.join(number, size)
        self.sync_all()
        assert not seats or all(wire.connection.seat for wire in self.wires[1:])

    def looks(self) -> Any:
        return self.side.looks()

    @property
    def group(self) -> Any:
        return self.world.coordinator.actors["g"].group

    def join(self, number: int, size: int, **other: Any) -> None:
        self.wires[number].send(join(self.ids[number], size, **other), 9)

    def sync(self, number: int, generation: int | None = None, **other: Any) -> None:
        generation = self.group.generation_id if generation is None else generation
        assignments = [SyncGroupRequestAssignment(each, b"for " + each.encode()) for each in self.ids]
        request = SyncGroupRequest(
            "g", generation, self.ids[number], None, "consumer", "range", [] if number else assignments
        )
        self.wires[number].send(replace(request, **other), 5)

    def sync_all(self) -> None:
        for number in (2, 0, 1):
            self.sync(number)

    def last(self, number: int) -> Any:
        return self.wires[number].answers[-1][1]


@pytest.mark.interpreted
def test_a_rejoin_and_a_sync_like_those_before_are_not_decoded(taken: dict[int, int]) -> None:
    three = Three()
    before = dict(taken)
    three.join(0, 7)
    three.join(1, 200)
    assert three.group.members[three.ids[1]].protocols == (("range", bytes(200)),)
    assert three.wires[1].connection.is_parked
    three.join(2, 9)  # the last one is decoded
    assert three.last(1).generation_id == three.last(2).generation_id == three.group.generation_id
    assert {each.member_id: len(each.metadata) for each in three.last(0).members} == dict(
        zip(three.ids, [7, 200, 9], strict=True)
    )
    three.sync_all()
    assert [three.last(number).assignment for number in range(3)] == [b"for " + each.encode() for each in three.ids]
    # One that waits for the leader, and one that comes after.
    assert (taken[11] - before[11], taken[14] - before[14]) == (1, 1)


@pytest.mark.interpreted
def test_requests_that_are_not_decoded_are_counted(taken: dict[int, int]) -> None:
    three = Three()
    metrics = three.world.router.metrics
    before = metrics.requests[11], metrics.requests[14], sum(metrics.request_seconds[11].counts)
    for size in (5, 6):
        for number in (0, 1, 2):
            three.join(number, size)
        three.sync_all()
    assert taken[11] > 0
    assert (metrics.requests[11] - before[0], metrics.requests[14] - before[1]) == (6, 6)
    assert sum(metrics.request_seconds[11].counts) > before[2]


def _over(three: Three) -> None:
    three.sync(1, three.group.generation_id - 1)


def _left(three: Three) -> None:
    three.wires[0].send(LeaveGroupRequest("g", members=[MemberIdentity(three.ids[1])]), 4)


def _has_left(three: Three) -> None:
    _left(three)
    three.join(1, 9)
    for number in (0, 2):
        three.join(number, 9)
    three.sync(1)


def _joins_twice(three: Three) -> None:
    three.world.wire().send(join(""), 3)  # a fourth
    three.wires[2].send(join(three.ids[1], 2), 9)  # as it is known
    three.join(1, 9)


def _syncs_twice(three: Three) -> None:
    for number in (0, 1, 2):
        three.join(number, 7)
    other, three.wires[1] = three.wires[1], three.wires[2]
    three.sync(1)
    three.wires[1] = other
    three.sync(1)
    three.sync(2)  # behind one that is never answered


def _room_is_less(three: Three) -> None:
    three.group.settings = replace(three.group.settings, max_size=1)
    three.join(0, 7)
    three.join(1, 7)


def _leads(three: Three) -> None:
    """And assigns nothing, so that it says what it said before."""
    three.wires[2].send(LeaveGroupRequest("g", members=[MemberIdentity(three.ids[0])]), 4)
    three.join(1, 7)
    three.join(2, 7)
    three.sync(2)
    three.sync(1)


def _syncs_too_late(three: Three) -> None:
    three.join(0, 7)
    three.sync(1)


BOTH = [*protocols(5), *protocols(6, "sticky")]


def _says_another_protocol(three: Three) -> None:
    for _ in range(3):
        for number in (0, 1, 2):
            three.join(number, 0, protocols=BOTH)
        three.sync_all()
    for number in (0, 1, 2):
        three.join(number, 0, protocols=BOTH if number == 1 else BOTH[1:])
    assert three.group.protocol_name == "sticky"
    three.sync(1)


def _has_other_protocols(three: Three) -> None:
    """What it says on its connection is refused, and then it says so again."""
    for each in (BOTH, BOTH[1:]):
        for number in (0, 1, 2):
            three.wires[0 if number == 1 else number].send(join(three.ids[number], protocols=each), 9)
        three.group.generation_id -= 1  # it was not the rebalance that mattered
        for number in (0, 2):
            three.sync(number)
    three.join(0, 0, protocols=BOTH[1:])
    three.join(1, 9)
    three.join(1, 9)


def _sits_with_another(three: Three) -> None:
    for size in range(5):
        for number in (0, 1, 2):
            three.join(number, size)
        generation = three.group.generation_id
        three.wires[1].send(SyncGroupRequest("g", generation, three.ids[2], None, "consumer", "range"), 5)
        three.sync(0)
        three.sync(1)


def _says_another_group(three: Three) -> None:
    three.sync(1, group_id="h")


SITUATIONS = [
    (_over, ErrorCode.ILLEGAL_GENERATION),
    (_has_left, ErrorCode.UNKNOWN_MEMBER_ID),
    (_joins_twice, None),
    (_syncs_twice, None),
    (_room_is_less, ErrorCode.GROUP_MAX_SIZE_REACHED),
    (_leads, ErrorCode.NONE),
    (_syncs_too_late, ErrorCode.REBALANCE_IN_PROGRESS),
    (_says_another_protocol, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    (_has_other_protocols, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    (_sits_with_another, ErrorCode.NONE),
    (_says_another_group, ErrorCode.UNKNOWN_MEMBER_ID),
]


@pytest.mark.interpreted
@pytest.mark.parametrize(("happens", "error"), SITUATIONS, ids=[each.__name__ for each, _ in SITUATIONS])
def test_who_says_what_it_said_before_is_not_answered_as_before(happens: Any, error: ErrorCode | None) -> None:
    one, other = Three(), Three(seats=False)
    assert [wire.connection.seat for wire in other.wires] == [None] * 3
    for three in (one, other):
        happens(three)
    assert one.looks() == other.looks()
    assert error is None or one.last(1).error_code == error


@pytest.mark.interpreted
def test_a_member_that_has_been_loaded_anew_gets_another_seat(taken: dict[int, int]) -> None:
    three = Three()
    member = three.group.members[three.ids[1]]
    three.group.members[member.member_id] = replace(member)
    for size in range(10, 14):
        for number in (0, 1, 2):
            three.join(number, size)
        three.sync_all()
    before = taken[11]
    three.join(0, 20)
    three.join(1, 20)
    assert taken[11] == before + 1


def test_who_joins_for_the_first_time_gets_no_seat() -> None:
    three = Three()
    wire = three.world.wire()
    wire.send(join(""), 9)
    wire.send(join(wire.answers[0][1].member_id), 9)
    assert wire.connection.is_parked
    assert wire.connection.seat is None


def test_metadata_that_is_too_long_is_refused(taken: dict[int, int]) -> None:
    three = Three()
    three.join(0, 7)
    three.join(1, MAX_METADATA - len("range") + 1)
    assert three.last(1).error_code == ErrorCode.POLICY_VIOLATION
    three.join(1, MAX_METADATA - len("range"))
    assert three.wires[1].connection.is_parked


@pytest.mark.interpreted
def test_another_member_on_the_connection_is_decoded_and_gets_its_seat_in_time(taken: dict[int, int]) -> None:
    three = Three()
    three.wires[1], three.wires[2] = three.wires[2], three.wires[1]
    for size in range(10, 20):
        for number in (0, 1, 2) if size % 2 else (0, 2, 1):
            three.join(number, size)
        three.sync_all()
        assert [three.last(number).error_code for number in range(3)] == [0, 0, 0]
    before = dict(taken)
    three.join(0, 20)
    three.join(1, 21)
    assert taken[11] == before[11] + 1
    assert three.group.members[three.ids[1]].protocols == (("range", bytes(21)),)


def test_a_log_that_fails_is_told_of_to_all_that_wait_for_it() -> None:
    three = Three(durable=True)
    for number in (0, 1, 2):
        three.join(number, 30)
    gate = three.world.gate
    gate.flushed_epoch = three.world.epoch
    three.sync(1)
    three.sync(0)
    three.sync(2)
    parked = three.world.coordinator.parked
    assert parked.held_count == 1, "that of the one who came before the leader"
    assert [wire.connection.is_parked for wire in three.wires] == [False, True, False]
    assert [wire.connection.held_count for wire in three.wires] == [1, 0, 1]
    three.wires[2].connection.connection_lost(None)
    gate.fail()
    three.world.turns.run()
    assert [three.last(number).error_code for number in (0, 1)] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert parked.held_count == 0


@pytest.mark.parametrize("durable", [True, False])
def test_an_answer_that_cannot_leave_keeps_no_others_answers(
    durable: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At once, and when the log is ready."""
    three = Three()
    gate = three.world.gate
    for number in (1, 2, 0):
        three.join(number, 30)
    if not durable:
        gate.flushed_epoch = three.world.epoch
    three.sync(1)
    three.sync(2)
    answers = [len(wire.answers) for wire in three.wires]

    def write(data: bytes) -> None:
        raise RuntimeError("unable to perform operation on a closed transport")

    monkeypatch.setattr(three.wires[1].transport, "write", write)
    three.sync(0)
    gate.flush(three.world.epoch)
    three.world.turns.run()
    assert [len(wire.answers) for wire in three.wires] == [answers[0] + 1, answers[1], answers[2] + 1]
    assert [three.last(number).assignment for number in (0, 2)] == [b"for " + three.ids[n].encode() for n in (0, 2)]
    assert [wire.connection.closed for wire in three.wires] == [False, True, False]
    assert "a handler failed" in capsys.readouterr().out


def test_a_request_of_more_bytes_than_are_kept_is_decoded_each_time() -> None:
    three = Three()
    reason = "r" * MAX_BYTES
    for size in range(20, 28):
        for number in (0, 1, 2):
            three.join(number, size, reason=reason)
        three.sync_all()
    shapes = [wire.connection.seat for wire in three.wires]
    assert all(seat is None or seat.size <= MAX_BYTES for seat in shapes)


@pytest.mark.parametrize("version", [6, 7, 8, 9])
@pytest.mark.parametrize("sizes", [[0], [1], [127], [128], [20_000], [0, 0], [300, 0], [1, 500, 3]])
def test_metadata_is_found_as_it_is_decoded(version: int, sizes: list[int]) -> None:
    names = ["range", "", "sticky"]
    sent = [JoinGroupRequestProtocol(name, bytes([7]) * size) for name, size in zip(names, sizes, strict=False)]
    other = [replace(each, metadata=b"before") for each in sent]
    head = b"\0\1c\0"
    shape = RejoinShape(join("member", protocols=other), version, head)
    frame = request_frame(join("member", protocols=sent), version, 1, "c")
    assert shape.metadata(frame, 12, len(frame)) == [each.metadata for each in sent]
    for end in range(12, len(frame) - 1, max(1, len(frame) // 100)):
        assert shape.metadata(frame, 12, end) is None
        assert shape.metadata(frame[:end], 12, end) is None
    for at in range(12, len(frame), max(1, len(frame) // 100)):
        changed = frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1 :]
        found = shape.metadata(changed, 12, len(frame))
        if found is not None:  # within the metadata
            assert sum(map(len, found)) == sum(sizes)
            assert sum(byte != 7 for each in found for byte in each) == 1


def _seat(wire: Wire) -> Seat:
    assert wire.connection.seat is not None
    return wire.connection.seat


def test_a_connection_that_is_gone_keeps_no_seat() -> None:
    three = Three()
    assert _seat(three.wires[1]).size < 100
    three.wires[1].connection.connection_lost(None)
    assert three.wires[1].connection.seat is None

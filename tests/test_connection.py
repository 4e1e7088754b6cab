"""Order, parking, the durability gate, back-pressure and bad input, on connections in memory."""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.net.answers import MAX_HELD, MAX_LOGGED_BYTES
from coordinatord.net.connection import MAX_WAITING_BYTES, TURN_REQUESTS
from coordinatord.net.request import RequestContext
from coordinatord.observe.logger import captured
from kafka_wire.api.api_versions import ApiVersionsRequest
from kafka_wire.api.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafka_wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kafka_wire.errors import ErrorCode
from tests.shell import Gate, Turns, Wire, make_door, request_frame, with_behind

HEARTBEAT = HeartbeatRequest("g", 1, "m")
JOIN = JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", [])


class Scene:
    """A router with three handlers: heartbeats answer at once, joins park, syncs wait for the log."""

    def __init__(self, **limits: Any) -> None:
        self.turns = Turns()
        self.gate = Gate()
        self.parked: list[RequestContext] = []
        self.epoch = 0
        self.door = make_door({12: self.heartbeat, 11: self.join, 14: self.sync}, self.turns, self.gate, **limits)
        self.seen: list[str] = []

    def wire(self) -> Wire:
        return Wire(self.door, self.turns)

    def heartbeat(self, context: RequestContext, request: Any) -> HeartbeatResponse:
        self.seen.append("heartbeat")
        return HeartbeatResponse()

    def join(self, context: RequestContext, request: Any) -> None:
        self.seen.append("join")
        self.parked.append(context)

    def sync(self, context: RequestContext, request: Any) -> None:
        self.seen.append("sync")
        self.epoch += 1
        failed = SyncGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        context.answer_at(self.epoch, SyncGroupResponse(assignment=b"yours"), lambda: failed)


def test_requests_of_one_chunk_are_answered_in_order_by_one_write() -> None:
    scene = Scene()
    wire = scene.wire()
    wire.connection.data_received(b"".join(wire.frame(HEARTBEAT, version) for version in (0, 4, 1, 3)))
    assert [correlation_id for correlation_id, _ in wire.answers] == [1, 2, 3, 4]
    assert wire.transport.writes == 1


def test_what_follows_a_parked_request_waits_for_its_answer() -> None:
    scene = Scene()
    wire = scene.wire()
    wire.connection.data_received(wire.frame(JOIN, 9) + wire.frame(HEARTBEAT, 4))
    wire.send(HEARTBEAT, 4)
    assert scene.seen == ["join"]
    assert wire.answers == []
    scene.parked[0].reply(JoinGroupResponse(generation_id=7))
    scene.turns.run()
    assert scene.seen == ["join", "heartbeat", "heartbeat"]
    assert [correlation_id for correlation_id, _ in wire.answers] == [1, 2, 3]
    assert wire.answers[0][1].generation_id == 7


def test_a_parked_request_holds_up_no_other_connection() -> None:
    scene = Scene()
    one, other = scene.wire(), scene.wire()
    one.send(JOIN, 9)
    other.send(HEARTBEAT, 4)
    assert len(other.answers) == 1


def test_a_connection_that_cannot_be_written_to_keeps_no_others_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebalance answers many members in one turn."""
    scene = Scene()
    wires = [scene.wire() for _ in range(3)]
    for wire in wires:
        wire.send(JOIN, 9)

    def write(data: bytes) -> None:
        raise RuntimeError("unable to perform operation on a closed transport")

    monkeypatch.setattr(wires[0].transport, "write", write)
    for context in scene.parked:
        context.reply(JoinGroupResponse(generation_id=7))
    with pytest.raises(RuntimeError, match="closed transport"):
        scene.turns.run()
    assert [len(wire.answers) for wire in wires] == [0, 1, 1]


def test_an_answer_that_waits_for_the_log_keeps_its_place_and_holds_up_no_work() -> None:
    scene = Scene()
    wire = scene.wire()
    sync = SyncGroupRequest("g", 1, "m")
    wire.connection.data_received(wire.frame(sync, 5) + wire.frame(HEARTBEAT, 4) + wire.frame(sync, 5))
    scene.turns.run()
    assert scene.seen == ["sync", "heartbeat", "sync"]
    assert wire.answers == []
    scene.gate.flush(1)
    scene.turns.run()
    assert [correlation_id for correlation_id, _ in wire.answers] == [1, 2]
    scene.gate.flush(2)
    scene.turns.run()
    assert [correlation_id for correlation_id, _ in wire.answers] == [1, 2, 3]
    assert wire.answers[0][1].assignment == b"yours"


def test_a_log_that_fails_answers_not_available() -> None:
    scene = Scene()
    wire = scene.wire()
    wire.send(SyncGroupRequest("g", 1, "m"), 5)
    scene.gate.fail()
    scene.turns.run()
    ((_, response),) = wire.answers
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert response.assignment == b""


def test_a_log_that_has_failed_answers_so_at_once() -> None:
    scene = Scene()
    wire = scene.wire()
    scene.gate.fail()
    wire.send(SyncGroupRequest("g", 1, "m"), 5)
    wire.send(HEARTBEAT, 4)
    (_, response), (last, _) = wire.answers
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert last == 2


def test_an_answer_that_turns_out_not_to_wait_is_given_at_once() -> None:
    scene = Scene()
    wire = scene.wire()
    scene.gate.flush(1)
    wire.send(SyncGroupRequest("g", 1, "m"), 5)
    ((_, response),) = wire.answers
    assert response.assignment == b"yours"


def test_the_answer_of_a_connection_that_has_gone_is_dropped() -> None:
    scene = Scene()
    wire = scene.wire()
    wire.send(JOIN, 9)
    wire.send(HEARTBEAT, 4)
    wire.connection.connection_lost(None)
    scene.parked[0].reply(JoinGroupResponse())
    scene.turns.run()
    assert scene.parked[0].closed
    assert wire.answers == []
    assert scene.seen == ["join"]
    assert scene.door.connections.open == set()


@pytest.mark.parametrize("comes", ["before", "after"])
def test_no_later_answer_is_taken_for_one_that_never_comes(comes: str) -> None:
    """The member was removed, or repeated its request elsewhere: no response, and the connection is closed when the
    client sends another request.
    """
    scene = Scene()
    wire = scene.wire()
    wire.send(JOIN, 9)
    if comes == "before":
        wire.send(HEARTBEAT, 4)
    assert wire.connection.line.is_awaited
    scene.parked[0].abandon()
    scene.turns.run()
    if comes == "after":
        assert not wire.transport.closed
        assert not wire.connection.line.is_awaited, "it may be idle, now"
        wire.send(HEARTBEAT, 4)
        scene.turns.run()
    assert wire.transport.closed
    assert wire.answers == []
    assert scene.seen == ["join"]


def test_a_request_is_answered_once() -> None:
    scene = Scene()
    wire = scene.wire()
    wire.send(JOIN, 9)
    scene.parked[0].reply(JoinGroupResponse())
    with pytest.raises(AssertionError):
        scene.parked[0].reply(JoinGroupResponse())


def test_reading_stops_while_too_much_waits_behind_a_parked_request() -> None:
    scene = Scene(max_frame_bytes=2 * MAX_WAITING_BYTES)
    wire = scene.wire()
    wire.send(JOIN, 9)
    filler = HeartbeatRequest("g" * 30_000, 1, "m")
    for _ in range(2):
        wire.send(filler, 4)
        assert wire.transport.reading
    wire.send(filler, 4)
    assert not wire.transport.reading
    scene.parked[0].reply(JoinGroupResponse())
    scene.turns.run()
    assert wire.transport.reading
    assert len(wire.answers) == 4


def test_a_client_that_sends_much_at_a_time_lets_others_in_between() -> None:
    scene = Scene()
    greedy, other = scene.wire(), scene.wire()
    count = 2 * TURN_REQUESTS + 5
    greedy.connection.data_received(b"".join(greedy.frame(HEARTBEAT, 4) for _ in range(count)))
    assert len(scene.seen) == TURN_REQUESTS
    other.connection.data_received(other.frame(HEARTBEAT, 4))
    assert len(other.answers) == 1
    scene.turns.run()
    assert [correlation_id for correlation_id, _ in greedy.answers] == list(range(1, count + 1))
    assert greedy.transport.reading


def test_a_join_among_many_requests_keeps_their_order() -> None:
    scene = Scene()
    wire = scene.wire()
    frames = [wire.frame(HEARTBEAT, 4) for _ in range(TURN_REQUESTS - 1)]
    frames += [wire.frame(JOIN, 9), *(wire.frame(HEARTBEAT, 4) for _ in range(TURN_REQUESTS))]
    wire.connection.data_received(b"".join(frames))
    scene.turns.run()
    assert scene.seen[-1] == "join"
    scene.parked[0].reply(JoinGroupResponse())
    scene.turns.run()
    assert [correlation_id for correlation_id, _ in wire.answers] == list(range(1, 2 * TURN_REQUESTS + 1))


def test_no_more_is_begun_than_may_wait_for_the_log() -> None:
    scene = Scene()
    wire = scene.wire()
    sync = wire.frame(SyncGroupRequest("g", 1, "m"), 5)
    for _ in range(MAX_HELD // TURN_REQUESTS + 3):
        wire.connection.data_received(sync * TURN_REQUESTS)
        scene.turns.run()
    assert MAX_HELD <= len(scene.seen) < MAX_HELD + TURN_REQUESTS
    before = len(scene.seen)
    scene.gate.flush(scene.epoch)
    scene.turns.run()
    assert len(scene.seen) > before
    scene.gate.flush(scene.epoch)
    scene.turns.run()
    assert len(scene.seen) == len(wire.answers) == (MAX_HELD // TURN_REQUESTS + 3) * TURN_REQUESTS


def test_nothing_is_done_for_a_peer_that_does_not_read() -> None:
    scene = Scene()
    wire = scene.wire()
    wire.connection.pause_writing()
    assert not wire.transport.reading
    wire.send(HEARTBEAT, 4)  # what had been read before
    assert scene.seen == []
    wire.connection.resume_writing()
    scene.turns.run()
    assert scene.seen == ["heartbeat"]
    assert wire.transport.reading


LARGE = b"r" * 100_000


def fetching(scene: Scene) -> None:
    """Fetches are answered at once with records that are not copied."""

    def fetch(context: RequestContext, request: Any) -> None:
        scene.seen.append("fetch")
        topic = FetchableTopicResponse("t", partitions=[PartitionData(0, records=memoryview(LARGE))])
        context.reply_in_parts(FetchResponse(responses=[topic]))

    scene.door.router.routes.handlers[1] = fetch


def answer_kinds(wire: Wire) -> list[tuple[int, str]]:
    return [(correlation_id, type(answer).__name__) for correlation_id, answer in wire.answers]


def test_an_answer_in_parts_keeps_its_place_among_others() -> None:
    scene = Scene()
    fetching(scene)
    wire = scene.wire()
    requests = [(HEARTBEAT, 4), (FetchRequest(), 12), (FetchRequest(), 4), (HEARTBEAT, 4)]
    wire.connection.data_received(b"".join(wire.frame(*each) for each in requests))
    assert answer_kinds(wire) == [
        (1, "HeartbeatResponse"),
        (2, "FetchResponse"),
        (3, "FetchResponse"),
        (4, "HeartbeatResponse"),
    ]
    assert wire.answers[1][1].responses[0].partitions[0].records == LARGE


def test_an_answer_in_parts_waits_behind_one_that_waits_for_the_log() -> None:
    scene = Scene()
    fetching(scene)
    wire = scene.wire()
    wire.send(SyncGroupRequest("g", 1, "m"), 5)
    wire.send(FetchRequest(), 12)
    assert scene.seen == ["sync", "fetch"]
    assert wire.answers == []
    scene.gate.flush(1)
    scene.turns.run()
    assert answer_kinds(wire) == [(1, "SyncGroupResponse"), (2, "FetchResponse")]
    assert wire.answers[1][1].responses[0].partitions[0].records == LARGE


def test_an_answer_in_parts_of_a_connection_that_has_gone_is_dropped() -> None:
    scene = Scene()
    wire = scene.wire()
    wire.send(JOIN, 5)
    wire.connection.connection_lost(None)
    scene.parked[0].reply_in_parts(JoinGroupResponse())
    assert wire.transport.writes == 0


def test_of_fetches_that_came_together_no_more_is_read_than_the_peer_takes() -> None:
    scene = Scene()
    fetching(scene)
    wire = scene.wire()
    write = wire.transport.write

    def full(data: bytes | bytearray) -> None:
        write(data)
        wire.connection.pause_writing()

    wire.transport.write = full  # type: ignore[method-assign]
    wire.connection.data_received(b"".join(wire.frame(FetchRequest(), 12) for _ in range(5)))
    scene.turns.run()
    for count in range(1, 5):
        assert scene.seen == ["fetch"] * count
        wire.connection.resume_writing()
        scene.turns.run()
    assert scene.seen == ["fetch"] * 5
    assert [correlation_id for correlation_id, _ in wire.answers] == [1, 2, 3, 4, 5]


def large_heartbeats(scene: Scene) -> None:
    """Responses of 100 KB each that are copied, like those of many partitions with few records."""

    def heartbeat(context: RequestContext, request: Any) -> bytes:
        scene.seen.append("heartbeat")
        return LARGE

    scene.door.router.routes.handlers[12] = heartbeat


def test_of_large_answers_that_are_copied_no_more_is_made_than_the_peer_takes() -> None:
    scene = Scene()
    large_heartbeats(scene)
    wire = scene.wire()
    write = wire.transport.write

    def full(data: bytes | bytearray) -> None:
        write(data)
        wire.connection.pause_writing()

    wire.transport.write = full  # type: ignore[method-assign]
    wire.connection.data_received(b"".join(wire.frame(HEARTBEAT, 4) for _ in range(5)))
    scene.turns.run()
    for count in range(1, 5):
        assert scene.seen == ["heartbeat"] * count
        wire.connection.resume_writing()
        scene.turns.run()
    assert len(wire.transport.written) > 5 * len(LARGE)


def test_no_more_bytes_are_made_than_may_wait_for_the_log() -> None:
    scene = Scene()
    fetching(scene)
    wire = scene.wire()
    sync = SyncGroupRequest("g", 1, "m")
    wire.connection.data_received(
        wire.frame(sync, 5) + b"".join(wire.frame(FetchRequest(), 12) for _ in range(2 * TURN_REQUESTS))
    )
    scene.turns.run()
    assert scene.seen == ["sync", "fetch"]
    wire.send(HEARTBEAT, 4)
    assert scene.seen == ["sync", "fetch"]
    scene.gate.flush(1)
    scene.turns.run()
    assert scene.seen == ["sync"] + ["fetch"] * 2 * TURN_REQUESTS + ["heartbeat"]
    assert [correlation_id for correlation_id, _ in wire.answers] == list(range(1, 2 * TURN_REQUESTS + 3))
    assert wire.transport.reading


@pytest.mark.parametrize(
    ("frame", "kind", "told"),
    [
        (b"\xff\xff\xff\xff", "oversized", {"reason": "a frame of -1 bytes, the limit is 1000"}),
        (b"\x00\x00\x04\x00", "oversized", {"reason": "a frame of 1024 bytes, the limit is 1000"}),
        (b"\0\0\0\0", "TruncatedError", {"frame_bytes": 0}),
        (b"\0\0\0\x09" + bytes(9), "TruncatedError", {"frame_bytes": 9}),
        (request_frame(HEARTBEAT, 4, 1)[:6] + b"\0\x7f" + bytes(52), "UnknownApiError", None),
        (b"\0\0\0\x0a\x03\xe7\0\0\0\0\0\1\xff\xff", "UnknownApiError", {"api": "unknown", "api_key": 999}),
        (b"\0\0\0\x0a\0\x08\0\x08\0\0\0\1\xff\xff", "UnknownApiError", {"api": "OffsetCommit", "version": 8}),
        (b"\0\0\0\x0a\0\x0c\0\x04\0\0\0\1\xff\xfe", "LengthError", {"api": "Heartbeat", "version": 4}),
        (b"\0\0\0\x0a\0\x0c\0\x04\0\0\0\1\0\x09", "TruncatedError", {"api": "Heartbeat", "version": 4}),
        (b"\0\0\0\x0b\0\x0c\0\0\0\0\0\1\xff\xff\0", "TruncatedError", {"api": "Heartbeat", "version": 0}),
    ],
)
def test_bad_input_closes_its_connection_with_one_line_and_nobody_else_notices(
    frame: bytes, kind: str, told: dict[str, Any] | None
) -> None:
    scene = Scene()
    bad, good = scene.wire(), scene.wire()
    with captured() as lines:
        bad.connection.data_received(frame)
    assert bad.transport.closed
    assert len(lines) == 1
    assert lines[0]["peer"] == "127.0.0.1:51234"
    for name, value in (told or {}).items():
        assert lines[0][name] == value
    assert scene.door.metrics.rejected[kind] == 1
    good.send(HEARTBEAT, 4)
    assert len(good.answers) == 1


def client_hello() -> bytes:
    """What Python's own TLS client says first."""
    import ssl

    said = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), said, server_hostname="broker.example")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return said.read()


@pytest.mark.parametrize(
    ("said", "kind", "reason", "advice"),
    [
        (client_hello(), "tls", "TLS client hello", "security.protocol=PLAINTEXT"),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost:9092\r\n\r\n", "http", "HTTP request", "admin.listeners"),
        (b"POST / HTTP/1.1\r\n\r\n", "http", "HTTP request", "--admin"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "http", "HTTP request", "--admin"),
    ],
)
@pytest.mark.parametrize("chunk", [1, 3, 4096])
def test_a_stranger_is_called_what_it_is_and_told_of_once(
    said: bytes, kind: str, reason: str, advice: str, chunk: int
) -> None:
    scene = Scene(max_frame_bytes=104_857_600)
    wire = scene.wire()
    with captured() as lines:
        for start in range(0, len(said), chunk):
            wire.connection.data_received(said[start : start + chunk])
    assert wire.transport.closed
    assert len(lines) == 1
    assert reason in lines[0]["reason"]
    assert advice in lines[0]["advice"]
    assert lines[0]["peer"] == "127.0.0.1:51234"
    assert lines[0]["listener"]
    assert dict(scene.door.metrics.rejected) == {kind: 1}


@pytest.mark.parametrize("said", [b"\x16\x04\x01\x02\x00\x01", b"\x16\x03\x01\x02\x00\x02", b"GETS /", b"\x7f\0\0\0"])
def test_other_impossible_sizes_are_told_as_sizes(said: bytes) -> None:
    scene = Scene(max_frame_bytes=104_857_600)
    wire = scene.wire()
    with captured() as lines:
        wire.connection.data_received(said)
    assert "a frame of" in lines[0]["reason"]
    assert dict(scene.door.metrics.rejected) == {"oversized": 1}


def test_a_truncated_body_closes_the_connection() -> None:
    body = request_frame(HEARTBEAT, 4, 1)[4:-1]
    scene = Scene()
    wire = scene.wire()
    wire.connection.data_received(len(body).to_bytes(4, "big") + body)
    assert wire.transport.closed
    assert scene.seen == []


def test_what_is_behind_a_body_is_left_unread_and_the_next_request_is_found() -> None:
    scene = Scene()
    wire = scene.wire()
    wire.connection.data_received(with_behind(wire.frame(HEARTBEAT, 4), b"\0\0\0") + wire.frame(HEARTBEAT, 1))
    assert [correlation_id for correlation_id, _ in wire.answers] == [1, 2]
    assert scene.seen == ["heartbeat"] * 2


def test_answers_before_the_bad_request_are_still_sent() -> None:
    scene = Scene()
    wire = scene.wire()
    wire.connection.data_received(wire.frame(HEARTBEAT, 4) + b"\0\0\0\0" + wire.frame(HEARTBEAT, 4))
    assert [correlation_id for correlation_id, _ in wire.answers] == [1]
    assert scene.seen == ["heartbeat"]
    assert wire.transport.closed


@pytest.mark.parametrize("version", [5, 99, -1])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(version: int) -> None:
    scene = Scene()
    wire = scene.wire()
    body = b"\0\x12" + version.to_bytes(2, "big", signed=True) + b"\0\0\0\x2a" + b"\xff\xff\x05java"
    wire.connection.data_received(len(body).to_bytes(4, "big") + body)
    scene.turns.run()
    # size, correlation id, error 35, one api: key 18, versions 0 to 4
    assert wire.transport.written.hex() == "00000010" + "0000002a" + "0023" + "00000001" + "0012" + "0000" + "0004"
    assert not wire.transport.closed


def test_api_versions_offers_what_has_a_handler() -> None:
    scene = Scene()
    wire = scene.wire()
    wire.send(ApiVersionsRequest("apache-kafka-java", "4.3.0"), 4)
    ((_, response),) = wire.answers
    assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [
        (11, 0, 9),
        (12, 0, 4),
        (14, 0, 5),
        (18, 0, 4),
    ]


@pytest.mark.parametrize("name", ["", "-x", "x-", "a b", "é"])
def test_api_versions_refuses_a_software_name_that_is_not_safe_to_log(name: str) -> None:
    scene = Scene()
    wire = scene.wire()
    wire.send(ApiVersionsRequest(name, "1.0"), 3)
    assert wire.answers[0][1].error_code == ErrorCode.INVALID_REQUEST


def test_a_connection_too_many_is_closed() -> None:
    scene = Scene(max_connections=2)
    wires = [scene.wire() for _ in range(3)]
    assert [wire.transport.closed for wire in wires] == [False, False, True]


def test_idle_connections_are_closed_and_waiting_ones_are_not() -> None:
    now = [1_000_000]
    scene = Scene(now_ms=lambda: now[0])
    idle, parked = scene.wire(), scene.wire()
    parked.send(JOIN, 9)
    now[0] += 10_001
    busy = scene.wire()
    busy.send(HEARTBEAT, 4)
    assert scene.door.connections.close_idle(10_000) == 1
    assert [wire.transport.closed for wire in (idle, parked, busy)] == [True, False, False]


def test_a_handler_that_fails_is_logged_in_full_and_closes_its_connection() -> None:
    scene = Scene()

    def broken(context: RequestContext, request: Any) -> None:
        raise ZeroDivisionError

    scene.door.router.routes.handlers[12] = broken
    wire = scene.wire()
    with captured() as lines:
        wire.send(HEARTBEAT, 4)
    assert [line["log_level"] for line in lines] == ["error"]
    assert wire.transport.closed


def test_an_answer_that_cannot_be_encoded_closes_its_connection_behind_those_that_can() -> None:
    scene = Scene()
    scene.door.router.routes.handlers[11] = lambda context, request: JoinGroupResponse(
        protocol_name="", member_id="m" * 40_000
    )
    wire = scene.wire()
    with captured() as lines:
        wire.connection.data_received(b"".join(wire.frame(*each) for each in ((HEARTBEAT, 4), (JOIN, 3), (JOIN, 3))))
    assert [line["log_level"] for line in lines] == ["error"]
    assert wire.transport.closed
    assert answer_kinds(wire) == [(1, "HeartbeatResponse")]


def test_a_handler_that_fails_closes_its_connection_and_is_told_of() -> None:
    def fail(*_: Any) -> int:
        raise RuntimeError("ours")

    turns = Turns()

    class Failing:
        answer = learn = staticmethod(fail)

    door = make_door({12: fail, 11: fail}, turns, shortcuts={12: lambda codec: Failing()})
    for request, name in ((HEARTBEAT, "Heartbeat"), (JOIN, "JoinGroup")):
        wire = Wire(door, turns)
        with captured() as lines:
            wire.send(request, 4)
        assert wire.transport.closed
        assert [(line["event"], line["api"]) for line in lines] == [("a handler failed", name)]


def test_one_log_line_tells_of_all_connections_that_are_too_many() -> None:
    scene = Scene(max_connections=2)
    with captured() as logs:
        first = [scene.wire() for _ in range(5)]
        assert [each["event"] for each in logs] == ["new connections are refused"]
        for wire in first[1:]:
            wire.connection.connection_lost(None)
        assert not scene.wire().transport.closed
        assert scene.wire().transport.closed
        assert len(logs) == 2, "there was room in between"


MEGABYTE = SyncGroupRequest("g", 1, "m", assignments=[SyncGroupRequestAssignment("m", bytes(1 << 20))])


def test_bytes_of_requests_that_wait_for_the_log_are_bounded_and_then_nothing_is_read() -> None:
    scene = Scene(max_frame_bytes=2 << 20)
    wire = scene.wire()
    for _ in range(8):
        wire.send(MEGABYTE, 3)
    served = MAX_LOGGED_BYTES // (1 << 20)
    assert len(scene.seen) == served
    assert not wire.transport.reading
    scene.gate.flush(1)
    scene.turns.run()
    assert len(scene.seen) == served + 1, "as much as there is room for"
    for epoch in range(2, 9):
        scene.gate.flush(epoch)
        scene.turns.run()
    assert [correlation_id for correlation_id, _ in wire.answers] == list(range(1, 9))
    assert wire.transport.reading


def test_requests_without_an_answer_wait_for_the_log_like_the_others() -> None:
    """As Produce with acks=0: they are counted, and answers of later requests come after the log has them."""
    scene = Scene(max_frame_bytes=2 << 20)

    def written(context: RequestContext, request: Any) -> None:
        scene.seen.append("written")
        scene.epoch += 1
        context.drop_at(scene.epoch)

    scene.door.router.routes.handlers[14] = written
    wire = scene.wire()
    for _ in range(8):
        wire.send(MEGABYTE, 3)
    assert len(scene.seen) == MAX_LOGGED_BYTES // (1 << 20)
    assert not wire.transport.reading
    for epoch in range(1, 9):
        scene.gate.flush(epoch)
        scene.turns.run()
    assert len(scene.seen) == 8
    assert wire.transport.reading
    assert wire.transport.writes == 0
    last = wire.send(MEGABYTE, 3)
    scene.gate.fail()
    assert (wire.send(HEARTBEAT, 4), wire.answers[0][0]) == (last + 1, last + 1), "an answer of no bytes has no failure"

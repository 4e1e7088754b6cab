"""Order, parking, the durability gate and back-pressure, on connections in memory."""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.transport.net.connection import MAX_WAITING_BYTES, TURN_REQUESTS
from coordinatord.transport.net.request import RequestContext
from coordinatord.transport.net.response_queue import MAX_HELD, MAX_LOGGED_BYTES
from kafka_wire.api.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafka_wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.api.join_group import JoinGroupResponse
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.codecs import encode_message
from kafka_wire.errors import ErrorCode
from kafka_wire.lengths import write_uvarint
from tests.support.scene import HEARTBEAT, JOIN, Scene, answer_kinds


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


def test_an_answer_behind_a_patient_one_is_as_patient() -> None:
    """Else the one in front would be given up in its place."""
    scene = Scene()
    wire = scene.wire()
    hasty, patient = SyncGroupRequest("g", 1, "m"), SyncGroupRequest("patient", 1, "m")
    for request in (hasty, patient, hasty):
        wire.send(request, 5)
    assert scene.gate.patience == [False, True, True]
    scene.epoch = 0  # two more wait for the same flush: with the last one
    for request in (patient, hasty):
        wire.send(request, 5)
    assert scene.gate.patience == [False, True, True]
    scene.gate.flush(3)
    scene.turns.run()
    assert [correlation_id for correlation_id, _ in wire.answers] == [1, 2, 3, 4, 5]


def test_a_patient_answer_does_not_join_a_hasty_one() -> None:
    scene = Scene()
    wire = scene.wire()
    wire.send(SyncGroupRequest("g", 1, "m"), 5)
    scene.epoch = 0
    wire.send(SyncGroupRequest("patient", 1, "m"), 5)
    assert scene.gate.patience == [False, True]
    held, scene.gate.held = scene.gate.held, []
    held[0][2]()  # the first one is given up
    scene.turns.run()
    assert [answer.error_code for _, answer in wire.answers] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    held[1][1]()
    scene.turns.run()
    assert [answer.error_code for _, answer in wire.answers][1:] == [ErrorCode.NONE]


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
    assert not scene.door.connections.open


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


@pytest.mark.parametrize(("count", "is_served"), [(0, True), (1, True), (500, True), (2_000, False)])
def test_a_header_has_few_tagged_fields(count: int, is_served: bool) -> None:
    """They are skipped on the event loop, whoever sends them; no version of Kafka defines one."""
    scene = Scene(max_frame_bytes=100_000)
    wire = scene.wire()
    frame = wire.frame(HEARTBEAT, 4)
    at = len(frame) - len(encode_message(HEARTBEAT, 4)) - 1
    assert frame[at] == 0, "the header ends with the number of its tagged fields"
    tags = b"".join(write_uvarint(tag) + b"\0" for tag in range(count))
    body = frame[4:at] + write_uvarint(count) + tags + frame[at + 1 :]
    wire.connection.data_received(len(body).to_bytes(4, "big") + body)
    assert (len(wire.answers) == 1, scene.seen) == (is_served, ["heartbeat"] * is_served)
    assert wire.connection.closed is not is_served


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


def test_a_turn_ends_by_the_clock() -> None:
    """Requests of some bytes that take a millisecond each: four in a turn. Requests that take less go on."""
    now_s = [0.0]
    took_s = 0.001
    scene = Scene(clock=lambda: now_s[0])
    others: list[int] = []
    greedy, other = scene.wire(), scene.wire()

    def heartbeat(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        now_s[0] += took_s
        if context.connection is other.connection:
            others.append(len(scene.seen))
        return scene.heartbeat(context, request)

    scene.door.router.replace({12: heartbeat}, {})  # type: ignore[attr-defined]  # the router itself
    greedy.connection.data_received(b"".join(greedy.frame(HEARTBEAT, 4) for _ in range(20)))
    assert len(scene.seen) == 4
    other.connection.data_received(other.frame(HEARTBEAT, 4))
    assert others == [4]
    scene.turns.run()
    assert [correlation_id for correlation_id, _ in greedy.answers] == list(range(1, 21))
    assert scene.door.metrics.longest_turn.read() == pytest.approx(0.004)
    took_s = 0.00001
    scene.seen.clear()
    greedy.connection.data_received(b"".join(greedy.frame(HEARTBEAT, 4) for _ in range(TURN_REQUESTS)))
    assert len(scene.seen) == TURN_REQUESTS


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


def test_of_all_answers_that_nobody_reads_the_largest_is_given_up() -> None:
    """What was written to the transport goes, too: closing alone would wait until the peer reads it."""
    scene = Scene()
    scene.door.unread.most_bytes = 1000
    greedy, modest, quick = (scene.wire() for _ in range(3))
    for wire, size in ((greedy, 700), (modest, 200), (quick, 300)):
        wire.transport.unread_bytes = size
        wire.connection.pause_writing()
    assert (greedy.transport.aborted, modest.transport.closed, quick.transport.closed) == (True, False, False)
    assert scene.door.unread.bytes == 500
    assert modest.connection.line.room == 0
    assert dict(scene.door.metrics.rejected) == {"unread": 1}
    quick.connection.resume_writing()
    assert scene.door.unread.bytes == 200
    assert modest.connection.line.room == 300
    modest.connection.close()
    assert scene.door.unread.bytes == 200, "the transport still has it"
    modest.connection.connection_lost(None)
    greedy.connection.connection_lost(None)
    assert (scene.door.unread.bytes, len(scene.door.unread)) == (0, 0)


def test_of_all_incomplete_requests_the_largest_is_given_up() -> None:
    scene = Scene(max_frame_bytes=1_000_000)
    scene.door.incomplete.most_bytes = 500_000
    head = (900_000).to_bytes(4, "big") + b"\x00\x00\x00\x08"
    greedy, modest, small = (scene.wire() for _ in range(3))
    modest.connection.data_received(head + bytes(100_000))
    small.connection.data_received(head + bytes(10_000))
    for _ in range(3):
        greedy.connection.data_received(head[:0] + bytes(100_000) if greedy.connection._splitter.held_bytes else head)
    assert scene.door.incomplete.bytes == 100_008 + 200_008, "small ones are not counted"
    greedy.connection.data_received(bytes(300_000))
    assert (greedy.transport.closed, modest.transport.closed, small.transport.closed) == (True, False, False)
    assert greedy.connection._splitter.held_bytes == 0
    assert dict(scene.door.metrics.rejected) == {"incomplete": 1}
    modest.connection.data_received(bytes(800_000 - 4))
    assert scene.door.incomplete.bytes == 0, "it is complete"


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

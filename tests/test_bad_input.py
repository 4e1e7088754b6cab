"""Bad input and limits: which connections are closed, what is logged, and that no other connection notices."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from coordinatord.base.observe.logger import captured
from coordinatord.transport.net.request import RequestContext
from kafka_wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafka_wire.api.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kafka_wire.api.api_versions import ApiVersionsRequest
from kafka_wire.api.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kafka_wire.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafka_wire.api.fetch import FetchRequest
from kafka_wire.api.init_producer_id import InitProducerIdRequest
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_wire.api.list_groups import ListGroupsRequest
from kafka_wire.api.list_transactions import ListTransactionsRequest
from kafka_wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.errors import ErrorCode
from tests.reference.in_process import run, running_in_process
from tests.support.scene import HEARTBEAT, JOIN, Scene, answer_kinds
from tests.support.shell import Turns, Wire, make_door, request_frame, with_behind


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


TOO_LONG = "z" * 32_768
COMMITTED = OffsetCommitRequestTopic("t", bytes(16), [OffsetCommitRequestPartition(0, 5, -1, TOO_LONG)])


@pytest.mark.parametrize(
    ("request_", "version", "field"),
    [
        (InitProducerIdRequest(TOO_LONG, 3000), 4, "transactional_id"),
        (AddOffsetsToTxnRequest("t", 1, 0, TOO_LONG), 3, "group_id"),
        (JoinGroupRequest("g", 30_000, protocol_type="consumer", reason=TOO_LONG), 9, "reason"),
        (OffsetCommitRequest("g", topics=[COMMITTED]), 8, "committed_metadata"),
        (FetchRequest(TOO_LONG), 12, "cluster_id"),  # a tagged field
    ],
)
def test_a_string_that_no_record_can_have_closes_the_connection_and_leaves_nothing(
    tmp_path: Path, request_: Any, version: int, field: str
) -> None:
    """What a record's key has 16 bits for must not come in through a request that has more."""

    async def story() -> None:
        async with running_in_process(tmp_path, {"offset.metadata.max.bytes": "100000"}) as process:
            with captured() as lines, pytest.raises(ConnectionError):
                await (await process.connect("bad")).ask(request_, version)
            assert [(line["log_level"], line["reason"]) for line in lines] == [
                ("warning", f"LengthError: length 32768 of {field}, beyond 32767")
            ]
            client = await process.connect("good")
            assert (await client.ask(ListTransactionsRequest(), 1)).transaction_states == []
            assert (await client.ask(ListGroupsRequest(), 5)).groups == []

    run(story())


LONGEST = TOO_LONG[1:]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (ElectLeadersRequest(topic_partitions=[TopicPartitions(LONGEST, [0])]), "No such topic as zzz"),
        (
            AlterClientQuotasRequest([EntryData([EntityData(LONGEST, None)], [OpData("x", 1.0, False)])]),
            "Unhandled client quota entity type: zzz",
        ),
        (DescribeClientQuotasRequest([ComponentData(LONGEST, 0, "x")]), "Unsupported entity type zzz"),
    ],
)
def test_an_error_message_that_no_answer_can_have_is_cut(tmp_path: Path, request_: Any, message: str) -> None:
    """It quotes a string of the request, which has as many bytes as a string can have."""

    async def story() -> None:
        async with running_in_process(tmp_path, {}) as process:
            with captured() as lines:
                answer = await (await process.connect("bad")).ask(request_, 0)
            assert lines == []
            (told,) = re.findall(r"error_message='([^']*)'", str(answer))
            assert told.startswith(message)
            assert len(told) == 1_001

    run(story())


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


@pytest.mark.parametrize("version", [6, 99, -1])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(version: int) -> None:
    scene = Scene()
    wire = scene.wire()
    body = b"\0\x12" + version.to_bytes(2, "big", signed=True) + b"\0\0\0\x2a" + b"\xff\xff\x05java"
    wire.connection.data_received(len(body).to_bytes(4, "big") + body)
    scene.turns.run()
    # size, correlation id, error 35, one api: key 18, versions 0 to 5
    assert wire.transport.written.hex() == "00000010" + "0000002a" + "0023" + "00000001" + "0012" + "0000" + "0005"
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
        (18, 0, 5),
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

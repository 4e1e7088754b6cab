"""`python -m kafka_wire`: what people see of a codec and a frame."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kafka_wire.__main__ import main
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kafka_wire.api.heartbeat import HeartbeatRequest
from tests.support.shell import request_frame


def run(*arguments: str, text: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(main, arguments, input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def test_source_shows_what_runs() -> None:
    code, out = run("source", "HeartbeatRequest", "4")
    assert code == 0
    assert "def decode_heartbeat_request_v4(buf: bytes, pos: int, end: int) -> HeartbeatRequest:" in out
    assert "def encode_heartbeat_request_v4(message: HeartbeatRequest, out: bytearray) -> None:" in out
    compile(out, "shown", "exec")


def test_tree_shows_the_layout_of_a_version() -> None:
    code, out = run("tree", "OffsetCommitValue", "4")
    assert code == 0
    assert out.splitlines() == [
        "OffsetCommitValue v4",
        "  offset: Int64",
        "  leader_epoch: Int32",
        "  metadata: String, compact",
        "  commit_timestamp: Int64",
        "  topic_id (tag 0): Uuid",
    ]
    assert run("tree", "JoinGroupRequest", "5")[1].splitlines()[-3:] == [
        "  protocols: Array of JoinGroupRequestProtocol, Int32",
        "    name: String, Int16",
        "    metadata: Bytes, Int32",
    ]


def test_nested_and_tagged_fields_are_shown() -> None:
    topic = FetchTopic(topic_id=bytes(15) + b"\1", partitions=[FetchPartition(2, fetch_offset=7)])
    message = FetchRequest(topics=[topic], replica_state=ReplicaState(3, 4))
    code, out = run("decode", "request", request_frame(message, 17, 42).hex())
    assert code == 0
    lines = out.splitlines()
    assert lines[lines.index("  topics: 1") :][:6] == [
        "  topics: 1",
        "    [0]",
        "      topic_id: 00000000000000000000000000000001",
        "      partitions: 1",
        "        [0]",
        "          partition: 2",
    ]
    assert lines[-3:] == ["  replica_state:", "    replica_id: 3", "    replica_epoch: 4"]


def test_request_is_taken_apart_with_and_without_its_size() -> None:
    frame = request_frame(HeartbeatRequest("my-group", 3, "me", "instance"), 4, 42)
    for data in (frame, frame[4:]):
        code, out = run("decode", "request", data.hex())
        assert code == 0
        assert out.splitlines() == [
            "header: correlation_id 42, client_id 'test'",
            "HeartbeatRequest v4",
            "  group_id: 'my-group'",
            "  generation_id: 3",
            "  member_id: 'me'",
            "  group_instance_id: 'instance'",
        ]
    assert run("decode", "request", "-", text=frame.hex())[0] == 0


def test_what_is_behind_a_request_is_shown_to_be_there() -> None:
    frame = request_frame(HeartbeatRequest("my-group", 3, "me"), 4, 42)[4:] + b"\0zz"
    code, out = run("decode", "request", frame.hex())
    assert code == 0
    assert out.splitlines()[-2:] == ["  group_instance_id: None", "not read: 007a7a"]
    assert "TrailingBytesError" not in run("source", "HeartbeatRequest", "4")[1]
    assert "TrailingBytesError" in run("source", "HeartbeatResponse", "4")[1]


@pytest.mark.parametrize("api", ["Heartbeat", "12"])
def test_response_is_taken_apart(api: str) -> None:
    code, out = run("decode", "response", api, "4", "0000002a 00 00000000 001b 00")
    assert code == 0
    assert out.splitlines()[-2:] == ["  throttle_time_ms: 0", "  error_code: 27"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("tree", "NoSuchRequest", "0"), "no message is called NoSuchRequest"),
        (("tree", "HeartbeatRequest", "9"), "HeartbeatRequest has versions 0-4, not 9"),
        (("source", "NoSuchRequest", "0"), "no message is called NoSuchRequest"),
        (("source", "HeartbeatRequest", "9"), "HeartbeatRequest has versions 0-4, not 9"),
        (("decode", "request", "xyz"), "that is not hex"),
        (("decode", "request", "00"), "TruncatedError: a frame of 1 bytes"),
        (("decode", "request", "7fff0000000000010000"), "UnknownApiError: api key 32767 version 0"),
        (("decode", "request", "000c0004000000010000"), "TruncatedError"),
        (("decode", "response", "Heartbeat", "4", "00"), "TruncatedError: a response of 1 bytes"),
        (("decode", "response", "Heartbeat", "4", "0000002a 00 00000000 001b 00 00"), "TrailingBytesError: 1 bytes"),
        (("decode", "response", "Nothing", "4", "0000000000"), "UnknownApiError"),
    ],
)
def test_mistakes_are_told_in_a_sentence(arguments: tuple[str, ...], told: str) -> None:
    code, out = run(*arguments)
    assert code == 1
    assert told in out
    assert "Traceback" not in out


def test_apis_are_listed() -> None:
    code, out = run("apis")
    assert code == 0
    assert " 11  JoinGroup                  0-9    flexible 6+" in out.splitlines()

"""A client's connection without I/O: the order of responses, and the versions that both sides support."""

from __future__ import annotations

import pytest

from kafka_wire.api.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kafka_wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.client import ApiVersions, ClientConnection
from kafka_wire.codecs import encode_message
from kafka_wire.errors import DecodeError, ErrorCode, LengthError
from kafka_wire.registry import versions_of

HEARTBEAT = 12


def frame(correlation_id: int, response: HeartbeatResponse | ApiVersionsResponse, version: int) -> bytes:
    is_flexible = isinstance(response, HeartbeatResponse) and version >= 4
    body = correlation_id.to_bytes(4) + bytes(is_flexible) + encode_message(response, version)
    return len(body).to_bytes(4) + body


def test_responses_belong_to_the_oldest_request_also_when_they_come_in_pieces() -> None:
    connection = ClientConnection("c")
    for version, token in (4, "a"), (3, "b"):
        connection.send(HeartbeatRequest("g"), version, token)
    data = frame(1, HeartbeatResponse(error_code=1), 4) + frame(2, HeartbeatResponse(error_code=2), 3)
    received = [each for at in range(len(data)) for each in connection.receive_data(data[at : at + 1])]
    assert [(sent.token, response.error_code) for sent, response in received] == [("a", 1), ("b", 2)]
    assert not connection.in_flight


@pytest.mark.parametrize(
    "data",
    [frame(2, HeartbeatResponse(), 4), frame(1, HeartbeatResponse(), 4)[:-1] + b"\1", b"\0\0\0\3abc"],
    ids=["another id", "a tag without an end", "no header"],
)
def test_what_is_not_the_response_leaves_the_request_in_flight(data: bytes) -> None:
    connection = ClientConnection("c")
    connection.send(HeartbeatRequest("g"), 4, "a")
    with pytest.raises(DecodeError):
        list(connection.receive_data(data))
    assert [each.token for each in connection.in_flight] == ["a"]


def test_a_response_without_a_request_and_one_beyond_the_limit_are_errors() -> None:
    with pytest.raises(DecodeError):
        list(ClientConnection("c").receive_data(frame(1, HeartbeatResponse(), 4)))
    with pytest.raises(LengthError):
        list(ClientConnection("c", max_response_bytes=100).receive_data((101).to_bytes(4)))


def test_a_broker_that_does_not_know_the_version_of_api_versions_responds_in_version_0() -> None:
    connection = ClientConnection("c")
    connection.send(ApiVersionsRequest("test", "1"), 4)
    told = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [ApiVersion(18, 0, 2)])
    ((sent, response),) = connection.receive_data(frame(1, told, 0))
    assert (sent.codec.api_version, response) == (4, told)


def test_the_newest_version_of_both_sides() -> None:
    newest = versions_of(HEARTBEAT).last
    for supported, limit, found in [
        ((0, 2), newest, 2),
        ((0, newest + 5), newest, newest),
        ((1, newest), 1, 1),
        ((2, newest), 1, None),
        ((newest + 1, newest + 2), newest, None),
    ]:
        assert ApiVersions({HEARTBEAT: supported}).latest_usable(HeartbeatRequest, limit) == found
    assert ApiVersions({}).latest_usable(HeartbeatRequest) is None

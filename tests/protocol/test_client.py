"""The client's side of a connection, without a socket."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_wire.api.api_versions import ApiVersion, ApiVersionsResponse
from kafka_wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.metadata import MetadataRequest
from kafka_wire.client.api_versions import ApiVersions, UnsupportedVersionError
from kafka_wire.client.connection import (
    ClientConnection,
    ResponseReceived,
    VersionsReceived,
    VersionsUnsupported,
)
from kafka_wire.errors import DecodeError, ErrorCode
from kafka_wire.headers import read_request_header
from kafka_wire.registry import codec

API_VERSIONS, JOIN_GROUP, HEARTBEAT = 18, 11, 12


def response(api_key: int, version: int, correlation_id: int, message: Any) -> bytes:
    """A broker's frame."""
    used = codec(api_key, version)
    out = bytearray(correlation_id.to_bytes(4, "big")) + b"\0" * used.response_header_flexible
    used.encode_response(message, out)
    return len(out).to_bytes(4, "big") + bytes(out)


def versions(*keys: ApiVersion, version: int = 4, correlation_id: int = 1, error_code: int = 0) -> bytes:
    return response(API_VERSIONS, version, correlation_id, ApiVersionsResponse(error_code, list(keys)))


def test_requests_have_headers_of_their_version_and_rising_correlation_ids() -> None:
    connection = ClientConnection("me")
    for number, (version, flexible) in enumerate(((0, False), (4, True)), 1):
        frame = connection.send(HeartbeatRequest("g", 1, "m"), version)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        header, pos = read_request_header(frame, 4, len(frame), flexible)
        assert (header.api_key, header.api_version, header.correlation_id) == (HEARTBEAT, version, number)
        assert header.client_id == "me"
        assert codec(HEARTBEAT, version).decode_request(frame, pos, len(frame)) == HeartbeatRequest("g", 1, "m")


def test_responses_in_any_pieces_belong_to_the_oldest_request() -> None:
    connection = ClientConnection(None)
    connection.send(HeartbeatRequest("a", 1, "m"), 4, "first")
    connection.send(HeartbeatRequest("b", 1, "m"), 0, "second")
    data = response(HEARTBEAT, 4, 1, HeartbeatResponse(0, 16)) + response(HEARTBEAT, 0, 2, HeartbeatResponse(0, 27))
    found = [event for at in range(len(data)) for event in connection.receive_data(data[at : at + 1])]
    assert all(isinstance(event, ResponseReceived) for event in found)
    assert [(event.sent.token, event.sent.request.group_id, event.message.error_code) for event in found] == [  # type: ignore[union-attr]
        ("first", "a", 16),
        ("second", "b", 27),
    ]
    assert not connection.in_flight


@pytest.mark.parametrize(
    "data",
    [
        response(HEARTBEAT, 4, 2, HeartbeatResponse()),
        (3).to_bytes(4, "big") + b"\0\0\0",
        response(HEARTBEAT, 4, 1, HeartbeatResponse())[:-1].replace(b"\0\0\0\x0c", b"\0\0\0\x0b", 1),
        b"HTTP/1.1 400 Bad Request",
    ],
    ids=["another correlation id", "three bytes", "half a response", "another protocol"],
)
def test_a_frame_that_is_no_response_leaves_its_request_in_flight(data: bytes) -> None:
    connection = ClientConnection("me")
    connection.send(HeartbeatRequest("g", 1, "m"), 4, "token")
    with pytest.raises(DecodeError):
        list(connection.receive_data(data))
    assert [each.token for each in connection.in_flight] == ["token"]


def test_a_response_to_nothing_is_an_error() -> None:
    with pytest.raises(DecodeError, match="responds to no request"):
        list(ClientConnection("me").receive_data(response(HEARTBEAT, 0, 1, HeartbeatResponse())))


def test_a_request_has_the_newest_version_of_both_sides() -> None:
    connection = ClientConnection("me")
    frame = connection.request_versions(software_name="mine")
    header, pos = read_request_header(frame, 4, len(frame), True)
    assert (header.api_key, header.api_version) == (API_VERSIONS, 4)
    assert codec(API_VERSIONS, 4).decode_request(frame, pos, len(frame)).client_software_name == "mine"
    keys = ApiVersion(HEARTBEAT, 0, 99), ApiVersion(JOIN_GROUP, 2, 5)
    assert list(connection.receive_data(versions(*keys))) == [VersionsReceived(0)]
    sent = [
        connection.send(HeartbeatRequest("g", 1, "m")),
        connection.send(HeartbeatRequest("g", 1, "m"), newest=3),
        connection.send(JoinGroupRequest("g")),
    ]
    assert [int.from_bytes(each[6:8], "big") for each in sent] == [4, 3, 5]
    with pytest.raises(UnsupportedVersionError, match="does not support Metadata"):
        connection.send(MetadataRequest())
    with pytest.raises(UnsupportedVersionError, match="versions 2 to 5 of JoinGroupRequest, this client 0 to 1"):
        connection.send(JoinGroupRequest("g"), newest=1)


def test_an_older_broker_is_asked_for_its_versions_once_more() -> None:
    connection = ClientConnection("me")
    connection.request_versions()
    refused = versions(version=0, error_code=ErrorCode.UNSUPPORTED_VERSION)
    assert list(connection.receive_data(refused)) == [VersionsUnsupported()]
    assert connection.api_versions is None
    assert connection.request_versions(version=0)[4:8] == b"\0\x12\0\0"
    answered = versions(ApiVersion(HEARTBEAT, 0, 1), version=0, correlation_id=2)
    assert list(connection.receive_data(answered)) == [VersionsReceived(0)]
    assert connection.api_versions is not None
    assert connection.api_versions.latest_usable(HeartbeatRequest) == 1


def test_an_error_of_the_versions_leaves_them_unknown() -> None:
    connection = ClientConnection("me")
    connection.request_versions()
    (event,) = connection.receive_data(versions(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert event == VersionsReceived(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert connection.api_versions is None


def test_versions_that_both_sides_support() -> None:
    known = ApiVersions({HEARTBEAT: (0, 4), JOIN_GROUP: (90, 99)})
    assert known.supports(HeartbeatRequest)
    assert not known.supports(JoinGroupRequest)
    assert not known.supports(MetadataRequest)

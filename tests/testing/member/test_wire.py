"""The client's connection and brokers that are not as they should be: too old, too new, gone, or talking nonsense."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from coordinatord.testing.member.client import Client, MemberError
from coordinatord.testing.member.state import MemberSettings
from coordinatord.testing.member.wire import NoCommonVersion, Wire
from kafka_wire.api.api_versions import ApiVersion, ApiVersionsResponse
from kafka_wire.api.find_coordinator import Coordinator, FindCoordinatorResponse
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.api.sync_group import SyncGroupRequest
from kafka_wire.errors import ErrorCode
from kafka_wire.framing import FrameSplitter
from kafka_wire.headers import read_request_header
from kafka_wire.registry import codec
from tests.testing.member.client_stories import until

FIND, METADATA, VERSIONS = 10, 3, 18

Served = dict[int, tuple[int, int]]
Nonsense = Callable[[bytes], bytes | None]
"""From the answer that would be right to what is sent; None: hang up."""


class Broker(asyncio.Protocol):
    """Knows one topic and one coordinator, itself, and answers nothing else. `nonsense` by API key."""

    def __init__(self, served: Served, nonsense: dict[int, Nonsense], asked: list[tuple[int, int]]) -> None:
        self.served, self.nonsense, self.asked = served, nonsense, asked
        self.splitter = FrameSplitter(1 << 20)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.port = transport.get_extra_info("sockname")[1]

    def coordinator(self) -> tuple[int, int]:
        """Node id and port."""
        return 0, self.port

    def cluster(self) -> dict[int, int]:
        """Node id -> port."""
        return {0: self.port}

    def metadata_error(self) -> int:
        """Of the response as a whole."""
        return 0

    def data_received(self, data: bytes) -> None:
        for buf, start, _end in self.splitter.feed(data):
            key, version = int.from_bytes(buf[start : start + 2]), int.from_bytes(buf[start + 2 : start + 4])
            self.asked.append((key, version))
            self.answer(key, version, int.from_bytes(buf[start + 4 : start + 8]))

    def answer(self, key: int, version: int, correlation_id: int) -> None:
        response: Any
        if key == VERSIONS:
            least, most = self.served.get(VERSIONS, (0, 4))
            error = 0 if least <= version <= most else ErrorCode.UNSUPPORTED_VERSION
            version = 0 if error else version
            keys = [ApiVersion(each, *versions) for each, versions in self.served.items()]
            response = ApiVersionsResponse(error_code=error, api_keys=keys)
        elif key == FIND:
            node, port = self.coordinator()
            coordinator = Coordinator("g", node, "127.0.0.1", port)
            response = FindCoordinatorResponse(0, 0, "", node, "127.0.0.1", port, [coordinator])
        elif key == METADATA:
            topic = MetadataResponseTopic(0, "t", bytes(15) + b"t", partitions=[MetadataResponsePartition(0, 0, 0, 0)])
            brokers = [MetadataResponseBroker(node, "127.0.0.1", port) for node, port in self.cluster().items()]
            response = MetadataResponse(brokers=brokers, topics=[topic], error_code=self.metadata_error())
        else:
            return
        used = codec(key, version)
        out = bytearray(correlation_id.to_bytes(4)) + (b"\0" if used.response_header_flexible else b"")
        used.encode_response(response, out)
        sent = self.nonsense.get(key, lambda answer: answer)(bytes(out))
        if sent is None:
            self.transport.abort()
        else:
            self.transport.write(len(sent).to_bytes(4) + sent)


ALL: Served = {
    1: (4, 17), 2: (1, 10), 3: (0, 13), 8: (2, 9), 9: (1, 9), 10: (0, 6), 11: (0, 9), 12: (0, 4), 13: (0, 5),
    14: (0, 5), 18: (0, 4),
}  # fmt: skip


@asynccontextmanager
async def broker(served: Served, **nonsense: Nonsense) -> AsyncIterator[tuple[str, list[tuple[int, int]]]]:
    """Where it listens, and what it has been asked: (API key, version)."""
    asked: list[tuple[int, int]] = []
    keys = {{"find": FIND, "metadata": METADATA, "versions": VERSIONS}[name]: each for name, each in nonsense.items()}
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Broker(served, keys, asked), "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
    finally:
        server.close()


def consumer(bootstrap: str) -> Client:
    made = Client(bootstrap, MemberSettings("g", fetches=False, retry_backoff_ms=10))
    made.subscribe(["t"])
    return made


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {11: (10, 12)},
            "UNSUPPORTED_VERSION: the broker serves versions 10 to 12 of JoinGroup, and this client speaks 0 to 9: "
            "use an older broker",
        ),
        (
            {3: (14, 14)},
            "UNSUPPORTED_VERSION: the broker serves versions 14 to 14 of Metadata, and this client speaks 0 to 13: "
            "use an older broker",
        ),
        ({11: None}, "UNSUPPORTED_VERSION: the broker does not serve JoinGroup (API key 11): is it a Kafka broker?"),
    ],
)
async def test_no_version_in_common_is_a_sentence(changes: dict[int, Any], sentence: str) -> None:
    served = {key: each for key, each in (ALL | changes).items() if each is not None}
    async with broker(served) as (bootstrap, _asked):
        reader = consumer(bootstrap)
        for _ in range(2):  # not only the first time
            with pytest.raises(MemberError) as caught:
                await reader.poll(10)
            assert str(caught.value) == sentence
            assert caught.value.error is ErrorCode.UNSUPPORTED_VERSION
        await reader.close(timeout_s=1)


async def test_a_broker_that_knows_an_older_api_versions_only_is_asked_again() -> None:
    async with broker(ALL | {VERSIONS: (0, 2)}) as (bootstrap, asked):
        reader = consumer(bootstrap)
        await reader.poll(0.3)
        assert asked[:2] == [(VERSIONS, 4), (VERSIONS, 0)]
        assert (METADATA, 13) in asked
        reader.abort()


NONSENSE: dict[str, Nonsense] = {
    "hangs up": lambda _answer: None,
    "an empty frame": lambda _answer: b"",
    "three bytes": lambda answer: answer[:3],
    "half an answer": lambda answer: answer[: len(answer) // 2],
    "an answer and a half": lambda answer: answer + answer,
    "an answer to something else": lambda answer: b"\x7f" + answer[1:],
    "lengths beyond the end": lambda answer: answer[:8] + b"\x7f" * (len(answer) - 8),
}


@pytest.mark.parametrize("what", NONSENSE)
@pytest.mark.parametrize("api", ["find", "metadata", "versions"])
async def test_nonsense_costs_the_connection_and_is_asked_again(api: str, what: str) -> None:
    """Not the application, and not the requests: each is asked anew, after a back-off, as if the broker were away."""
    wrong = 2
    key = {"find": FIND, "metadata": METADATA, "versions": VERSIONS}[api]

    def nonsense(answer: bytes) -> bytes | None:
        nonlocal wrong
        wrong -= 1
        return NONSENSE[what](answer) if wrong >= 0 else answer

    async with broker(ALL, **{api: nonsense}) as (bootstrap, asked):
        reader = consumer(bootstrap)
        polling = asyncio.ensure_future(reader.poll(30))
        await until(lambda: {(11, 9)} <= set(asked), "a JoinGroup")
        await until(lambda: [each for each, _version in asked].count(key) >= 3, "the right answer to be asked for")
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        reader.abort()


STATIC = {
    11: (JoinGroupRequest("g", group_instance_id="i"), JoinGroupRequest("g"), "JoinGroup", 5),
    12: (HeartbeatRequest("g", group_instance_id="i"), HeartbeatRequest("g"), "Heartbeat", 3),
    14: (SyncGroupRequest("g", group_instance_id="i"), SyncGroupRequest("g"), "SyncGroup", 3),
    8: (OffsetCommitRequest("g", group_instance_id="i"), OffsetCommitRequest("g"), "OffsetCommit", 7),
}


class Sink(asyncio.Transport):
    """Where a wire writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))


def test_a_header_says_what_is_asked_and_who_asks() -> None:
    wire = Wire("me", lambda _token, _answer: None, lambda _wire: None)
    sink = Sink()
    wire.connection_made(sink)
    wire._handle_api_versions(ApiVersionsResponse(api_keys=[ApiVersion(11, 0, 7), ApiVersion(12, 0, 4)]))
    wire.ask(1, JoinGroupRequest("g"))
    wire.ask(2, HeartbeatRequest("g"))
    headers = []
    for frame, flexible in zip(sink.written, (True, True, True), strict=True):
        assert int.from_bytes(frame[:4]) == len(frame) - 4
        header, _ = read_request_header(frame, 4, len(frame), flexible)
        headers.append((header.api_key, header.api_version, header.correlation_id, header.client_id))
    assert headers == [(VERSIONS, 4, 1, "me"), (11, 7, 2, "me"), (12, 4, 3, "me")]


@pytest.mark.parametrize("key", STATIC)
def test_a_static_member_does_not_go_out_as_a_dynamic_one(key: int) -> None:
    """In the versions before, the request has no place for its group.instance.id."""
    static, dynamic, name, since = STATIC[key]
    for newest in (since - 1, since):
        answered: list[Any] = []
        wire = Wire("c", lambda _token, answer, told=answered: told.append(answer), lambda _wire: None)  # type: ignore[misc]
        sink = Sink()
        wire.connection_made(sink)
        wire._handle_api_versions(ApiVersionsResponse(api_keys=[ApiVersion(key, 0, newest)]))
        wire.ask(1, dynamic)
        assert len(sink.written) == 2, "ApiVersions, and this one"
        wire.ask(2, static)
        if newest < since:
            assert len(sink.written) == 2
            [refused] = answered
            assert isinstance(refused, NoCommonVersion)
            assert str(refused) == (
                f"the broker serves {name} up to version {newest}, which does not support usage of config "
                f"group.instance.id (since version {since}): use a newer broker, or no group.instance.id"
            )
        else:
            assert len(sink.written) == 3
            assert answered == []


async def test_a_static_members_poll_raises_unsupported_version() -> None:
    async with broker(ALL | {11: (0, 4)}) as (bootstrap, asked):
        settings = MemberSettings("g", "i", fetches=False, retry_backoff_ms=10)
        reader = Client(bootstrap, settings)
        reader.subscribe(["t"])
        with pytest.raises(MemberError, match=r"JoinGroup up to version 4.*group\.instance\.id") as caught:
            await reader.poll(10)
        assert caught.value.error is ErrorCode.UNSUPPORTED_VERSION
        assert not [each for each in asked if each[0] == 11]
        await reader.close(timeout_s=1)


async def test_a_frame_that_is_too_large_costs_the_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write((1 << 30).to_bytes(4))
        connections.append(await reader.read())  # until the client hangs up

    connections: list[bytes] = []
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    member = consumer(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert await member.poll(0.5) == {}
    await until(lambda: len(connections) >= 2, "a second connection")
    member.abort()
    server.close()

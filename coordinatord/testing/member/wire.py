"""Connection of a client: requests the broker's versions, sends requests and returns responses in order."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from kafka_wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.api.sync_group import SyncGroupRequest
from kafka_wire.errors import DecodeError, ErrorCode, error_of
from kafka_wire.framing import FrameSplitter
from kafka_wire.headers import RequestHeader, write_request_header
from kafka_wire.registry import Codec, codec, versions_of
from kafka_wire.schema import schema_of

MAX_FRAME_BYTES: Final = 128 << 20
"""Largest response in bytes; larger than any Fetch response with Kafka's default of 50 MiB."""

FIRST_VERSION: Final = 4
SOFTWARE_NAME: Final = "coordinatord-member"

HIGHEST_USED: Final = {8: 9, 9: 9}
"""Highest versions of OffsetCommit and OffsetFetch: those with topic names, as in Kafka's classic consumer."""

STATIC_SINCE: Final = {
    JoinGroupRequest: 5,
    HeartbeatRequest: 3,
    SyncGroupRequest: 3,
    OffsetCommitRequest: 7,
}
"""First version with `group_instance_id`. In an older one a static member would be taken for a dynamic one."""

PATTERN_SINCE: Final = 1
"""First version of ConsumerGroupHeartbeat with `subscribed_topic_regex`."""

_correlation_id = struct.Struct(">i").unpack_from

OnAnswer = Callable[[Any, Any], None]
"""Callback with the token of `ask` and the response: None if none will arrive, or a `NoCommonVersion`."""


class NoCommonVersion(Exception):
    """No version of a request is supported by both the broker and this client. The text is a sentence for humans."""


class Wire(asyncio.Protocol):
    """One connection. Requests wait until it is ready; when it is lost, all waiting requests get None."""

    def __init__(
        self,
        client_id: str,
        on_answer: OnAnswer,
        on_lost: Callable[[Wire], None],
        on_ready: Callable[[Wire], None] = lambda _wire: None,
    ) -> None:
        self.client_id = client_id
        self.closed = False
        self._on_answer = on_answer
        self._on_lost = on_lost
        self._on_ready = on_ready
        self._transport: asyncio.Transport | None = None
        self._splitter = FrameSplitter(MAX_FRAME_BYTES)
        self._versions: dict[int, tuple[int, int]] | None = None  # the broker's lowest and highest version by api key
        self._waiting: deque[tuple[Any, Any]] = deque()
        self._unanswered: deque[tuple[int, Codec, Any]] = deque()
        self._count = 0

    async def connect(self, host: str, port: int, timeout_s: float) -> None:
        """Connect; a failure, or a connection that takes too long, is handled like a lost connection."""
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.get_running_loop().create_connection(lambda: self, host, port)
        except OSError as error:  # also TimeoutError
            self.connection_lost(error)

    def ask(self, token: Any, request: Any) -> None:
        """Send a request in the highest version that both sides support; `token` is returned with the response."""
        if self.closed:
            self._on_answer(token, None)
        elif self._versions is None:
            self._waiting.append((token, request))
        else:
            self._send_in_common_version(token, request)

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort()
        else:
            self.connection_lost(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Request the broker's versions first."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self.closed:
            transport.abort()
            return
        self._send(self, ApiVersionsRequest(SOFTWARE_NAME, "1"), FIRST_VERSION)

    def data_received(self, data: bytes) -> None:
        """Handle responses, in the order of the requests. A response that cannot be decoded closes the connection."""
        try:
            for buf, start, end in self._splitter.feed(data):
                self._answered(buf, start, end)
        except DecodeError:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Complete all waiting requests with None."""
        if self.closed:
            return
        self.closed = True
        self._on_lost(self)
        tokens = [token for _, _, token in self._unanswered] + [token for token, _ in self._waiting]
        self._unanswered.clear()
        self._waiting.clear()
        for token in tokens:
            if token is not self:
                self._on_answer(token, None)

    def _answered(self, buf: bytes, start: int, end: int) -> None:
        if end - start < 4 or not self._unanswered or self._unanswered[0][0] != _correlation_id(buf, start)[0]:
            raise DecodeError("a response without a request")
        _, used, token = self._unanswered[0]
        start += 5 if used.response_header_flexible else 4  # brokers leave its tag buffer empty
        if token is self and used.api_version and _error_of(buf, start, end) == ErrorCode.UNSUPPORTED_VERSION:
            self._unanswered.popleft()
            self._send(self, ApiVersionsRequest(), 0)
            return
        response = used.decode_response(buf, start, end)
        self._unanswered.popleft()  # only once it is known to be a response
        if token is self:
            self._learn(response)
        else:
            self._on_answer(token, response)

    def _learn(self, response: ApiVersionsResponse) -> None:
        if response.error_code:
            raise DecodeError(f"the broker does not say what it serves: {error_of(response.error_code).name}")
        self._versions = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        self._on_ready(self)
        while self._waiting:
            self._send_in_common_version(*self._waiting.popleft())

    def _send_in_common_version(self, token: Any, request: Any) -> None:
        try:
            version = self._version(request)
        except NoCommonVersion as error:
            self._on_answer(token, error)
        else:
            self._send(token, request, version)

    def _version(self, request: Any) -> int:
        key = schema_of(type(request)).api_key
        assert key is not None
        assert self._versions is not None
        ours = versions_of(key)
        name = type(request).__name__.removesuffix("Request")
        if key not in self._versions:
            raise NoCommonVersion(f"the broker does not serve {name} (API key {key}): is it a Kafka broker?")
        lowest, highest = self._versions[key]
        version = min(highest, ours.last, HIGHEST_USED.get(key, ours.last))
        if version < max(lowest, ours.first):
            raise NoCommonVersion(
                f"the broker serves versions {lowest} to {highest} of {name}, and this client speaks {ours.first} to "
                f"{HIGHEST_USED.get(key, ours.last)}: use {'an older' if lowest > ours.last else 'a newer'} broker"
            )
        if version < PATTERN_SINCE and getattr(request, "subscribed_topic_regex", None):
            raise NoCommonVersion(
                f"the broker serves {name} up to version {version}, and resolves no regular expressions (since version "
                f"{PATTERN_SINCE}): use a newer broker, or subscribe to topics"
            )
        static_since = STATIC_SINCE.get(type(request), 0)
        if version < static_since and request.group_instance_id is not None:
            raise NoCommonVersion(
                f"the broker serves {name} up to version {version}, which does not support usage of config "
                f"group.instance.id (since version {static_since}): use a newer broker, or no group.instance.id"
            )
        return version

    def _send(self, token: Any, request: Any, version: int) -> None:
        assert self._transport is not None
        used = codec(schema_of(type(request)).api_key or 0, version)
        self._count += 1
        out = bytearray(4)
        write_request_header(RequestHeader(used.api_key, version, self._count, self.client_id), used.flexible, out)
        used.encode_request(request, out)
        out[:4] = (len(out) - 4).to_bytes(4, "big")
        self._unanswered.append((self._count, used, token))
        self._transport.write(out)


def _error_of(buf: bytes, start: int, end: int) -> int:
    """Return the error of a broker that does not support our version of ApiVersions: its response has version 0, which
    begins with the error.
    """
    return int.from_bytes(buf[start : min(start + 2, end)], "big", signed=True)

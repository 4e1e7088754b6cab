"""Connection of a client: requests the broker's versions, sends requests and returns responses in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from kafka_wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.api.sync_group import SyncGroupRequest
from kafka_wire.client import ApiVersions, ClientConnection, InFlightRequest
from kafka_wire.errors import DecodeError, ErrorCode, error_of
from kafka_wire.registry import versions_of
from kafka_wire.schema import schema_of

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
        self._connection = ClientConnection(client_id)
        self._versions: ApiVersions | None = None
        self._waiting: deque[tuple[Any, Any]] = deque()

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
            for sent, response in self._connection.receive_data(data):
                self._answered(sent, response)
        except DecodeError:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Complete all waiting requests with None."""
        if self.closed:
            return
        self.closed = True
        self._on_lost(self)
        tokens = [each.token for each in self._connection.in_flight] + [token for token, _ in self._waiting]
        self._connection.in_flight.clear()
        self._waiting.clear()
        for token in tokens:
            if token is not self:
                self._on_answer(token, None)

    def _answered(self, sent: InFlightRequest, response: Any) -> None:
        if sent.token is not self:
            self._on_answer(sent.token, response)
        elif response.error_code == ErrorCode.UNSUPPORTED_VERSION and sent.codec.api_version:
            self._send(self, ApiVersionsRequest(), 0)
        else:
            self._handle_api_versions(response)

    def _handle_api_versions(self, response: ApiVersionsResponse) -> None:
        if response.error_code:
            raise DecodeError(f"the broker does not say what it serves: {error_of(response.error_code).name}")
        self._versions = ApiVersions.of(response)
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
        if key not in self._versions.supported:
            raise NoCommonVersion(f"the broker does not serve {name} (API key {key}): is it a Kafka broker?")
        version = self._versions.latest_usable(type(request), HIGHEST_USED.get(key, ours.last))
        if version is None:
            lowest, highest = self._versions.supported[key]
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
        self._transport.write(self._connection.send(request, version, token))

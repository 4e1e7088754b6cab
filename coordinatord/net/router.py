"""From a frame to its handler: header, codec, and what becomes of frames that are none.

A peer's bad input never reaches a handler: a frame that cannot be decoded, or asks for an API or version that is not
served, closes the connection with one log line that says who, what and why, as Kafka does. The exception is an
ApiVersions request of an unknown version, which is answered in version 0 with UNSUPPORTED_VERSION, so that newer
clients can come down to what we serve (KIP-511).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

import structlog

from coordinatord.group.state import Standings
from coordinatord.net.connection import Connection
from coordinatord.net.request import RequestContext
from coordinatord.observe.metrics import Histogram, Metrics
from kafka_wire import registry
from kafka_wire.api.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kafka_wire.errors import DecodeError, ErrorCode, LengthError, TruncatedError, UnknownApiError
from kafka_wire.framing import Frames
from kafka_wire.headers import API_VERSIONS
from kafka_wire.lengths import read_tags
from kafka_wire.registry import Codec
from kafka_wire.schema import Versions

if TYPE_CHECKING:
    from coordinatord.shortcuts.seats import Seat

Handler = Callable[[RequestContext, Any], Any]

AtOnce = Callable[[Any, int, bytes, Standings], int | None]
"""(request, now_ms, its bytes, standings) -> the error code that is all of its response, or None: not now, ask the
handler. `standings` is where it may leave a member whose next request, if it is the same bytes, is answered without an
error and without being decoded. The bytes are all that is behind the correlation id: the client id is among them.
"""

Decoder = Callable[[Codec], Callable[[bytes, int, int], Any]]
"""codec -> what reads its requests: as the codec does, or what else their handler knows how to take."""

_read_head = struct.Struct(">Iih").unpack_from
HEAD_BYTES = 10

log = structlog.get_logger("coordinatord.net")


TIMED_ALL = 256
TIMED_EVERY = 16
"""Of each API and version the first 256 requests are timed, then every sixteenth, which counts for sixteen: two looks
at the clock and a histogram for each would be a tenth of a heartbeat. Requests that wait are timed one by one."""


GROUP_APIS = frozenset({8, 9, 11, 12, 13, 14, 15, 42, 47})
"""Requests that are a step of a group, which Kafka measures as event-processing-time."""


class _Answers(dict[int, tuple[bytes, bytes]]):
    """Error code -> (the response's size, its bytes after the correlation id), encoded when it is first needed."""

    def __init__(self, codec: Codec) -> None:
        super().__init__()
        self._codec = codec

    def __missing__(self, error_code: int) -> tuple[bytes, bytes]:
        out = bytearray(b"\0" if self._codec.response_header_flexible else b"")
        self._codec.encode_response(self._codec.response(error_code=error_code), out)
        made = self[error_code] = (4 + len(out)).to_bytes(4, "big"), bytes(out)
        return made


class Route:
    """One API in one version: its codec, its handlers, how often it was asked for, and who need not ask."""

    __slots__ = ("answers", "at_once", "codec", "count", "decode", "handler", "seconds", "standings")

    def __init__(
        self, codec: Codec, handler: Handler, at_once: AtOnce | None, decoder: Decoder | None, seconds: Histogram
    ) -> None:
        self.codec = codec
        self.decode = codec.decode_request if decoder is None else decoder(codec)
        self.handler = handler
        self.at_once = at_once
        self.answers = _Answers(codec)
        self.count = 0
        self.seconds = seconds
        self.standings: Standings = {}


class Routes(dict[int, Route]):
    """Routes by a frame's first four bytes (api key and version), made when first asked for."""

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        at_once: Mapping[int, AtOnce],
        decoders: Mapping[int, Decoder],
        metrics: Metrics,
    ) -> None:
        super().__init__()
        self.handlers = handlers
        self.at_once = at_once
        self.decoders = decoders
        #: those of `at_once`, by the same four bytes as bytes
        self.with_standings: dict[bytes, Route] = {}
        self.metrics = metrics

    def __missing__(self, key: int) -> Route:
        handler = self.handlers.get(key >> 16)
        if handler is None:
            raise UnknownApiError(f"api key {key >> 16} is not served")
        api_key = key >> 16
        at_once, decoder = self.at_once.get(api_key), self.decoders.get(api_key)
        made = self[key] = Route(registry.CODECS[key], handler, at_once, decoder, self.metrics.request_seconds[api_key])
        if at_once is not None:
            self.with_standings[key.to_bytes(4, "big")] = made
        return made


class Router:
    """Dispatches frames of all connections. The shell's parts that a connection needs are passed in."""

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        *,
        max_frame_bytes: int,
        max_connections: int,
        now_ms: Callable[[], int],
        call_soon: Callable[..., object],
        hold: Callable[[int, Callable[[], object], Callable[[], object]], None],
        metrics: Metrics,
        features: Mapping[str, int] | None = None,
        at_once: Mapping[int, AtOnce] | None = None,
        decoders: Mapping[int, Decoder] | None = None,
    ) -> None:
        """`features`: names that clients look for in ApiVersions, and the levels that are in effect (KIP-584).
        `at_once`: by api key, for APIs whose response is an error code and nothing else: asked before the handler.
        `decoders`: by api key, for APIs whose handler takes more than what codecs make.
        """
        self.handlers: dict[int, Handler] = {**handlers, API_VERSIONS: self.api_versions}
        self.features = features or {}
        self.routes = Routes(self.handlers, at_once or {}, decoders or {}, metrics)
        self.max_frame_bytes = max_frame_bytes
        self.max_connections = max_connections
        self.now_ms = now_ms
        self.call_soon = call_soon
        self.hold = hold
        self.metrics = metrics
        self._requests = metrics.requests
        self.connections: set[Connection] = set()
        self._unsent: list[Connection] = []
        self.draining = False
        self._offered: list[ApiVersion] | None = None

    # Connections come and go

    def connected(self, connection: Connection) -> None:
        """A client has connected; one too many is closed again."""
        connection.last_active_ms = self.now_ms()
        self.connections.add(connection)
        self.metrics.connections_accepted += 1
        if len(self.connections) > self.max_connections:
            connection.refuse("limit", f"more than {self.max_connections} connections (max.connections)")

    def disconnected(self, connection: Connection) -> None:
        """A client's connection is no more."""
        self.connections.discard(connection)
        self.metrics.connections_closed[connection.closed_for] += 1

    def refused(self, connection: Connection, kind: str, reason: str, **what: Any) -> None:
        """A connection is being closed because of what its peer sent."""
        self.metrics.rejected[kind] += 1
        log.warning("connection closed", peer=connection.peer, client_id=connection.client_id, reason=reason, **what)

    def flush_soon(self, connection: Connection) -> None:
        """Have its answers leave at the end of the event loop's turn: one callback for all, a rebalance answers each
        member on a connection of its own.
        """
        if not self._unsent:
            self.call_soon(self._flush)
        self._unsent.append(connection)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        broken: Exception | None = None
        for connection in unsent:
            try:
                connection.flush()
            except Exception as error:
                broken = broken or error
        if broken is not None:
            raise broken  # when the others have got their answers

    def sent(self, size: int) -> None:
        """Response bytes have been handed to a transport."""
        self.metrics.bytes_sent += size

    def close_idle(self, max_idle_ms: int) -> int:
        """Close connections that have been silent for longer (connections.max.idle.ms); how many they were."""
        oldest = self.now_ms() - max_idle_ms
        idle = [c for c in self.connections if c.last_active_ms < oldest and not c.is_waiting]
        for connection in idle:
            log.info("idle connection closed", peer=connection.peer, client_id=connection.client_id)
            connection.closed_for = "idle"
            connection.close()
        return len(idle)

    @property
    def has_unsent(self) -> bool:
        """Some client has not got all of its answers yet."""
        return any(connection.has_unsent for connection in self.connections)

    # Requests

    def again(self, connection: Connection, frames: Frames) -> int:
        """Answer the first of `frames`, up to one that is not the heartbeat of a member in good standing: they are the
        same bytes as before but for the correlation id, with the same answer (group/standing.py). How many it were.
        """
        buf, start, _ = frames[0]
        head = buf[start : start + 4]
        route = self.routes.with_standings.get(head)
        if route is None:
            seat = connection.seat
            if seat is None or len(frames) != 1 or (head != seat.join_key and head != seat.sync_key):
                return 0
            return self._from_seat(connection, seat, head, frames)
        began_s = perf_counter()
        find = route.standings.get
        now_ms = connection.last_active_ms
        size, rest = route.answers[0]
        answers = bytearray()
        count = 0
        for buf, start, end in frames:
            if end - start < 8 or buf[start : start + 4] != head:
                break
            member = find(buf[start + 8 : end])
            if member is None:
                break
            member.beats(now_ms)
            answers += size + buf[start + 4 : start + 8] + rest
            count += 1
        if count:
            connection.answer_at_once(answers)
            self._requests[route.codec.api_key] += count
            before = route.count
            route.count = after = before + count
            times = count if before < TIMED_ALL else (after // TIMED_EVERY - before // TIMED_EVERY) * TIMED_EVERY
            if times:
                self._timed(route, (perf_counter() - began_s) / count, times)
        return count

    def _from_seat(self, connection: Connection, seat: Seat, key: bytes, frames: Frames) -> int:
        """The same for a JoinGroup or SyncGroup that comes alone (handlers/seats.py): 1 if it needs no dispatch."""
        buf, start, end = frames[0]
        route = self.routes[int.from_bytes(key, "big")]
        count = route.count + 1
        is_timed = count <= TIMED_ALL or not count % TIMED_EVERY
        began_s = perf_counter() if is_timed else 0.0
        try:
            if not seat.again(key, buf, start, end):
                return 0
        except Exception:
            self.failed(connection, route.codec)
            return 1
        route.count = count
        self._requests[route.codec.api_key] += 1
        if is_timed:
            self._timed(route, perf_counter() - began_s, 1 if count <= TIMED_ALL else TIMED_EVERY)
        return 1

    def dispatch(self, connection: Connection, buf: bytes, start: int, end: int) -> None:
        """Answer the request in `buf[start:end]`, or see to it that it is answered later."""
        try:
            if end - start < HEAD_BYTES:
                raise TruncatedError(f"a request of {end - start} bytes has no header")
            key, correlation_id, size = _read_head(buf, start)
            route = self.routes[key]
            codec = route.codec
            pos = start + HEAD_BYTES
            if size > 0:
                stop = pos + size
                if buf[pos:stop] != connection.client_id_bytes:
                    self._client_id(connection, buf, pos, stop, end)
                pos = stop
            elif size < -1:
                raise LengthError(f"length {size} of client_id")
            else:
                connection.client_id = None if size else ""
                connection.client_id_bytes = b""
            if codec.flexible:
                if pos >= end:
                    raise TruncatedError("no tag buffer after the header")
                if buf[pos]:
                    _, pos = read_tags(buf, pos, end)
                else:
                    pos += 1
            request = route.decode(buf, pos, end)
        except (DecodeError, IndexError) as error:
            self._undecodable(connection, buf, start, end, error)
            return
        self._requests[key >> 16] += 1
        count = route.count = route.count + 1
        is_timed = count <= TIMED_ALL or not count % TIMED_EVERY
        began_s = perf_counter() if is_timed else 0.0
        try:
            if route.at_once is None or not self._at_once(connection, route, request, buf, start, end):
                context = RequestContext(connection, codec, correlation_id, connection.client_id, (buf, pos, end))
                response = route.handler(context, request)
                if response is not None:
                    connection.answer(context, response)
                elif not context.done:
                    connection.park(context)
        except Exception:
            self.failed(connection, codec)
            return
        if is_timed:
            self._timed(route, perf_counter() - began_s, 1 if count <= TIMED_ALL else TIMED_EVERY)

    def _at_once(self, connection: Connection, route: Route, request: Any, buf: bytes, start: int, end: int) -> bool:
        """Answer a request whose response is an error code, if nothing has to be waited for."""
        if connection.held:
            return False
        assert route.at_once is not None
        error_code = route.at_once(request, connection.last_active_ms, buf[start + 8 : end], route.standings)
        if error_code is None:
            return False
        size, rest = route.answers[error_code]
        connection.answer_at_once(size + buf[start + 4 : start + 8] + rest)
        if error_code:
            self.metrics.error(route.codec.api_key, error_code)
        return True

    def _timed(self, route: Route, took_s: float, times: int) -> None:
        """Note how long a request took, for itself and those that are not timed. It was not parked or held."""
        route.seconds.observe(took_s, times)
        if route.codec.api_key in GROUP_APIS:
            self.metrics.event_processing_seconds.observe(took_s, times)

    @staticmethod
    def failed(connection: Connection, codec: Codec) -> None:
        """A handler has raised: ours, not the peer's. Say so in full, and do not leave the client waiting."""
        log.exception("a handler failed", peer=connection.peer, api=codec.name, version=codec.api_version)
        connection.close()

    def _client_id(self, connection: Connection, buf: bytes, start: int, stop: int, end: int) -> None:
        """Read the client id, which hardly ever changes on a connection."""
        if stop > end:
            raise TruncatedError(f"client_id of {stop - start} bytes, {end - start} are left")
        raw = buf[start:stop]
        try:
            connection.client_id = raw.decode()
        except UnicodeDecodeError as error:
            raise DecodeError(f"client_id: {error}") from error
        connection.client_id_bytes = raw

    def _undecodable(self, connection: Connection, buf: bytes, start: int, end: int, error: Exception) -> None:
        """Answer an ApiVersions request of a version that we don't know; close the connection on all else."""
        head = buf[start : min(end, start + 8)]
        api_key = int.from_bytes(head[:2], "big", signed=True) if len(head) >= 2 else None
        api_version = int.from_bytes(head[2:4], "big", signed=True) if len(head) >= 4 else None
        if api_key == API_VERSIONS and isinstance(error, UnknownApiError) and len(head) == 8:
            codec = registry.codec(API_VERSIONS, 0)
            correlation_id = int.from_bytes(head[4:], "big", signed=True)
            context = RequestContext(connection, codec, correlation_id, None, (buf, end, end))
            own = self._range(API_VERSIONS)
            connection.answer(context, ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [own]))
            return
        name = registry.API_NAMES.get(api_key, "unknown") if api_key is not None else "none"
        connection.refuse(
            type(error).__name__,
            f"{type(error).__name__}: {error}",
            api=name,
            api_key=api_key,
            version=api_version,
            frame_bytes=end - start,
        )

    # ApiVersions, the one API that is the router's own

    def _range(self, api_key: int) -> ApiVersion:
        versions: Versions = registry.versions_of(api_key)
        return ApiVersion(api_key, versions.first, versions.last)

    def offered(self) -> Iterable[ApiVersion]:
        """The APIs that have a handler, with their versions: nothing is advertised that is not served."""
        if self._offered is None:
            self._offered = [self._range(api_key) for api_key in sorted(self.handlers)]
        return self._offered

    def api_versions(self, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
        """ApiVersions v0-v4 (KIP-511: v3+ names the client's software, in characters that are safe to log)."""
        if context.api_version >= 3 and not (
            _is_software_name(request.client_software_name) and _is_software_name(request.client_software_version)
        ):
            return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
        return ApiVersionsResponse(
            ErrorCode.NONE,
            list(self.offered()),
            0,
            # Older clients stumble over a minimum of 0 (KAFKA-17492).
            [SupportedFeatureKey(name, 0, level) for name, level in self.features.items() if context.api_version >= 4],
            0,
            [FinalizedFeatureKey(name, level, level) for name, level in self.features.items()],
        )


def _is_software_name(name: str) -> bool:
    """Kafka's `[a-zA-Z0-9](?:[a-zA-Z0-9\\-.]*[a-zA-Z0-9])?` (ApiVersionsRequest.isValid)."""
    inner = name.replace("-", "").replace(".", "")
    return bool(name) and inner.isascii() and inner.isalnum() and name[0].isalnum() and name[-1].isalnum()

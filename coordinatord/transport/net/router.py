"""Dispatch of a frame to its handler: header, codec, and the treatment of frames that are no valid request.

A request is served in one of two ways. If its API and version have a shortcut, the shortcut receives the frame: it
responds to the request or does nothing. Otherwise the frame takes the full path: header, decode, handler.

Invalid input never reaches a handler. A frame that cannot be decoded, or that asks for an unsupported API or version,
closes the connection with one log line that names the peer, the input and the reason, as in Kafka. The exception is an
ApiVersions request of an unknown version: the response has version 0 and UNSUPPORTED_VERSION, so that newer clients can
choose a supported version (KIP-511). Bytes after the end of a request are ignored, as in Kafka.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Mapping
from time import perf_counter
from typing import Any, Final

from coordinatord.base.observe.logger import get_logger
from coordinatord.base.observe.metrics import Metrics
from coordinatord.transport.net.api_versions import unsupported_version
from coordinatord.transport.net.batching import Encoded, TooLarge, decoded_aside, encoded_aside, in_batches, split_of
from coordinatord.transport.net.connection import Connection
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, TaskSteps
from coordinatord.transport.net.limits import LARGE_BYTES, MAX_HEADER_TAG_BYTES, is_large, limit_of
from coordinatord.transport.net.received import Body
from coordinatord.transport.net.request import RequestContext
from coordinatord.transport.net.responses import AnswerTooLarge
from coordinatord.transport.net.routes import Handler, Route, Routes, ShortcutMaker
from kafka_wire import registry
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import DecodeError, LengthError, TruncatedError, UnknownApiError
from kafka_wire.framing import Frames
from kafka_wire.lengths import read_tags
from kafka_wire.registry import Codec
from kafka_wire.releases import NEWEST, ranges_of

_read_correlation_id_and_size = struct.Struct(">ih").unpack_from
CORRELATION_AT: Final = 4
HEAD_BYTES: Final = 10
"""Size of API key, version, correlation id, and the length of the client id."""

log = get_logger("coordinatord.transport.net")


class Router:
    """Serves the requests of all connections."""

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        metrics: Metrics,
        shortcuts: Mapping[int, ShortcutMaker] | None = None,
        release: str = NEWEST,
    ) -> None:
        """`handlers` and `shortcuts` are keyed by API key. An ApiVersions request newer than `release` of Kafka has an
        unsupported version. Other requests are served in all declared versions: a client that reads ApiVersions does
        not send newer ones, but the nodes of this cluster do to each other.
        """
        self.routes = Routes(handlers, shortcuts or {}, metrics, ranges_of(release)[ApiKey.API_VERSIONS][1])
        self._release = release
        self._requests = metrics.requests

    def replace(self, handlers: Mapping[int, Handler], shortcuts: Mapping[int, ShortcutMaker]) -> None:
        """Dispatch all later requests to other handlers. Request counts continue, durations start again."""
        self.routes.replace(handlers, shortcuts)

    def serve(self, connection: Connection, frames: Frames, first: int, stop: int) -> int:
        """Serve the request `frames[first]`, and those up to `stop` that its shortcut handles with it. Returns the
        number of served requests.
        """
        buf, start, end = frames[first]
        try:
            route = self.routes[buf[start : min(start + 4, end)]]
        except DecodeError as error:
            is_cut_off = end - start < HEAD_BYTES
            self._undecodable(connection, buf, start, end, _no_header(end - start) if is_cut_off else error)
            return 1
        shortcut = route.shortcut
        if shortcut is not None:
            began_s = perf_counter()
            try:
                count = shortcut.answer(connection, frames, first, stop)
            except Exception:
                self.failed(connection, route.codec)
                return 1
            if count:
                self._requests[route.codec.api_key] += count
                times = route.counted(count)
                if times:
                    route.took((perf_counter() - began_s) / count, times)
                return count
        self._dispatch(connection, route, buf, start, end)
        return 1

    def _dispatch(self, connection: Connection, route: Route, buf: bytes, start: int, end: int) -> None:
        """Take the full path: respond to the request in `buf[start:end]`, or arrange for a later response."""
        codec = route.codec
        try:
            if end - start < HEAD_BYTES:
                raise _no_header(end - start)
            correlation_id, size = _read_correlation_id_and_size(buf, start + CORRELATION_AT)
            pos = start + HEAD_BYTES
            if size > 0:
                stop = pos + size
                if buf[pos:stop] != connection.client_id_bytes:
                    _read_client_id(connection, buf, pos, stop, end)
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
                    _, pos = read_tags(buf, pos, min(end, pos + MAX_HEADER_TAG_BYTES))
                else:
                    pos += 1
            if end - pos > LARGE_BYTES and is_large(codec.api_key, end - pos):
                self._dispatch_large(connection, route, correlation_id, (buf, pos, end))
                return
            request = codec.decode_request(buf, pos, end)
        except (DecodeError, IndexError) as error:
            self._undecodable(connection, buf, start, end, error)
            return
        self._requests[codec.api_key] += 1
        times = route.counted(1)
        began_s = perf_counter() if times else 0.0
        try:
            context = RequestContext(connection, codec, correlation_id, (buf, pos, end))
            split = route.splits and split_of(codec, request)
            if split:
                self.slice(context, in_batches(context, request, split, route.handler))
                return
            response = route.handler(context, request)
            shortcut = route.shortcut
            if shortcut is not None:
                shortcut.learn(context, request, buf, start, end)
            if response is not None:
                if type(response) is CooperativeTask:
                    self.slice(context, response)
                else:
                    connection.line.answer(context, response)
            elif not context.done:
                connection.line.park(context)
        except Exception:
            self.failed(connection, codec)
            return
        if times:
            route.took(perf_counter() - began_s, times)

    def _dispatch_large(self, connection: Connection, route: Route, correlation_id: int, body: Body) -> None:
        """Decode the request on another thread, then call its handler."""
        api_key, size = route.codec.api_key, body[2] - body[1]
        if size > limit_of(api_key):
            raise LengthError(f"{size} bytes are more than the {limit_of(api_key)} of a request of this kind")
        self._requests[api_key] += 1
        context = RequestContext(connection, route.codec, correlation_id, body)
        self.slice(context, decoded_aside(context, route.handler))

    def slice(self, context: RequestContext, slices: CooperativeTask) -> None:
        """Park the request until its slices have made the response."""
        connection = context.connection
        if connection.line.parked is not context:
            connection.line.park(context)

        def finished(response: Any) -> None:
            if type(response) is Encoded:
                connection.line.answer_encoded(context, response.pieces, response.size)
            elif response is not None:
                connection.line.answer(context, response)

        def failed() -> None:
            error = sys.exception()
            if isinstance(error, DecodeError):
                kind = type(error).__name__
                connection.refuse(kind, f"{kind}: {error}", api=context.codec.name, version=context.api_version)
            elif isinstance(error, AnswerTooLarge):
                self.slice(context, CooperativeTask(_error_instead(context, str(error))))
            elif isinstance(error, TooLarge):
                connection.refuse("oversized", str(error), api=context.codec.name, version=context.api_version)
            else:
                self.failed(connection, context.codec)

        connection.door.slicer.run(encoded_aside(context, slices), finished, failed, lambda: context.closed)

    @staticmethod
    def failed(connection: Connection, codec: Codec) -> None:
        """Handle an exception of a handler, which is a bug of coordinatord: log it in full, and do not leave the client
        waiting.
        """
        log.exception("a handler failed", peer=connection.peer, api=codec.name, version=codec.api_version)
        connection.close()

    def _undecodable(self, connection: Connection, buf: bytes, start: int, end: int, error: Exception) -> None:
        """Respond to an ApiVersions request of an unknown version; close the connection on any other
        undecodable frame.
        """
        head = buf[start : min(end, start + 8)]
        api_key = int.from_bytes(head[:2], "big", signed=True) if len(head) >= 2 else None
        api_version = int.from_bytes(head[2:4], "big", signed=True) if len(head) >= 4 else None
        if api_key == ApiKey.API_VERSIONS and isinstance(error, UnknownApiError) and len(head) == 8:
            correlation_id = int.from_bytes(head[4:], "big", signed=True)
            codec = registry.codec(ApiKey.API_VERSIONS, 0)
            context = RequestContext(connection, codec, correlation_id, (buf, end, end))
            connection.line.answer(context, unsupported_version(self._release))
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


def _error_instead(context: RequestContext, reason: str) -> TaskSteps:
    """Make the response that replaces one that is too large. The request may have many names, so another thread decodes
    it.
    """
    make = context.connection.too_large(context, reason)
    return None if make is None else (yield make)


def _no_header(size: int) -> TruncatedError:
    return TruncatedError(f"a request of {size} bytes has no header")


def _read_client_id(connection: Connection, buf: bytes, start: int, stop: int, end: int) -> None:
    """Read the client id, which rarely changes within a connection."""
    if stop > end:
        raise TruncatedError(f"client_id of {stop - start} bytes, {end - start} are left")
    raw = buf[start:stop]
    try:
        connection.client_id = raw.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(f"client_id: {error}") from error
    connection.client_id_bytes = raw

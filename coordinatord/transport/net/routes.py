"""Routing from a frame's first four bytes (API key and version) to its handler; and durations of requests.

Per API and version the first `TIMED_ALL` requests are timed, then every sixteenth, which counts for sixteen: two clock
reads and a histogram update per request would cost a tenth of a heartbeat. Requests that wait are timed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from coordinatord.base.observe.metrics import Histogram, Metrics
from coordinatord.transport.net.batching import SPLITS
from coordinatord.transport.net.connection import Connection
from coordinatord.transport.net.request import RequestContext
from kafka_wire import registry
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import TruncatedError, UnknownApiError
from kafka_wire.framing import Frames
from kafka_wire.registry import Codec

Handler = Callable[[RequestContext, Any], Any]
"""(context, request) -> the response, or None: see request.py."""

TIMED_ALL: Final = 256
TIMED_EVERY: Final = 16

GROUP_APIS: Final = frozenset(
    {
        ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP, ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.DELETE_GROUPS, ApiKey.OFFSET_DELETE,
    }
)  # fmt: skip
"""Requests that are steps of a group, which Kafka measures as event-processing-time."""


class Shortcut(Protocol):
    """A shortcut: responds to requests of one API and version from earlier responses of the full path
    (server/fastpath).
    """

    def answer(self, connection: Connection, frames: Frames, first: int, stop: int) -> int:
        """Respond to `frames[first]`, and to the similar requests that follow it, up to `stop`. Returns the number of
        requests served; 0 means that the call changed nothing and that the request takes the full path.
        """
        ...

    def learn(self, context: RequestContext, request: Any, buf: bytes, start: int, end: int) -> None:
        """Learn from the request in `buf[start:end]`, which has taken the full path. Its handler may have filled in
        fields of `request` and removed what the handler rejected.
        """
        ...


ShortcutMaker = Callable[[Codec], Shortcut | None]
"""(codec of a version) -> its shortcut; None if the version has no shortcut."""


class Route:
    """One version of an API: its codec, its handler, its shortcut, and the number of requests."""

    __slots__ = ("_processing_seconds", "_seconds", "codec", "count", "handler", "shortcut", "splits")

    def __init__(self, codec: Codec, handler: Handler, shortcut: Shortcut | None, metrics: Metrics) -> None:
        self.codec = codec
        self.handler = handler
        self.shortcut = shortcut
        self.count = 0
        self.splits = codec.api_key in SPLITS
        self._seconds: Histogram = metrics.request_seconds[codec.api_key]
        self._processing_seconds = metrics.event_processing_seconds if codec.api_key in GROUP_APIS else None

    def counted(self, requests: int) -> int:
        """Count requests. Returns the number of requests for which the time of one of these counts, or 0 if the time is
        not to be measured.
        """
        before = self.count
        self.count = after = before + requests
        if before < TIMED_ALL:
            return requests
        return (after // TIMED_EVERY - before // TIMED_EVERY) * TIMED_EVERY

    def took(self, seconds: float, times: int) -> None:
        """Record a request's duration, for `times` requests. The request was neither parked nor waited for the log."""
        self._seconds.observe(seconds, times)
        if self._processing_seconds is not None:
            self._processing_seconds.observe(seconds, times)


class Routes(dict[bytes, Route]):
    """Routes by a frame's first four bytes, made on first use. Raises UnknownApiError for an API without a handler."""

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        shortcuts: Mapping[int, ShortcutMaker],
        metrics: Metrics,
        last_api_versions: int,
    ) -> None:
        """`handlers` and `shortcuts` are keyed by API key; `last_api_versions`: the newest version of ApiVersions."""
        super().__init__()
        self._last_api_versions = last_api_versions
        self.handlers = handlers
        self.shortcuts = shortcuts
        self.metrics = metrics

    def replace(self, handlers: Mapping[int, Handler], shortcuts: Mapping[int, ShortcutMaker]) -> None:
        """Dispatch all later requests to other handlers."""
        self.handlers = handlers
        self.shortcuts = shortcuts
        self.clear()

    def __missing__(self, head: bytes) -> Route:
        if len(head) < 4:
            raise TruncatedError(f"a request of {len(head)} bytes has no header")
        key = int.from_bytes(head, "big")
        api_key = key >> 16
        handler = self.handlers.get(api_key)
        if handler is None:
            raise UnknownApiError(f"api key {api_key} is not served")
        if api_key == ApiKey.API_VERSIONS and key & 0xFFFF > self._last_api_versions:
            raise UnknownApiError(f"api key {api_key} version {key & 0xFFFF} is newer than advertised.kafka.version")
        codec = registry.CODECS[key]
        make = self.shortcuts.get(api_key)
        made = self[head] = Route(codec, handler, None if make is None else make(codec), self.metrics)
        return made

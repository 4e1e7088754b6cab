"""The context that all connections of a process share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol

from coordinatord.base.bounds.fair_shares import Shares
from coordinatord.base.observe.metrics import Metrics
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, TaskScheduler
from coordinatord.transport.net.limits import MAX_INCOMPLETE_BYTES, MAX_UNREAD_BYTES
from coordinatord.transport.net.response_queue import WhenDurable
from coordinatord.transport.net.write_coalescer import WriteCoalescer
from kafka_wire.errors import ErrorCode
from kafka_wire.framing import Frames
from kafka_wire.registry import Codec

Refusal = Callable[[Any, int, ErrorCode], Any]
"""(request, version, error): the response that carries the error for the whole request (getErrorResponse of Kafka's
request classes). Raises KeyError for an API without such a response.
"""


class Serving(Protocol):
    """Serves requests: router.Router."""

    def serve(self, connection: Any, frames: Frames, first: int, stop: int) -> int: ...

    def slice(self, context: Any, slices: CooperativeTask) -> None: ...

    def failed(self, connection: Any, codec: Codec) -> None: ...


class Registry(Protocol):
    """Tracks all connections: connections.Connections."""

    resuming: int
    """Number of connections whose requests wait for their turn."""

    def connected(self, connection: Any) -> None: ...

    def disconnected(self, connection: Any) -> None: ...

    def refused(self, connection: Any, kind: str, reason: str, **what: Any) -> None: ...

    def oversized(self, connection: Any, reason: str, codec: Codec) -> None: ...


@dataclass(slots=True, eq=False)
class ServerContext:
    """The context of all connections.

    `now_ms` is the daemon's clock, `call_soon` the event loop's. `hold` delays a response until its records are
    durable. `slicer` makes responses that take long. `admit`, if the listener has it, is called with each new
    connection and its transport. `clock` measures turns, in seconds. `refusal` makes the error response to a request
    whose own response would be too large; without `refusal` the connection is closed. `incomplete` counts the requests
    that have arrived in part, `unread` the responses that peers have not read in full.
    """

    router: Serving
    connections: Registry
    turn_end: WriteCoalescer
    metrics: Metrics
    max_frame_bytes: int
    now_ms: Callable[[], int]
    call_soon: Callable[..., object]
    hold: WhenDurable
    slicer: TaskScheduler
    admit: Callable[[Any, Any], object] | None = None
    clock: Callable[[], float] = perf_counter
    refusal: Refusal | None = None
    incomplete: Shares = field(default_factory=lambda: Shares(MAX_INCOMPLETE_BYTES))
    unread: Shares = field(default_factory=lambda: Shares(MAX_UNREAD_BYTES))

"""The shell in memory: a router and connections over transports that record. No sockets, no event loop.

`Wire` is one client: `send` a request message, `answers` are the decoded responses in the order they came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coordinatord.base.observe.metrics import Metrics
from coordinatord.transport.net.api_versions import ApiVersions
from coordinatord.transport.net.connection import Connection
from coordinatord.transport.net.connections import Connections
from coordinatord.transport.net.cooperative_tasks import TaskScheduler
from coordinatord.transport.net.router import Router
from coordinatord.transport.net.routes import Handler, ShortcutMaker
from coordinatord.transport.net.server_context import ServerContext
from coordinatord.transport.net.write_coalescer import WriteCoalescer
from kafka_wire import client
from kafka_wire.api_key import ApiKey
from kafka_wire.lengths import read_tags
from kafka_wire.records.batch import BatchBuilder, Records, read_header
from kafka_wire.records.key_values import key_values
from kafka_wire.registry import Codec, error_response


class Turns:
    """Replaces the loop's `call_soon`: `run` runs the turns."""

    def __init__(self) -> None:
        self.soon: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self.soon.append((callback, args))

    def run(self) -> None:
        for _ in range(10_000):
            if not self.soon:
                return
            callback, args = self.soon.popleft()
            callback(*args)
        raise AssertionError("the callbacks never end")


class Gate:
    """Replaces the log writer's `hold`: the test decides when epochs become durable."""

    def __init__(self) -> None:
        self.flushed_epoch = 0
        self.failed = False
        self.held: list[tuple[int, Callable[[], object], Callable[[], object]]] = []
        self.patience: list[bool] = []
        """Of each call, in their order."""

    def has_flushed(self, epoch: int) -> bool:
        return epoch <= self.flushed_epoch

    def hold(
        self, epoch: int, durable: Callable[[], object], failed: Callable[[], object], is_patient: bool = False
    ) -> None:
        self.patience.append(is_patient)
        if epoch <= self.flushed_epoch:
            durable()
        elif self.failed:
            failed()
        else:
            self.held.append((epoch, durable, failed))

    def flush(self, epoch: int) -> None:
        self.flushed_epoch = epoch
        ready = [entry for entry in self.held if entry[0] <= epoch]
        self.held = [entry for entry in self.held if entry[0] > epoch]
        for _, durable, _ in ready:
            durable()

    def fail(self) -> None:
        self.failed = True
        held, self.held = self.held, []
        for _, _, failed in held:
            failed()


class Transport:
    """Records what is written."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.writes = 0
        self.closed = self.aborted = False
        self.reading = True
        self.unread_bytes = 0

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 51234) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes

    def write(self, data: bytes | bytearray) -> None:
        assert not self.closed
        self.writes += 1
        self.written += data

    def writelines(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(parts))

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True


def request_frame(message: Any, version: int, correlation_id: int, client_id: str | None = "test") -> bytes:
    """A whole request frame, with its size."""
    return client.request_frame(message, version, correlation_id, client_id)


def with_behind(frame: bytes, behind: bytes) -> bytes:
    """The same request with bytes after its end, which are ignored."""
    return (int.from_bytes(frame[:4], "big") + len(behind)).to_bytes(4, "big") + frame[4:] + behind


def response_of(codec: Codec, frame: bytes) -> tuple[int, Any]:
    """Correlation id and message of a response frame without its size."""
    pos = 4
    if codec.response_header_flexible:
        _, pos = read_tags(frame, 4, len(frame))
    return int.from_bytes(frame[:4], "big", signed=True), codec.decode_response(frame, pos, len(frame))


class Wire:
    """One client's connection."""

    def __init__(self, door: ServerContext, turns: Turns) -> None:
        self.turns = turns
        self.transport = Transport()
        self.connection = Connection(door, "PLAINTEXT")
        self.connection.connection_made(self.transport)
        self.sent: dict[int, Codec] = {}
        self.next_id = 1

    def frame(self, message: Any, version: int) -> bytes:
        """The frame of a request; its response is expected from now on."""
        correlation_id, self.next_id = self.next_id, self.next_id + 1
        self.sent[correlation_id] = client.codec_of(message, version)
        return request_frame(message, version, correlation_id)

    def send(self, message: Any, version: int) -> int:
        """Send one request and run the loop. Returns the correlation id."""
        self.connection.data_received(self.frame(message, version))
        self.turns.run()
        return self.next_id - 1

    @property
    def answers(self) -> list[tuple[int, Any]]:
        """All responses so far: (correlation id, message), in order."""
        found = []
        data = bytes(self.transport.written)
        while data:
            size = int.from_bytes(data[:4], "big")
            frame, data = data[4 : 4 + size], data[4 + size :]
            correlation_id = int.from_bytes(frame[:4], "big", signed=True)
            found.append(response_of(self.sent[correlation_id], frame))
        return found


def make_door(
    handlers: dict[int, Handler],
    turns: Turns,
    gate: Gate | None = None,
    *,
    max_frame_bytes: int = 1000,
    max_connections: int = 10,
    now_ms: Callable[[], int] = lambda: 1_000_000,
    shortcuts: Mapping[int, ShortcutMaker] | None = None,
    clock: Callable[[], float] = lambda: 0.0,
) -> ServerContext:
    """A door whose loop, log and clock the test controls."""
    metrics = Metrics()
    api_versions = ApiVersions(handlers, {})
    return ServerContext(
        Router({**handlers, ApiKey.API_VERSIONS: api_versions.answer}, metrics, shortcuts),
        Connections(max_connections, now_ms, metrics),
        WriteCoalescer(turns.call_soon),
        metrics,
        max_frame_bytes,
        now_ms,
        turns.call_soon,
        (gate or Gate()).hold,
        TaskScheduler(turns.call_soon),
        clock=clock,
        refusal=error_response,
    )


def read_records(records: Records, now_ms: int = 0) -> list[tuple[bytes, bytes | None]]:
    """The (key, value) of records to be logged, read from a batch of them."""
    builder = BatchBuilder()
    records.put_into(builder, now_ms)
    assert builder.count == records.count
    batch = builder.finish()
    return [(key or b"", value) for _, _, key, value in key_values(batch, 0, read_header(batch))]

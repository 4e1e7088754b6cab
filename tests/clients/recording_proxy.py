"""A TCP proxy between a client and a broker that writes down every frame of both directions and changes none.

The broker must advertise the proxy's port, or clients would go past it after their first Metadata answer. A frame is
what follows the four bytes of its size. Responses are matched with their requests by order: a broker answers the
requests of one connection in turn (so no client may produce with acks 0 through it: that has no response).
"""

from __future__ import annotations

import asyncio
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

READ_BYTES = 1 << 16


@dataclass(slots=True)
class Frame:
    """One frame as it was on the wire, without its size. `direction` is "request" or "response". `at_s` is when it had
    been read (time.monotonic()).
    """

    api_key: int
    api_version: int
    direction: str
    data: bytes
    connection: int
    at_s: float = 0.0


@dataclass(slots=True)
class _Splitter:
    """Cuts one direction of a stream into frames."""

    buffer: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> list[bytes]:
        self.buffer += data
        frames = []
        while len(self.buffer) >= 4:
            (size,) = struct.unpack_from(">i", self.buffer)
            if len(self.buffer) < 4 + size:
                break
            frames.append(bytes(self.buffer[4 : 4 + size]))
            del self.buffer[: 4 + size]
        return frames


class RecordingProxy:
    """Runs in a thread of its own, so that clients of any kind can be driven from the test's thread."""

    def __init__(self, host: str, port: int, target_host: str, target_port: int) -> None:
        self.host, self.port = host, port
        self.target = (target_host, target_port)
        self.frames: list[Frame] = []
        #: by connection: when its client opened it, and when it was closed by whichever side
        self.opened: dict[int, float] = {}
        self.closed: dict[int, float] = {}
        self._connections = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="recording-proxy", daemon=True)
        self._ready = threading.Event()
        self._stopped = asyncio.Event()

    def __enter__(self) -> RecordingProxy:
        self._thread.start()
        assert self._ready.wait(10), "the proxy did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(10)

    def take(self) -> list[Frame]:
        """The frames recorded until now, which are forgotten."""
        taken, self.frames = self.frames, []
        return taken

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connection, self.host, self.port)
        self._ready.set()
        await self._stopped.wait()
        server.close()
        for writer in self._writers:
            writer.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait_for(asyncio.gather(*connections, return_exceptions=True), 5)

    async def _connection(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self._connections += 1
        number = self._connections
        self.opened[number] = time.monotonic()
        broker, to_broker = await asyncio.open_connection(*self.target)
        self._writers += (to_client, to_broker)
        unanswered: deque[tuple[int, int]] = deque()

        def requests(frame: bytes) -> None:
            api_key, api_version = struct.unpack_from(">hh", frame)
            unanswered.append((api_key, api_version))
            self.frames.append(Frame(api_key, api_version, "request", frame, number, time.monotonic()))

        def responses(frame: bytes) -> None:
            self.frames.append(Frame(*unanswered.popleft(), "response", frame, number, time.monotonic()))

        async def forward(
            source: asyncio.StreamReader, sink: asyncio.StreamWriter, record: Callable[[bytes], None]
        ) -> None:
            splitter = _Splitter()
            try:
                while data := await source.read(READ_BYTES):
                    for frame in splitter.feed(data):
                        record(frame)
                    sink.write(data)
                    await sink.drain()
            except ConnectionError:
                pass
            finally:
                self.closed.setdefault(number, time.monotonic())
                sink.close()

        await asyncio.gather(forward(client, to_broker, requests), forward(broker, to_client, responses))

"""A TCP proxy before a broker that changes no byte and remembers when which client sent a request of which API.

The broker must advertise the proxy's port, or clients would go past it after their first Metadata answer.

Kafka's controller acknowledges a change of metadata before its broker knows it. The proxy can hold such an answer back
until the broker does (`settle`), so that the client's next call finds what it has changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

HOST = "127.0.0.1"
READ_BYTES = 1 << 16
HEAD = struct.Struct(">ihhih")  # size, API key, version, correlation id, length of the client's id
CHANGES_METADATA = frozenset({19, 20, 30, 31, 33, 37, 38, 39, 40, 44, 45, 49, 51, 57})
"""The API keys of CreateTopics, DeleteTopics, and all others whose answers are held back."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One request; `at_s` is in seconds since 1970."""

    at_s: float
    client_id: str
    api_key: int
    api_version: int


class CountingProxy:
    """Runs in a thread of its own."""

    def __init__(self, port: int, target_port: int, *, settle: Callable[[], Awaitable[None]] | None = None) -> None:
        self.port = port
        self.settle = settle
        self.seen: list[Seen] = []
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="counting-proxy", daemon=True)
        self._ready = threading.Event()
        self._stopped = asyncio.Event()

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def __enter__(self) -> CountingProxy:
        self._thread.start()
        assert self._ready.wait(10), "the proxy did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(10)

    def between(self, client_id: str, began_s: float, ended_s: float) -> list[Seen]:
        """What a client sent in this time."""
        return [each for each in self.seen if each.client_id == client_id and began_s <= each.at_s <= ended_s]

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connection, HOST, self.port)
        self._ready.set()
        await self._stopped.wait()
        server.close()
        connections = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in connections:
            task.cancel()
        await asyncio.wait_for(asyncio.gather(*connections, return_exceptions=True), 5)

    async def _connection(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        broker, to_broker = await asyncio.open_connection(HOST, self._target_port)
        heads = Heads()
        to_settle = 0

        async def forward(source: asyncio.StreamReader, sink: asyncio.StreamWriter, heads: Heads | None) -> None:
            nonlocal to_settle
            try:
                while data := await source.read(READ_BYTES):
                    if heads is not None:
                        seen = list(heads.feed(data))
                        self.seen += seen
                        to_settle += sum(each.api_key in CHANGES_METADATA for each in seen)
                    elif to_settle and self.settle is not None:
                        to_settle = 0
                        await self.settle()
                    sink.write(data)
                    await sink.drain()
            except ConnectionError:
                pass
            finally:
                sink.close()

        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(forward(client, to_broker, heads), forward(broker, to_client, None))


class Heads:
    """Finds the head of each request in a stream of them."""

    def __init__(self) -> None:
        self._buffer = b""
        self._skip = 0

    def feed(self, data: bytes) -> Iterator[Seen]:
        now_s = time.time()
        self._buffer += data
        while True:
            skipped = min(self._skip, len(self._buffer))
            self._buffer, self._skip = self._buffer[skipped:], self._skip - skipped
            if len(self._buffer) < HEAD.size:
                return
            size, api_key, version, _, length = HEAD.unpack_from(self._buffer)
            if len(self._buffer) < HEAD.size + max(0, length):
                return
            client_id = self._buffer[HEAD.size : HEAD.size + max(0, length)].decode(errors="replace")
            self._skip = size + 4
            yield Seen(now_s, client_id, api_key, version)

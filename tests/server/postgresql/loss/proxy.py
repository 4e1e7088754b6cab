"""Between one node and PostgreSQL: passes bytes on, until it is told to cut the connections or to hold them up."""

from __future__ import annotations

import asyncio
import contextlib

from tests.daemon import HOST

CHUNK_BYTES = 65_536


class Proxy:
    """Listens on a port of its own. One event loop's thread uses it."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._flows = asyncio.Event()
        self._flows.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        """Listen; the port."""
        self._server = await asyncio.start_server(self._accepted, HOST, 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def cut(self) -> int:
        """Reset all connections; how many there were."""
        count = len(self._writers)
        for writer in list(self._writers):
            writer.transport.abort()
        return count

    def hold_up(self) -> None:
        """Pass nothing on, in either direction, and say nothing: as a network that drops packets."""
        self._flows.clear()

    def go_on(self) -> None:
        self._flows.set()

    async def close(self) -> None:
        self.go_on()
        self.cut()
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        there: asyncio.StreamWriter | None = None
        try:
            from_there, there = await asyncio.open_connection(HOST, self._target_port)
            self._writers.add(there)
            await asyncio.gather(self._pump(reader, there), self._pump(from_there, writer))
        except OSError:
            pass
        finally:
            for each in (writer, there):
                if each is not None:
                    self._writers.discard(each)
                    each.transport.abort()
            self._tasks.discard(task)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK_BYTES):
            await self._flows.wait()
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.transport.abort()
        raise ConnectionResetError("one side has closed")

"""The bare limit: the least that a Python server on uvloop can do and still answer a heartbeat.

It cuts frames out of what arrives, puts each frame's correlation id into the one answer that it knows, and writes the
answers of a read in one go. It knows no group, decodes nothing and sets no deadline: whatever a coordinator costs above
it is the coordinator. `python -m bench.limit PORT`.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from typing import Any

import uvloop

HOST = "127.0.0.1"
_size = struct.Struct(">i").unpack_from

# HeartbeatResponse v4: size, (correlation id), header's tag buffer, throttle time 0, error code 0, tag buffer.
BEFORE, AFTER = (12).to_bytes(4, "big"), bytes(8)


class Bare(asyncio.Protocol):
    """One connection."""

    transport: Any

    def __init__(self) -> None:
        self.rest = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.rest:
            data = self.rest + data
        out = bytearray()
        pos, end = 0, len(data)
        while end - pos >= 12:
            after = pos + 4 + _size(data, pos)[0]
            if after > end:
                break
            out += BEFORE + data[pos + 8 : pos + 12] + AFTER
            pos = after
        self.rest = data[pos:]
        self.transport.write(out)


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Bare, HOST, port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))

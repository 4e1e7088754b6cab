"""Connections whose answers nobody reads: a request comes on one if its answer is to be lost, and a client's own
connection becomes one if the answers that it waits for are to be lost as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coordinatord.transport.net.connection import Connection


class _Transport:
    """Takes bytes and forgets them."""

    def __init__(self, peer: tuple[str, int]) -> None:
        self._peer = peer

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._peer if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is buffered."""

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Nothing is read."""

    def resume_reading(self) -> None:
        """Nothing is read."""

    def write(self, data: bytes | bytearray) -> None:
        """Lost."""

    def writelines(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        """Lost."""

    def close(self) -> None:
        """Nothing is open."""

    def abort(self) -> None:
        """Nothing is open."""


def mute(connection: Connection) -> None:
    """What is not on its way yet never goes out, and the client may still be heard."""
    connection.line.flush()
    host, _colon, port = connection.peer.rpartition(":")
    connection.line.opened(_Transport((host, int(port) if port.isdigit() else 0)))


class Nowhere:
    """The connections of this kind that wait for an answer."""

    def __init__(self) -> None:
        self._waiting: list[Connection] = []

    def like(self, connection: Connection) -> Connection:
        """A connection of the same client, from the same address."""
        self.forget_answered()
        host, _colon, port = connection.peer.rpartition(":")
        made = Connection(connection.door, connection.listener)
        made.connection_made(_Transport((host, int(port) if port.isdigit() else 0)))
        made.client_id, made.client_id_bytes = connection.client_id, connection.client_id_bytes
        made.last_active_ms = connection.last_active_ms
        self._waiting.append(made)
        return made

    def forget_answered(self, *, all_of_them: bool = False) -> None:
        """Close those that wait for no answer."""
        waiting = []
        for each in self._waiting:
            if each.line.is_awaited and not all_of_them:
                waiting.append(each)
            else:
                each.close()
                each.connection_lost(None)
        self._waiting = waiting

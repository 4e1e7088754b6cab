"""Connections that discard their responses. A request is served on such a connection if its response is to be lost; a
client's own connection becomes one if the responses that it waits for are to be lost as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coordinatord.transport.net.connection import Connection


class _Transport:
    """A transport that discards all bytes."""

    def __init__(self, peer: tuple[str, int]) -> None:
        self._peer = peer

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._peer if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: there is no buffer."""

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Do nothing: there is no input."""

    def resume_reading(self) -> None:
        """Do nothing: there is no input."""

    def write(self, data: bytes | bytearray) -> None:
        """Discard the bytes."""

    def writelines(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        """Discard the bytes."""

    def close(self) -> None:
        """Do nothing: there is no socket."""

    def abort(self) -> None:
        """Do nothing: there is no socket."""


def mute(connection: Connection) -> None:
    """Send the responses that are already due, then discard all later ones. Requests from the client are still read."""
    connection.line.flush()
    host, _colon, port = connection.peer.rpartition(":")
    connection.line.opened(_Transport((host, int(port) if port.isdigit() else 0)))


class Nowhere:
    """The connections of this kind that still wait for a response."""

    def __init__(self) -> None:
        self._waiting: list[Connection] = []

    def like(self, connection: Connection) -> Connection:
        """Return a connection of the same client, from the same address."""
        self.forget_answered()
        host, _colon, port = connection.peer.rpartition(":")
        made = Connection(connection.door, connection.listener)
        made.connection_made(_Transport((host, int(port) if port.isdigit() else 0)))
        made.client_id, made.client_id_bytes = connection.client_id, connection.client_id_bytes
        made.last_active_ms = connection.last_active_ms
        self._waiting.append(made)
        return made

    def forget_answered(self, *, all_of_them: bool = False) -> None:
        """Close the connections that wait for no response."""
        waiting = []
        for each in self._waiting:
            if each.line.is_awaited and not all_of_them:
                waiting.append(each)
            else:
                each.close()
                each.connection_lost(None)
        self._waiting = waiting

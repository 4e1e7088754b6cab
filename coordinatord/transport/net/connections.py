"""All connections: their limit, the idle ones, and unsent responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from coordinatord.base.observe.logger import get_logger
from coordinatord.base.observe.metrics import Metrics
from coordinatord.transport.net.connection import Connection
from kafka_wire.registry import Codec

log = get_logger("coordinatord.transport.net")

ROOM = 0.9
"""There is room again when no more than this share of the allowed connections is open. A number of connections that
varies around the limit does not write a log line each time.
"""


class Addresses(Protocol):
    """Limits of single addresses: server/access/addresses.py."""

    def limit(self, most: int, overrides: Mapping[str, int], rate: int) -> None: ...

    def connected(self, connection: Connection) -> bool: ...

    def disconnected(self, connection: Connection) -> None: ...


class Connections:
    """All connections of this process. `max_connections` is max.connections, or fewer (descriptors.py)."""

    def __init__(self, max_connections: int, now_ms: Callable[[], int], metrics: Metrics) -> None:
        self.max_connections = max_connections
        self.now_ms = now_ms
        self.metrics = metrics
        #: in the order in which they were accepted, so that what is done to all is done in the same order in each run
        self.open: dict[Connection, None] = {}
        #: number of connections whose requests wait for their turn
        self.resuming = 0
        self._accepted = 0
        #: limits of single addresses, if there are any
        self.addresses: Addresses | None = None
        #: true if a log line about too many connections was written
        self._is_full = False

    def __len__(self) -> int:
        return len(self.open)

    def connected(self, connection: Connection) -> None:
        """Add a connection. A connection over the limit is closed; one log line reports all of them until there is room
        again.
        """
        connection.last_active_ms = self.now_ms()
        self.open[connection] = None
        self.metrics.connections_accepted += 1
        is_allowed = self.addresses is None or self.addresses.connected(connection)
        if len(self.open) > self.max_connections or not is_allowed:
            self._too_many(connection)

    def disconnected(self, connection: Connection) -> None:
        """Remove a connection that has ended."""
        self.open.pop(connection, None)
        if self.addresses is not None:
            self.addresses.disconnected(connection)
        if self._is_full and len(self.open) <= self.max_connections * ROOM:
            self._is_full = False
        self.metrics.connections_closed[connection.closed_for] += 1
        if connection.session is not None:
            connection.session.lost()

    def turned_away(self, peer: str) -> None:
        """Count a client that was rejected because there are too many connections."""
        self.metrics.rejected["limit"] += 1
        if not self._is_full:
            self._is_full = True
            log.warning("new connections are refused", peer=peer, max_connections=self.max_connections)

    def _too_many(self, connection: Connection) -> None:
        self.turned_away(connection.peer)
        connection.closed_for = "malformed"
        connection.close()

    def refused(self, connection: Connection, kind: str, reason: str, **what: Any) -> None:
        """Log that a connection is being closed because of what its peer sent."""
        self.metrics.rejected[kind] += 1
        log.warning("connection closed", peer=connection.peer, client_id=connection.client_id, reason=reason, **what)

    def oversized(self, connection: Connection, reason: str, codec: Codec) -> None:
        """Log that a request gets an error response, since its response would be too large."""
        self.metrics.rejected["oversized"] += 1
        log.warning(
            "a response is too large", peer=connection.peer, client_id=connection.client_id, reason=reason,
            api=codec.name, version=codec.api_version,
        )  # fmt: skip

    def refused_early(self, kind: str, **what: Any) -> None:
        """Count a client that was rejected before it became a connection."""
        self.metrics.rejected[kind] += 1
        log.warning("connection closed", **what)

    def is_behind(self) -> bool:
        """Return True if received requests may be unserved although the loop has just read: requests wait for their
        turn, or clients have connected since the last call. New clients may have sent requests at once, and further
        clients may wait behind them: uvloop accepts one connection per turn.
        """
        before, self._accepted = self._accepted, self.metrics.connections_accepted
        return self.resuming > 0 or self._accepted > before

    def close_idle(self, max_idle_ms: int) -> int:
        """Close connections silent for longer than `max_idle_ms` (connections.max.idle.ms). Returns the number of
        closed connections.
        """
        oldest = self.now_ms() - max_idle_ms
        idle = [each for each in self.open if each.last_active_ms < oldest and not each.line.is_awaited]
        for connection in idle:
            log.info("idle connection closed", peer=connection.peer, client_id=connection.client_id)
            connection.closed_for = "idle"
            connection.close()
        return len(idle)

    @property
    def has_unsent(self) -> bool:
        """True if any client has not received all of its responses."""
        return any(connection.line.has_unsent for connection in self.open)

"""Limits of the number of connections from one address, and of the rate of new connections (KIP-402, KIP-612).

A connection beyond an address's number is closed at once. If an address connects faster than its quota, the connection
is closed at the time when it would have been within the quota; until then nothing is read from it. Connections beyond
`max.connection.creation.rate` are served later. Kafka's acceptor does the same, except that it accepts later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from coordinatord.server.access.quotas import Quotas
from coordinatord.server.access.rates import Rate
from coordinatord.server.access.rules import host_of
from coordinatord.server.access.throttling import Alarm
from coordinatord.transport.net.connection import Connection

UNLIMITED: Final = 2**31 - 1
"""Value of a limit that is not set."""


class Addresses:
    """The limits; called for each connection."""

    def __init__(
        self,
        quotas: Quotas,
        now_ms: Callable[[], int],
        alarm: Callable[[int, Callable[[], object]], Alarm],
        meter: Rate,
    ) -> None:
        self._quotas = quotas
        self._now_ms = now_ms
        self._alarm = alarm
        self._most = UNLIMITED
        self._overrides: Mapping[str, int] = {}
        self._rate = 0
        self._meter = meter
        self.open: dict[str, int] = {}

    def limit(self, most: int, overrides: Mapping[str, int], rate: int) -> None:
        """Set the limits for later connections. `most` applies to addresses that `overrides` does not contain; `rate`
        is the limit for all addresses together, per second, or UNLIMITED.
        """
        self._most, self._overrides, self._rate = most, overrides, 0 if rate == UNLIMITED else rate

    def connected(self, connection: Connection) -> bool:
        """Return whether the connection may stay; it may be muted, or closed later."""
        address = _address(connection)
        if not address:
            return True  # a worker, by its Unix socket
        count = self.open[address] = self.open.get(address, 0) + 1
        if count > self._overrides.get(address, self._most):
            return False
        now_ms = self._now_ms()
        throttle_ms = self._quotas.connected(host_of(address), now_ms)
        if throttle_ms:
            self._quotas.not_connected(host_of(address), now_ms)
            connection.mute(self._alarm(now_ms + throttle_ms, connection.close))
            return True
        if self._rate > 0:
            self._meter.record(1, now_ms)
            throttle_ms = self._meter.throttle_ms(self._rate, now_ms)
            if throttle_ms:
                connection.mute(self._alarm(now_ms + throttle_ms, connection.unmute))
        return True

    def disconnected(self, connection: Connection) -> None:
        """Count the end of a connection."""
        address = _address(connection)
        left = self.open.get(address, 0) - 1
        if left > 0:
            self.open[address] = left
        else:
            self.open.pop(address, None)


def _address(connection: Connection) -> str:
    address = connection.client_host.removeprefix("/")
    return "" if address in ("", "unknown") else address

"""Choice of a node for requests to any node: Kafka's leastLoadedNode, reconnect back-off, and re-bootstrapping.

A connection's key is a node id and a bool, which is True for the coordinator's connection. A node that is the
coordinator has two connections, one for requests to the coordinator and one for data, so that a heartbeat does not wait
behind a parked Fetch. (Kafka's client gives the coordinator the node id `Integer.MAX_VALUE - id` instead.) Bootstrap
servers have the ids -1, -2 …, as in Kafka, until the first metadata replace them.

| of the nodes known now                             | the chosen one                                    |
|----------------------------------------------------|---------------------------------------------------|
| some have a connection that is ready               | the one with the fewest requests in flight        |
| none, but a connection is being opened             | that one                                          |
| none, but some are not in their back-off           | the one whose last attempt was the longest ago    |
| all are in their back-off                          | none: begin again with the bootstrap servers      |

Among equal nodes, the choice is random. The last row is `metadata.recovery.strategy=rebootstrap` (KIP-899), the default
since Kafka 4.0. A client also returns to them if no metadata have arrived for
`metadata.recovery.rebootstrap.trigger.ms`, or if a broker responds with REBOOTSTRAP_REQUIRED (both KIP-1102).

No clock and no I/O: time and random numbers are passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from coordinatord.testing.member.timer import Backoff

Address = tuple[str, int]
"""Host and port."""

Connection = tuple[int, bool]
"""Node id; True for the connection to the coordinator, False for the one for data."""


class State(Enum):
    """Kafka's ConnectionState, with the states that are needed here."""

    CONNECTING = auto()  # being opened, or waiting for the response to ApiVersions
    READY = auto()
    DISCONNECTED = auto()


@dataclass(slots=True)
class Link:
    """State of one connection: Kafka's NodeConnectionState and InFlightRequests."""

    state: State = State.DISCONNECTED
    in_flight: int = 0
    failures: int = 0  # since the connection was last ready
    last_attempt_ms: int = 0
    retry_at_ms: int = 0


class Nodes:
    """All known nodes and their connections; see the module's docstring. `random` returns a number
    from 0 to below 1.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        random: Callable[[], float],
        *,
        reconnect_backoff_ms: int = 50,
        reconnect_backoff_max_ms: int = 1_000,
        rebootstraps: bool = True,
        rebootstrap_trigger_ms: int = 300_000,
    ) -> None:
        self._bootstrap = {-1 - n: address for n, address in enumerate(bootstrap)}
        self._random = random
        self._backoff = Backoff(reconnect_backoff_ms, reconnect_backoff_max_ms, random)
        self._rebootstraps = rebootstraps
        self._trigger_ms = rebootstrap_trigger_ms
        self._wants_metadata_since_ms: int | None = None
        self._links: dict[Connection, Link] = {}
        self.known: Mapping[int, Address] = self._bootstrap

    def address(self, node_id: int) -> Address | None:
        """Return the address of a known node or a bootstrap server, None for any other id."""
        return self.known.get(node_id) or self._bootstrap.get(node_id)

    @property
    def is_bootstrapping(self) -> bool:
        """True if only the bootstrap servers are known."""
        return self.known is self._bootstrap

    # Known nodes

    def replace_nodes(self, nodes: Mapping[int, Address]) -> None:
        """Replace the known nodes with those of new metadata. Connections stay."""
        self._wants_metadata_since_ms = None
        self.known = nodes
        gone = [each for each in self._links if each[0] >= 0 and not each[1] and each[0] not in nodes]
        for connection in gone:
            if self._links[connection].state is State.DISCONNECTED:
                del self._links[connection]

    def rebootstrap(self) -> None:
        """Begin again with the bootstrap servers, until the next metadata."""
        self.known = self._bootstrap

    # Choice of a node

    def choose(self, now_ms: int) -> int | None:
        """Return the least loaded node. If there is none, return to the bootstrap servers and choose among them; return
        None if they are in their back-off, too.
        """
        chosen = self.least_loaded(now_ms)
        if chosen is None and self._rebootstraps and not self.is_bootstrapping:
            self.rebootstrap()
            chosen = self.least_loaded(now_ms)
        return chosen

    def choose_for_metadata(self, now_ms: int) -> int | None:
        """Return the node for a metadata request, as `choose` does. If the first of the requests since the last
        metadata was too long ago, return to the bootstrap servers first.
        """
        if self._wants_metadata_since_ms is None:
            self._wants_metadata_since_ms = now_ms
        elif self._rebootstraps and now_ms - self._wants_metadata_since_ms > self._trigger_ms:
            self._wants_metadata_since_ms = now_ms
            self.rebootstrap()
        return self.choose(now_ms)

    def least_loaded(self, now_ms: int) -> int | None:
        """Return the node of the first row of the table that applies; None for the last row."""
        order = list(self.known)
        first = int(self._random() * len(order))
        links = [(self._links.get((node_id, False), Link()), node_id) for node_id in order[first:] + order[:first]]
        ready = [(link.in_flight, node_id) for link, node_id in links if link.state is State.READY]
        if ready:
            return min(ready, key=lambda each: each[0])[1]
        connecting = [node_id for link, node_id in links if link.state is State.CONNECTING]
        if connecting:
            return connecting[0]
        free = [(link.last_attempt_ms, node_id) for link, node_id in links if now_ms >= link.retry_at_ms]
        return min(free, key=lambda each: each[0])[1] if free else None

    def delay_ms(self, connection: Connection, now_ms: int) -> int:
        """Return the rest of a connection's back-off in milliseconds. The caller must not open it earlier."""
        link = self._links.get(connection)
        if link is None or link.state is not State.DISCONNECTED:
            return 0
        return max(0, link.retry_at_ms - now_ms)

    # Events of connections

    def connecting(self, connection: Connection, now_ms: int) -> None:
        """Note that the connection is being opened."""
        link = self._link(connection)
        link.state, link.last_attempt_ms, link.in_flight = State.CONNECTING, now_ms, 0

    def ready(self, connection: Connection) -> None:
        """Note that the connection is ready for requests, and reset the node's failures."""
        link = self._link(connection)
        link.state, link.failures = State.READY, 0

    def count_request(self, connection: Connection) -> None:
        """Count a request that was sent on the connection."""
        self._link(connection).in_flight += 1

    def answered(self, connection: Connection) -> None:
        """Count the response to a request, or its failure."""
        link = self._link(connection)
        link.in_flight = max(0, link.in_flight - 1)

    def lost(self, connection: Connection, now_ms: int) -> None:
        """Note that the connection could not be opened, or has broken. Each failure makes the next back-off longer."""
        link = self._link(connection)
        link.state, link.in_flight, link.last_attempt_ms = State.DISCONNECTED, 0, now_ms
        link.retry_at_ms = now_ms + self._backoff.after_ms(link.failures)
        link.failures += 1

    def hung_up(self, connection: Connection) -> None:
        """Forget a connection that we have closed: no back-off is needed. (Kafka's client backs off here, too.)"""
        self._links.pop(connection, None)

    def _link(self, connection: Connection) -> Link:
        return self._links.setdefault(connection, Link())

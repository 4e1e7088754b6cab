"""The network of the simulated world: connections that carry bytes both ways, late, in order, and sometimes not at all.

A `Cable` is one TCP connection. What is written on it arrives in order, after a latency that is drawn anew for each
write; other connections overtake it. A path between two hosts can be cut: nothing arrives until it is mended, then all
of it does, as TCP sends again; whoever gives up meanwhile closes his end, and the other end may learn of that late or
never (half-open). A process that dies closes its connections; a machine that loses its power closes nothing, and who
writes to it after it has come back is told so then.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from coordinatord.testing.simulation.engine import Engine

TO_NODE, FROM_NODE = 0, 1

SPLIT = 0.02
"""How often a write arrives in two pieces."""

NEVER_TOLD = 0.3
"""How often the closing of a connection over a path that is cut is never heard of at the other end."""

Say = Callable[[str, str], None]


class Server(Protocol):
    """The end at a node."""

    name: str

    def is_up(self) -> bool: ...

    def soon(self, call: Callable[..., object], *args: Any) -> None:
        """On the node's loop, when it has a turn."""

    def when_it_reads(self, call: Callable[..., object], *args: Any) -> None:
        """The same, when it looks at its sockets."""

    def accept(self, cable: Cable) -> Any:
        """A connection.Connection for it."""

    backlog: list[Cable]
    listens: bool
    holds_sockets: bool


class Client(Protocol):
    """The end at a member's process."""

    name: str

    def soon(self, call: Callable[..., object], *args: Any) -> None: ...


class Path:
    """Between two hosts. `cut` holds up everything, both ways."""

    def __init__(self, latency_ms: float) -> None:
        self.latency_ms = latency_ms
        self.is_cut = False
        self.disturbed_ms = 0  # when it was last mended; from far ahead while it is cut
        self.stalled_until_ms = 0  # one of its connections is
        self.cables: set[Cable] = set()


class Network:
    """All paths, by the two ends' names."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.random = engine.chance("network")
        self.paths: dict[tuple[str, str], Path] = {}
        self.count = 0

    def path(self, client: str, server: str) -> Path:
        found = self.paths.get((client, server))
        if found is None:
            latency_ms = self.random.choice((0.3, 1.0, 1.0, 5.0, 40.0))
            found = self.paths[client, server] = Path(latency_ms)
        return found

    def cut(self, path: Path) -> None:
        """From now on nothing arrives."""
        path.is_cut = True
        path.disturbed_ms = 1 << 62

    def mend(self, path: Path) -> None:
        """What was held up arrives now."""
        path.is_cut = False
        path.disturbed_ms = max(self.engine.now_ms, path.stalled_until_ms)
        for cable in sorted(path.cables, key=lambda each: each.number):
            cable.go_on()

    def connect(self, client: Client, server: Server, wire: Any) -> Cable:
        self.count += 1
        return Cable(self, self.count, self.path(client.name, server.name), client, server, wire)


class Cable:
    """One connection. `wire` is the client's protocol; the server's is made when the node accepts."""

    def __init__(self, network: Network, number: int, path: Path, client: Client, server: Server, wire: Any) -> None:
        self.engine = network.engine
        self.random: random.Random = network.random
        self.number = number
        self.path = path
        self.client = client
        self.server = server
        self.wire = wire
        self.connection: Any = None
        self.life = 0  # of the node that has accepted it
        self.client_open = True
        self.server_open = True
        self.told: list[Any] = [[], []]  # by direction: nothing more will arrive
        self._arrived_ms = [0, 0]
        self._waiting: tuple[deque[tuple[Any, Any]], deque[tuple[Any, Any]]] = (deque(), deque())
        self._inbox: deque[Any] = deque()
        self.stalled = False
        self.reading = True
        self.unread: deque[Any] = deque()
        self.on_arrived: Callable[[Cable, Any], None] | None = None  # in the node's socket
        self.on_delivered: Callable[[Cable, Any], None] | None = None
        self.on_over: Callable[[Cable], None] | None = None
        self.sends: list[Any] = []  # commits that were written to it
        path.cables.add(self)
        self.engine.at(self.engine.now_ms + self._latency_ms(), self._knock)

    def _latency_ms(self) -> int:
        chance = self.random
        usual = self.path.latency_ms * (0.8 + 0.4 * chance.random())
        return int(usual * 20 if chance.random() < 0.002 else usual) + 1

    # Connecting

    def _knock(self) -> None:
        """The client's SYN is at the node's machine."""
        if not self.client_open:
            return
        server = self.server
        if self.path.is_cut or self.stalled:
            self._waiting[TO_NODE].append((self._knock, None))
        elif server.listens:
            self.accepted()
        elif server.holds_sockets:
            server.backlog.append(self)
        elif server.is_up():
            self._end_client()
        else:
            self.engine.at(self.engine.now_ms + 1_000, self._knock)  # the machine is off: nobody says so

    def accepted(self) -> None:
        """The node's loop takes it up."""
        self.server.when_it_reads(self._accept)

    def _accept(self) -> None:
        if not self.client_open:
            return
        self.connection = self.server.accept(self)
        self.connection.connection_made(ServerEnd(self))
        self.engine.at(self.engine.now_ms + self._latency_ms(), self.client.soon, self._connected)

    def _connected(self) -> None:
        if self.client_open:
            self.wire.connection_made(ClientEnd(self))

    # Carrying

    def send(self, direction: int, data: Any, meta: Any = None) -> None:
        """Bytes, or None: this end has been closed."""
        if data is not None and len(data) > 1 and self.random.random() < SPLIT:
            middle = self.random.randrange(1, len(data))
            self._carry(direction, data[:middle], None)
            data = data[middle:]
        self._carry(direction, data, meta)

    def _carry(self, direction: int, data: Any, meta: Any) -> None:
        when_ms = max(self.engine.now_ms + self._latency_ms(), self._arrived_ms[direction])
        self._arrived_ms[direction] = when_ms
        self.engine.at(when_ms, self._arrive, direction, data, meta)

    def _arrive(self, direction: int, data: Any, meta: Any) -> None:
        if self.path.is_cut or self.stalled or self._waiting[direction]:
            self._waiting[direction].append((data, meta))
        elif direction == TO_NODE:
            self._at_node(data, meta)
        else:
            self._at_client(data)

    def stall(self, for_ms: int) -> None:
        """A packet was lost, and those that repeat it: nothing arrives for a while, on this connection alone."""
        self.stalled = True
        path = self.path
        path.stalled_until_ms = max(path.stalled_until_ms, self.engine.now_ms + for_ms)
        path.disturbed_ms = max(path.disturbed_ms, path.stalled_until_ms)
        self.engine.at(self.engine.now_ms + for_ms, self._flow)

    def _flow(self) -> None:
        self.stalled = False
        if not self.path.is_cut:
            self.go_on()

    def go_on(self) -> None:
        """The path is mended."""
        if self.stalled:
            return
        for direction in (TO_NODE, FROM_NODE):
            waiting = self._waiting[direction]
            while waiting:
                data, meta = waiting.popleft()
                if callable(data):
                    data()
                elif direction == TO_NODE:
                    self._at_node(data, meta)
                else:
                    self._at_client(data)

    def _at_node(self, data: Any, meta: Any) -> None:
        if not self.server_open or self.connection is None:
            if data is not None and self.connection is not None and self.server.is_up():
                self._end_client()  # a reset: whoever was there is there no more
            return
        if data is None:
            self.server.when_it_reads(self._hung_up)
        else:
            if meta is not None and self.on_arrived is not None:
                self.on_arrived(self, meta)
            self.server.when_it_reads(self._deliver, data, meta)

    def _deliver(self, data: bytes, meta: Any) -> None:
        if not self.server_open:
            return
        if not self.reading:
            self.unread.append((data, meta))
            return
        self.connection.data_received(data)
        if meta is not None and self.on_delivered is not None:
            self.on_delivered(self, meta)

    def read_on(self) -> None:
        self.reading = True
        while self.reading and self.unread and self.server_open:
            self._deliver(*self.unread.popleft())

    def _hung_up(self) -> None:
        if self.server_open:
            self._server_closed()
            self.connection.connection_lost(None)

    def _at_client(self, data: Any) -> None:
        if self.client_open:
            self._inbox.append(data)
            self.client.soon(self._read)

    def _read(self) -> None:
        while self._inbox and self.client_open:
            data = self._inbox.popleft()
            if data is None:
                self._end_client()
            else:
                self.wire.data_received(data)

    # Ending

    def client_closes(self) -> None:
        """The client hangs up; the node may hear of it late, or never."""
        if not self.client_open:
            return
        self.client_open = False
        if self.path.is_cut:
            if self.random.random() < NEVER_TOLD:
                self._waiting[TO_NODE].clear()
                self._over_if_unheard()
                return
            keep = self.random.randint(0, len(self._waiting[TO_NODE]))
            while len(self._waiting[TO_NODE]) > keep:
                self._waiting[TO_NODE].pop()
        self._carry(TO_NODE, None, None)

    def _over_if_unheard(self) -> None:
        """Nothing that was under way to the node arrives any more, though it believes in the connection."""
        if self.on_over is not None:
            self.on_over(self)

    def _server_closed(self) -> None:
        self.server_open = False
        self.path.cables.discard(self) if not self.client_open else None
        if self.on_over is not None:
            self.on_over(self)

    def server_closes(self) -> None:
        """The node hangs up; what it has sent arrives before that."""
        if self.server_open:
            self._server_closed()
            self.send(FROM_NODE, None)

    def node_died(self, told: bool) -> None:
        """Its process was killed (the kernel tells the client), or its machine went off (nobody does)."""
        if self.server_open:
            self._server_closed()
            self.connection = self.connection or object()
            self._waiting[TO_NODE].clear()
            if told:
                self.send(FROM_NODE, None)

    def _end_client(self) -> None:
        if self.client_open:
            self.client.soon(self._lost)

    def _lost(self) -> None:
        if self.client_open:
            self.client_open = False
            self.path.cables.discard(self)
            if self.server_open and self.connection is None and self.on_over is not None:
                self.on_over(self)
            self.wire.connection_lost(None)


class ClientEnd(asyncio.Transport):
    """What the member's wire writes into."""

    def __init__(self, cable: Cable) -> None:
        self.cable = cable
        self.meta: Any = None

    def write(self, data: Any) -> None:
        if self.cable.client_open:
            meta, self.meta = self.meta, None
            self.cable.send(TO_NODE, bytes(data), meta)

    def abort(self) -> None:
        cable = self.cable
        if cable.client_open:
            cable.client_closes()
            cable.wire.connection_lost(None)

    close = abort


class ServerEnd:
    """What the node's connection writes into."""

    def __init__(self, cable: Cable) -> None:
        self.cable = cable
        self._closing = False

    def get_extra_info(self, _name: str) -> tuple[str, int]:
        return ("127.0.0.1", self.cable.number % 60_000 + 1_024)

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.cable.reading = False

    def resume_reading(self) -> None:
        self.cable.reading = True
        self.cable.server.when_it_reads(self.cable.read_on)

    def write(self, data: Any) -> None:
        if self.cable.server_open:
            self.cable.connection.leaves(data)
            self.cable.send(FROM_NODE, bytes(data))

    def close(self) -> None:
        """As asyncio does it: the protocol hears of it in the loop's next turn."""
        if not self._closing:
            self._closing = True
            self.cable.server.soon(self._closed)

    def _closed(self) -> None:
        if self.cable.server_open:
            self.cable.server_closes()
            self.cable.connection.connection_lost(None)

"""Connections of a client: sends each request to its node, enforces its timeout, and reports its result.

Each `Send` ends in one event: `Received`, `Failed` or `Unsupported`. nodes.py has the rules for the choice of nodes and
for back-offs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from coordinatord.testing.member.events import Failed, Received, Unsupported
from coordinatord.testing.member.nodes import Address, Connection, Nodes
from coordinatord.testing.member.send import ANY_NODE, Send
from coordinatord.testing.member.state import Member
from coordinatord.testing.member.wire import NoCommonVersion, Wire
from kafka_wire.api.metadata import MetadataRequest
from kafka_wire.errors import ErrorCode


class Connections:
    """Connections to all nodes. `tell` is called with the events, never from within `send`."""

    def __init__(
        self,
        member: Member,
        bootstrap: list[Address],
        client_id: str,
        random: Callable[[], float],
        tell: Callable[[Received | Failed | Unsupported], None],
    ) -> None:
        settings = member.settings
        self.nodes = Nodes(
            bootstrap,
            random,
            reconnect_backoff_ms=settings.reconnect_backoff_ms,
            reconnect_backoff_max_ms=settings.reconnect_backoff_max_ms,
            rebootstraps=settings.metadata_recovery_strategy == "rebootstrap",
            rebootstrap_trigger_ms=settings.metadata_recovery_rebootstrap_trigger_ms,
        )
        self._member = member
        self._client_id = client_id
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._cluster = member.cluster
        self._wires: dict[Connection, Wire] = {}
        self._connecting: set[asyncio.Task[None]] = set()
        self._sent: dict[Send, tuple[Connection | None, asyncio.TimerHandle]] = {}

    def now_ms(self) -> int:
        """Return the time of the event loop's clock in milliseconds."""
        return int(self._loop.time() * 1000)

    def send(self, send: Send) -> None:
        """Send a request, or fail it later if no node is available now."""
        now_ms = self.now_ms()
        connection, address = self._where(send, now_ms)
        expires = self._loop.call_later(send.timeout_ms / 1000, self._timed_out, send)
        self._sent[send] = (connection, expires)
        if connection is None or address is None:
            self._loop.call_soon(self._answered, send, None)
            return
        wire = self._wires.get(connection)
        if wire is None and self.nodes.delay_ms(connection, now_ms):
            self._answered(send, None)
            return
        self.nodes.count_request(connection)
        if wire is None:
            wire = self._connect(connection, address, now_ms)
        wire.ask(send, send.request)

    def hang_up_on_coordinator(self) -> None:
        """Close the coordinator's connection."""
        for connection, wire in list(self._wires.items()):
            if connection[1]:
                del self._wires[connection]
                self.nodes.hung_up(connection)
                wire.close()

    def close(self) -> None:
        """Close all connections; `tell` is not called any more."""
        for _, expires in self._sent.values():
            expires.cancel()
        self._sent.clear()
        for wire in list(self._wires.values()):
            wire.close()
        for task in self._connecting:
            task.cancel()

    def _where(self, send: Send, now_ms: int) -> tuple[Connection | None, Address | None]:
        nodes, cluster = self.nodes, self._member.cluster
        if cluster is not self._cluster:
            self._cluster = cluster
            nodes.replace_nodes(cluster.nodes)
            self._close_bootstrap()
        if send.group:
            return (send.to, True), self._member.coordinator_address
        if send.to != ANY_NODE:
            return (send.to, False), cluster.nodes.get(send.to)
        of_metadata = isinstance(send.request, MetadataRequest)
        chosen = nodes.choose_for_metadata(now_ms) if of_metadata else nodes.choose(now_ms)
        return (None, None) if chosen is None else ((chosen, False), nodes.address(chosen))

    def _close_bootstrap(self) -> None:
        """Close bootstrap connections once the nodes are known by their ids; Kafka's client lets these connections
        become idle.
        """
        if self.nodes.is_bootstrapping:
            return
        for connection, wire in list(self._wires.items()):
            if connection[0] < 0 and not any(to == connection for to, _ in self._sent.values()):
                del self._wires[connection]
                self.nodes.hung_up(connection)
                wire.close()

    def _connect(self, connection: Connection, address: Address, now_ms: int) -> Wire:
        wire = Wire(self._client_id, self._answered, self._lost, self._ready)
        self._wires[connection] = wire
        self.nodes.connecting(connection, now_ms)
        timeout_s = self._member.settings.socket_connection_setup_timeout_ms / 1000
        task = self._loop.create_task(wire.connect(*address, timeout_s))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        return wire

    def _answered(self, send: Send, response: Any) -> None:
        found = self._sent.pop(send, None)
        if found is None:
            return
        connection, expires = found
        expires.cancel()
        if connection is not None:
            self.nodes.answered(connection)
            if connection[0] < 0:
                self._close_bootstrap()
        if isinstance(response, NoCommonVersion):
            self._loop.call_soon(self._tell, Unsupported(send, str(response)))  # the sending step may still run
        elif response is not None:
            if isinstance(send.request, MetadataRequest) and response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
                self.nodes.rebootstrap()
            self._tell(Received(send, response))
        elif not send.abandoned:
            # Without a delay, a node that rejects connections would get requests in a tight loop. Any other node is
            # available at once.
            delay_ms = (
                0 if connection is None or send.to == ANY_NODE else self.nodes.delay_ms(connection, self.now_ms())
            )
            self._loop.call_later(delay_ms / 1000, self._tell, Failed(send))

    def _timed_out(self, send: Send) -> None:
        """Close the connection of a request that has timed out, as Kafka does."""
        connection, _ = self._sent[send]
        wire = None if connection is None else self._wires.get(connection)
        if wire is not None:
            wire.close()
        self._answered(send, None)  # if the connection was closed already

    def _ready(self, wire: Wire) -> None:
        for connection, known in self._wires.items():
            if known is wire:
                self.nodes.ready(connection)

    def _lost(self, wire: Wire) -> None:
        for connection, known in list(self._wires.items()):
            if known is wire:
                del self._wires[connection]
                self.nodes.lost(connection, self.now_ms())

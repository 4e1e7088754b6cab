"""Which node owns which partition, and where clients reach it.

There is one node, which owns everything. What asks goes through here all the same, so that several can share the
partitions later.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """A node as Metadata shows it to clients of one listener."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class Nodes:
    """The nodes, by listener: a client is told the address that belongs to the listener it came in by."""

    def __init__(self, node_id: int, rack: str | None = None) -> None:
        self.node_id = node_id
        self.rack = rack
        self._addresses: dict[str, tuple[str, int]] = {}

    def advertise(self, listener: str, host: str, port: int) -> None:
        """Clients of `listener` are to connect to host:port."""
        self._addresses[listener] = (host, port)

    def alive(self, listener: str) -> list[Node]:
        """The nodes that clients of `listener` may connect to."""
        host, port = self._addresses[listener]
        return [Node(self.node_id, host, port, self.rack)]

    def owner(self, partition: int, listener: str) -> tuple[int, str, int]:
        """Node id, host and port of the owner of a partition of a coordinator's topic."""
        host, port = self._addresses[listener]
        return self.node_id, host, port

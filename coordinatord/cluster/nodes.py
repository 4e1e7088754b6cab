"""Which node leads which partition, and where clients reach it. One process is one node; `--workers N` makes N of them.

A node leads partition p of a topic when (CRC-32 of the topic's name + p) mod N is its number; of the coordinators' own
topics, whose names begin with two underscores, when p mod N is. That needs no table and nobody's consent, every node
knows it of all partitions, and another N at the next start moves no file. Group and transaction coordinators are the
leaders of the partitions that their groups and ids live in, as in Kafka. So clients find their node by Metadata and
FindCoordinator; one that comes to the wrong node hears NOT_LEADER_OR_FOLLOWER or NOT_COORDINATOR. No client's request
is passed on to another node.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from zlib import crc32

OWN_PREFIX = "__"
"""Partitions of the same number of `__consumer_offsets`, `__rebalances` and so on are on one node: what is told of a
group is where the group is.
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A node as Metadata shows it to clients of one listener."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class Nodes:
    """The nodes, by listener: a client is told the addresses that belong to the listener it came in by."""

    def __init__(self, node_id: int, rack: str | None = None, *, worker: int = 0, workers: int = 1) -> None:
        """`node_id` is this node's, worker `worker` of `workers`; theirs are numbered through."""
        self.node_id = node_id
        self.worker = worker
        self.workers = workers
        self.rack = rack
        self._addresses: dict[str, list[tuple[str, int]]] = {}

    @property
    def controller_id(self) -> int:
        """The first node. All of them do what clients ask of a controller, as Kafka's brokers do; clients want one."""
        return self.node_id - self.worker

    def advertise(self, listener: str, *addresses: tuple[str, int]) -> None:
        """Clients of `listener` are to connect to these (host, port): one of each worker."""
        assert len(addresses) == self.workers
        self._addresses[listener] = list(addresses)

    def alive(self, listener: str) -> list[Node]:
        """The nodes that clients of `listener` may connect to."""
        first_id = self.controller_id
        addresses = self._addresses[listener]
        return [Node(first_id + worker, host, port, self.rack) for worker, (host, port) in enumerate(addresses)]

    def worker_of(self, topic: str, partition: int) -> int:
        """The number of the worker that leads a partition."""
        first = 0 if topic.startswith(OWN_PREFIX) else crc32(topic.encode())
        return (first + partition) % self.workers

    def leader_of(self, topic: str, partition: int) -> int:
        """The id of the node that leads a partition."""
        return self.controller_id + self.worker_of(topic, partition)

    def owns(self, topic: str, partition: int) -> bool:
        """Whether that is this node."""
        return self.worker_of(topic, partition) == self.worker

    def coordinator(self, topic: str, partition: int, listener: str) -> tuple[int, str, int]:
        """Node id, host and port of the leader of a partition of a coordinators' topic."""
        worker = self.worker_of(topic, partition)
        host, port = self._addresses[listener][worker]
        return self.controller_id + worker, host, port

    def select(self, node_ids: Collection[int], listener: str) -> list[Node]:
        """Those of the nodes."""
        return [node for node in self.alive(listener) if node.node_id in node_ids]

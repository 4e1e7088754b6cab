"""Leaders of partitions, and the nodes' addresses for clients. One process is one node; `--workers N` starts N.

Node number n leads partition p of a topic when (CRC-32 of the topic's name + p) mod N = n; of the coordinators' own
topics, whose names begin with two underscores, when p mod N = n. This needs no table and no agreement: every node can
compute the leader of any partition, and a different N at the next start moves no file. As in Kafka, the coordinator of
a group or transactional id is the leader of its partition. So clients find their node with Metadata and
FindCoordinator; a request to the wrong node gets NOT_LEADER_OR_FOLLOWER or NOT_COORDINATOR. No request of a client is
forwarded to another node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from zlib import crc32

if TYPE_CHECKING:  # only tests move partitions
    from coordinatord.transport.cluster.moved_partitions import MovedPartitions

OWN_PREFIX = "__"
"""Prefix of the coordinators' own topics. Partitions of the same number of these topics are on the same node, so a
group's ledger records are on the group's node.
"""

MOVABLE: Final = ("__consumer_offsets", "__rebalances")
"""Topics of groups whose partitions tests can move to another node, always the same number of each."""


def share_of(topic: str, partition: int, shares: int) -> int:
    """Return the number of the share, of `shares`, that a partition belongs to."""
    first = 0 if topic.startswith(OWN_PREFIX) else crc32(topic.encode())
    return (first + partition) % shares


@dataclass(frozen=True, slots=True)
class Node:
    """A node as Metadata shows it to clients of one listener."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class Nodes:
    """The nodes, by listener: a client gets the addresses that belong to the listener of its connection."""

    def __init__(
        self,
        node_id: int,
        rack: str | None = None,
        *,
        worker: int = 0,
        workers: int = 1,
        placed: MovedPartitions | None = None,
    ) -> None:
        """`node_id` is this node's, worker `worker` of `workers`; the workers have consecutive ids. `placed`:
        partitions that tests have moved.
        """
        self.node_id = node_id
        self.worker = worker
        self.workers = workers
        self.rack = rack
        self.placed = placed
        self._addresses: dict[str, list[tuple[str, int]]] = {}
        self.others: Callable[[str], list[Node]] | None = None
        """Nodes of other machines, by listener: they lead nothing now, and refer clients to the leaders."""

    @property
    def controller_id(self) -> int:
        """Id of the first node. Like Kafka's brokers, every node serves controller requests; clients expect a single
        id.
        """
        return self.node_id - self.worker

    def advertise(self, listener: str, *addresses: tuple[str, int]) -> None:
        """Set the (host, port) that clients of `listener` connect to, one per worker."""
        assert len(addresses) == self.workers
        self._addresses[listener] = list(addresses)

    @property
    def own_addresses(self) -> dict[str, tuple[str, int]]:
        """This node's address for clients, by listener."""
        return {listener: addresses[self.worker] for listener, addresses in self._addresses.items()}

    def alive(self, listener: str) -> list[Node]:
        """Return the nodes that clients of `listener` may connect to."""
        first_id = self.controller_id
        addresses = self._addresses[listener]
        nodes = [Node(first_id + worker, host, port, self.rack) for worker, (host, port) in enumerate(addresses)]
        return nodes if self.others is None else nodes + self.others(listener)

    def worker_of(self, topic: str, partition: int) -> int:
        """Return the number of the worker that leads a partition."""
        if self.placed is not None and topic in MOVABLE:
            moved_to = self.placed.leader(partition)
            if moved_to is not None:
                return moved_to
        return share_of(topic, partition, self.workers)

    def leads(self, node_id: int) -> bool:
        """Return whether the node with this id leads partitions."""
        return self.controller_id <= node_id < self.controller_id + self.workers

    def leader_of(self, topic: str, partition: int) -> int:
        """Return the id of the node that leads a partition."""
        return self.controller_id + self.worker_of(topic, partition)

    def epoch_of(self, topic: str, partition: int) -> int | None:
        """Return the leader epoch of a partition that another node leads; None if this node's data directory has it."""
        return None

    def owns(self, topic: str, partition: int) -> bool:
        """Return whether this node leads the partition."""
        return self.worker_of(topic, partition) == self.worker

    def coordinator(self, topic: str, partition: int, listener: str) -> tuple[int, str, int]:
        """Return (node id, host, port) of the leader of a partition of a coordinators' topic; the id is -1
        without one.
        """
        worker = self.worker_of(topic, partition)
        host, port = self._addresses[listener][worker]
        return self.controller_id + worker, host, port

    def select(self, node_ids: Collection[int], listener: str) -> list[Node]:
        """Return the nodes with these ids."""
        return [node for node in self.alive(listener) if node.node_id in node_ids]

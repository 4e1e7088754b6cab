"""Nodes of several machines that lead at once: each has a *seat*, a share of the partitions, while it runs.

A partition's seat is fixed as a worker's partitions are (nodes.py). The holder of a seat changes: a table lists the
holders, as they were when the registry of nodes was last read. The table decides nothing: a node that does not lead a
partition rejects requests for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coordinatord.transport.cluster.nodes import Node, Nodes

NOBODY = -1
NO_NODE = (NOBODY, "", -1)


class Holder(NamedTuple):
    """A node that has a seat. `addresses`: (host, port) by listener. `term`: higher than those of all holders
    before.
    """

    node_id: int
    addresses: Mapping[str, tuple[str, int]]
    term: int = 0


class SeatedNodes(Nodes):
    """This node and the others, by seat. `worker` is this node's seat, once it has one, `workers` the number of seats.
    Owned by the event loop's thread.
    """

    def __init__(self, node_id: int, rack: str | None, seats: int) -> None:
        super().__init__(node_id, rack, workers=seats)
        self._holders: dict[int, Holder] = {}
        self.epoch_of_term_0 = 0
        """The leader epoch in term 0. A leader epoch is this plus the term: it must exceed the epochs of earlier
        leaders.
        """

    def take(self, seat: int) -> None:
        """Make a seat this node's, for as long as the node runs."""
        self.worker = seat

    def seat(self, holders: Mapping[int, Holder]) -> bool:
        """Adopt the registry's content. Returns whether a seat has another holder than before, or the same one in a new
        term.
        """
        before = self._leaders
        self._holders = {seat: holder for seat, holder in holders.items() if seat != self.worker}
        return before != self._leaders

    @property
    def _leaders(self) -> dict[int, tuple[int, int]]:
        """(node id, term) of each seat that another node has."""
        return {seat: (holder.node_id, holder.term) for seat, holder in self._holders.items()}

    def _id(self, seat: int) -> int:
        if seat == self.worker:
            return self.node_id
        holder = self._holders.get(seat)
        return NOBODY if holder is None else holder.node_id

    @property
    def controller_id(self) -> int:
        """Id of the node with the first seat."""
        return self._id(0)

    def advertise(self, listener: str, *addresses: tuple[str, int]) -> None:
        """Set the (host, port) of this node, for clients of `listener`."""
        self._addresses[listener] = list(addresses)

    @property
    def own_addresses(self) -> dict[str, tuple[str, int]]:
        """This node's address for clients, by listener."""
        return {listener: addresses[0] for listener, addresses in self._addresses.items()}

    def alive(self, listener: str) -> list[Node]:
        """Return the nodes that clients of `listener` may connect to."""
        own = Node(self.node_id, *self._addresses[listener][0], self.rack)
        return [own] if self.others is None else [own, *self.others(listener)]

    def leads(self, node_id: int) -> bool:
        """Return whether the node with this id has a seat."""
        return node_id != NOBODY and any(self._id(seat) == node_id for seat in range(self.workers))

    def leader_of(self, topic: str, partition: int) -> int:
        """Return the id of the node that leads a partition; -1 without a leader."""
        return self._id(self.worker_of(topic, partition))

    def epoch_of(self, topic: str, partition: int) -> int | None:
        """Return the leader epoch of a partition that another node leads (`Nodes.epoch_of`); 0 without a leader."""
        holder = self._holders.get(self.worker_of(topic, partition))
        return 0 if holder is None else holder.term + self.epoch_of_term_0

    def coordinator(self, topic: str, partition: int, listener: str) -> tuple[int, str, int]:
        """Return (node id, host, port) of the leader of a partition of a coordinators' topic; the id is -1
        without one.
        """
        seat = self.worker_of(topic, partition)
        address = self.address(seat, listener)
        return NO_NODE if address is None else (self._id(seat), *address)

    def address(self, seat: int, listener: str) -> tuple[str, int] | None:
        """Return (host, port) of the node that has a seat; None if the seat is free, or the node has no such
        listener.
        """
        if seat == self.worker:
            return self._addresses[listener][0]
        holder = self._holders.get(seat)
        return None if holder is None else holder.addresses.get(listener)

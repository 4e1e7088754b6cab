"""The nodes of a cluster as one process sees them, and its connections to the others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coordinatord.base.config import Settings
from coordinatord.server.daemon.storage import Storage
from coordinatord.transport.cluster.nodes import Nodes

if TYPE_CHECKING:  # of several processes
    from coordinatord.coordination.transactions.markers import PartitionMarkers
    from coordinatord.coordination.transactions.remote_transactions import SpreadMarkers
    from coordinatord.server.daemon.worker import WorkerConfig
    from coordinatord.transport.cluster.peers import Peers, SeatPeers


def nodes_and_peers(
    settings: Settings, part: WorkerConfig | None, loop: asyncio.AbstractEventLoop
) -> tuple[Nodes, Peers | SeatPeers | None]:
    """Return the nodes, and the connections to the others. A single process has itself alone; a worker has the other
    workers; a node that leads a share of the partitions gets the others later.
    """
    node_id, rack = settings.node_id, settings.broker_rack
    if part is not None:
        from coordinatord.transport.cluster.peers import Peers

        nodes = Nodes(node_id, rack, worker=part.worker, workers=part.workers, placed=part.placed)
        return nodes, Peers(part.peer_paths, loop)
    if settings.storage_leaders > 1:
        from coordinatord.base.config.rules import between_nodes
        from coordinatord.transport.cluster.partition_slots import SeatedNodes
        from coordinatord.transport.cluster.peers import SeatPeers

        seated = SeatedNodes(node_id, rack, settings.storage_leaders)
        return seated, SeatPeers(seated, between_nodes(settings), loop)
    return Nodes(node_id, rack), None


def spread(here: PartitionMarkers, nodes: Nodes, peers: Peers | SeatPeers, storage: Storage) -> SpreadMarkers:
    """Return the writer of markers to partitions of all nodes. Where another node may take over this node's
    coordinators, their markers carry the term of this node's lease.
    """
    from coordinatord.coordination.transactions.remote_transactions import SpreadMarkers
    from coordinatord.transport.cluster.peers import SeatPeers

    if not isinstance(peers, SeatPeers):
        return SpreadMarkers(here, nodes, peers)
    from coordinatord.server.postgresql.node import PostgresStorage

    assert isinstance(storage, PostgresStorage), "config allows no other"
    standing = storage.standing
    peers.may_ask = lambda: standing.holds
    return SpreadMarkers(here, nodes, peers, storage.lease.term)

"""Workers with transactions, and the requests between them (posting.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coordinatord.broker.topics.names import OFFSETS_TOPIC, TRANSACTION_TOPIC
from coordinatord.broker.topics.partition_verification import TransactionCoordinator
from coordinatord.coordination.transactions.coordinator import RETRY_MS, MarkerWriter
from coordinatord.coordination.transactions.remote_transactions import SpreadMarkers, SpreadTransactions
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.cluster.partitioner import partition_for
from tests.coordination.transactions.world import World
from tests.server.workers.posting import PostingWorkers, PostingWorld


class TransactionalWorld(PostingWorld, World):
    """One worker."""

    def marker_writer(self, nodes: Nodes) -> MarkerWriter:
        return SpreadMarkers(self.markers, nodes, self.peers)

    def participants(self, nodes: Nodes) -> TransactionCoordinator:
        return SpreadTransactions(self.transactions, nodes, self.peers)


class Cluster(PostingWorkers[TransactionalWorld]):
    """All workers. Clients' requests go to the worker that leads what they are about, as clients find it."""

    def __init__(self, count: int, directory: Path, seed: int = 0, **settings: Any) -> None:
        settings.setdefault("transaction_state_log_num_partitions", 4)
        settings.setdefault("offsets_topic_num_partitions", 4)
        super().__init__(count, directory, TransactionalWorld, seed, **settings)

    # Who leads what

    def of_id(self, transactional_id: str) -> TransactionalWorld:
        return self.of_partition(TRANSACTION_TOPIC, partition_for(transactional_id, 4))

    def of_group(self, group: str) -> TransactionalWorld:
        return self.of_partition(OFFSETS_TOPIC, partition_for(group, 4))

    def finish(self) -> None:
        """Until nothing is left to be tried again either."""
        for _ in range(4):
            self.settle()
            self.pass_time(RETRY_MS)
        self.settle()

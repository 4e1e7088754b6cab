"""Transactions that span nodes: requests to other nodes' partitions and coordinators, as between Kafka's brokers.

The coordinator of an id is the node that leads its partition of `__transaction_state`. It sends markers for partitions
on other nodes with WriteTxnMarkers; those nodes send AddPartitionsToTxn before they accept a transactional batch. While
a node does not respond, markers are retried, and producers get a retriable error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from coordinatord.base.observe.logger import get_logger
from coordinatord.broker.topics.names import TRANSACTION_TOPIC
from coordinatord.broker.topics.partition_verification import Errors, Participation
from coordinatord.coordination.transactions.coordinator import Transactions
from coordinatord.coordination.transactions.markers import RETRIED, MarkersDone, PartitionMarkers
from coordinatord.coordination.transactions.result import Markers
from coordinatord.coordination.transactions.state import TopicPartition
from coordinatord.transport.cluster.nodes import Nodes
from kafka_wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafka_wire.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafka_wire.errors import ErrorCode

ADD_PARTITIONS_VERSION = 5
WRITE_MARKERS_VERSION = 2
"""Versions of AddPartitionsToTxn and WriteTxnMarkers between nodes."""

NO_EPOCH = -1
"""The coordinator epoch of this node's own coordinator, higher than any other. Clients cannot send it."""

WITHOUT_LEAD = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""Errors of a node of another machine for every request while it has no lease, or cannot reach its database."""

log = get_logger("coordinatord.coordination.transactions")


class Peers(Protocol):
    """A client for requests to other nodes."""

    def ask(self, worker: int, api_version: int, request: Any, answered: Callable[[Any], object]) -> None: ...


class SpreadMarkers:
    """Writer of markers to partitions on any node."""

    def __init__(self, here: PartitionMarkers, nodes: Nodes, peers: Peers, coordinator_epoch: int = NO_EPOCH) -> None:
        """`coordinator_epoch` rises whenever another node takes over this node's ids: partitions then reject a late
        marker from the previous coordinator, as it may belong to an earlier transaction. Workers need none: a process
        that has died sends nothing.
        """
        self.here = here
        self.nodes = nodes
        self.peers = peers
        self._coordinator_epoch = coordinator_epoch

    def write(self, markers: Markers, done: MarkersDone) -> None:
        """Like PartitionMarkers.write, but `done` may be called later: when each node has responded or failed."""
        by_worker: dict[int, list[TopicPartition]] = {}
        for partition in markers.partitions:
            by_worker.setdefault(self.nodes.worker_of(*partition), []).append(partition)
        local = tuple(by_worker.pop(self.nodes.worker, ()))
        awaited = len(by_worker) + 1
        last_epoch = 0
        left: list[TopicPartition] = []

        def answered(epoch: int, more: Sequence[TopicPartition]) -> None:
            nonlocal awaited, last_epoch
            awaited -= 1
            last_epoch = max(last_epoch, epoch)
            left.extend(more)
            if not awaited:
                done(last_epoch, tuple(left))

        for worker, partitions in by_worker.items():
            self._send(worker, markers, partitions, answered)
        self.here.write(dataclasses.replace(markers, partitions=local), answered)

    def _send(
        self,
        worker: int,
        markers: Markers,
        partitions: list[TopicPartition],
        answered: Callable[[int, Sequence[TopicPartition]], object],
    ) -> None:
        topics = [WritableTxnMarkerTopic(topic, indexes) for topic, indexes in _by_topic(partitions).items()]
        marker = WritableTxnMarker(
            markers.producer_id,
            markers.producer_epoch,
            markers.committed,
            topics,
            self._coordinator_epoch,
            markers.transaction_version,
        )

        def received(response: WriteTxnMarkersResponse | None) -> None:
            answered(0, partitions if response is None else _unwritten(response, markers))

        self.peers.ask(worker, WRITE_MARKERS_VERSION, WriteTxnMarkersRequest([marker]), received)


class SpreadTransactions:
    """Client of an id's coordinator, on any node, for the check whether partitions are part of a transaction."""

    def __init__(self, here: Transactions, nodes: Nodes, peers: Peers) -> None:
        self.here = here
        self.nodes = nodes
        self.peers = peers

    def participation(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> Participation:
        """Like Transactions.participation; the result has `ask` if another node must be queried."""
        here = self.here
        worker = self.nodes.worker
        if transactional_id and here.partitions.exist():
            worker = self.nodes.worker_of(TRANSACTION_TOPIC, here.partitions.of(transactional_id))
        if worker == self.nodes.worker:
            return here.participation(transactional_id, producer_id, producer_epoch, partitions, add=add)
        topics = [AddPartitionsToTxnTopic(topic, indexes) for topic, indexes in _by_topic(partitions).items()]
        asked = AddPartitionsToTxnTransaction(transactional_id, producer_id, producer_epoch, not add, topics)
        request = AddPartitionsToTxnRequest([asked])

        def ask(answered: Callable[[Errors], object]) -> None:
            self.peers.ask(
                worker, ADD_PARTITIONS_VERSION, request, lambda response: answered(_errors(response, partitions))
            )

        return Participation({}, 0, ask)


def _by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    return by_topic


def _unwritten(response: WriteTxnMarkersResponse, markers: Markers) -> list[TopicPartition]:
    """Return the partitions whose markers must be retried. As for this node's own partitions, any other error means
    that no marker is needed.
    """
    unwritten = []
    for marker in response.markers:
        for topic in marker.topics:
            for result in topic.partitions:
                error = ErrorCode(result.error_code)
                if error in RETRIED or error in WITHOUT_LEAD:
                    unwritten.append((topic.name, result.partition_index))
                elif error not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                    log.warning(
                        "a transaction marker was refused",
                        partition=f"{topic.name}-{result.partition_index}",
                        error=error.name,
                        producer_id=markers.producer_id,
                    )
    return unwritten


def _errors(response: AddPartitionsToTxnResponse | None, partitions: Sequence[TopicPartition]) -> Errors:
    """Return the errors of partitions that are not in the transaction;
    of all partitions if the node did not respond.
    """
    if response is None or response.error_code or not response.results_by_transaction:
        return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return {
        (topic.name, result.partition_index): ErrorCode(result.partition_error_code)
        for topic in response.results_by_transaction[0].topic_results
        for result in topic.results_by_partition
        if result.partition_error_code
    }

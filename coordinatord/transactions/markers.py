"""Commit and abort markers: into the partitions of topics, and for groups' offsets into their group coordinator's.

A marker for `__consumer_offsets` is written to the partition, and then all groups there that have offsets pending from
the producer take them or forget them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import structlog

from coordinatord.topics.markers import Marker, TransactionalAppends
from coordinatord.topics.names import OFFSETS_TOPIC
from coordinatord.transactions.result import Markers
from coordinatord.transactions.state import TopicPartition
from kafka_wire.errors import ErrorCode

log = structlog.get_logger("coordinatord.transactions")

RETRIED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})


MarkersDone = Callable[[int, tuple[TopicPartition, ...]], object]


class Groups(Protocol):
    """What is asked of the group coordinator."""

    def availability(self, partition: int) -> ErrorCode: ...

    def end_transaction(self, partition: int, producer_id: int, *, committed: bool, epoch: int) -> None: ...


class PartitionMarkers:
    """Writes markers."""

    def __init__(self, appends: TransactionalAppends, groups: Groups) -> None:
        self.appends = appends
        self.groups = groups

    def write(self, markers: Markers, done: MarkersDone) -> None:
        """Our own coordinator's markers. `done` is told the log's epoch that makes them durable, and the partitions
        that could not be written to now.

        A partition that is gone needs none, nor does one where the producer id has a newer epoch already: nothing of
        this transaction can come there any more. (Kafka leaves a transaction open for ever then.)
        """
        epoch = 0
        left = []
        marker = Marker(markers.producer_id, markers.producer_epoch, markers.committed, markers.transaction_version)
        for partition in markers.partitions:
            written = self.write_one(partition, marker)
            if not isinstance(written, ErrorCode):
                epoch = max(epoch, written)
            elif written in RETRIED:
                left.append(partition)
            elif written is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                log.warning(
                    "a transaction marker was refused",
                    partition="-".join(map(str, partition)),
                    error=written.name,
                    marker=marker,
                )
        done(epoch, tuple(left))

    def write_one(self, partition: TopicPartition, marker: Marker) -> int | ErrorCode:
        """The log's epoch, or the error that WriteTxnMarkers has for it."""
        topic, index = partition
        found = self.appends.find(topic, index)
        if found is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not found.is_here:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if topic == OFFSETS_TOPIC and self.groups.availability(index) is not ErrorCode.NONE:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        written = self.appends.append_marker(found, marker)
        if topic == OFFSETS_TOPIC and not isinstance(written, ErrorCode):
            self.groups.end_transaction(index, marker.producer_id, committed=marker.committed, epoch=written)
        return written

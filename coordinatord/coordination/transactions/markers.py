"""The writer of commit and abort markers to partitions of topics; it also applies them to groups' pending offsets.

A marker for `__consumer_offsets` is written to the partition; then all its groups with pending offsets of the producer
commit or drop them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Protocol

from coordinatord.base.budget import SLICE_COSTLY_ITEMS
from coordinatord.base.observe.logger import get_logger
from coordinatord.broker.log.errors import LogFailed
from coordinatord.broker.topics.markers import Marker, TransactionalAppends
from coordinatord.broker.topics.names import OFFSETS_TOPIC
from coordinatord.coordination.transactions.result import Markers
from coordinatord.coordination.transactions.state import TopicPartition
from kafka_wire.errors import ErrorCode

log = get_logger("coordinatord.coordination.transactions")

RETRIED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})


MarkersDone = Callable[[int, tuple[TopicPartition, ...]], object]


class Groups(Protocol):
    """The group coordinator, as markers use it."""

    def availability(self, partition: int) -> ErrorCode: ...

    def end_transaction(self, partition: int, producer_id: int, *, committed: bool, epoch: int) -> None: ...


class PartitionMarkers:
    """Writer of markers to this node's partitions."""

    def __init__(
        self, appends: TransactionalAppends, groups: Groups, call_soon: Callable[[Callable[[], None]], object]
    ) -> None:
        """`call_soon` is the event loop's."""
        self.appends = appends
        self.groups = groups
        self._call_soon = call_soon
        self._unfinished: deque[Iterator[None]] = deque()

    def write(self, markers: Markers, done: MarkersDone) -> None:
        """Write this node's own coordinator's markers. `done` is called with the flush epoch that makes them durable,
        and the partitions that cannot be written now: at once, or later if there are many. Raises LogFailed, unless
        writing continues later.

        A deleted partition needs no marker, nor does one where the producer id has a newer producer epoch already:
        nothing more of this transaction can be written there. (Kafka leaves the transaction open for ever then.)
        """
        writing = self._writing(markers, done)
        if len(markers.partitions) <= SLICE_COSTLY_ITEMS:
            for _ in writing:
                """Few enough to write them all in this turn."""
            return
        self._unfinished.append(writing)
        if len(self._unfinished) == 1:
            self._call_soon(self._turn)

    def _turn(self) -> None:
        """Write some markers of the next transaction in the queue."""
        writing = self._unfinished[0]
        try:
            with suppress(LogFailed):  # the next start writes them
                next(writing)
                self._unfinished.append(writing)
        except StopIteration:
            """All are written."""
        finally:
            self._unfinished.popleft()
            if self._unfinished:
                self._call_soon(self._turn)

    def _writing(self, markers: Markers, done: MarkersDone) -> Iterator[None]:
        epoch = 0
        left = []
        marker = Marker(markers.producer_id, markers.producer_epoch, markers.committed, markers.transaction_version)
        for number, partition in enumerate(markers.partitions, 1):
            if number % SLICE_COSTLY_ITEMS == 0:
                yield
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
        """Write one marker. Return the flush epoch of the log, or the error for WriteTxnMarkers."""
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

"""Transaction markers in partitions. A marker ends a transaction; it is a control batch, which consumers skip.

The outcome of a transaction is decided elsewhere (`coordinatord.coordination.transactions`, or the sender of a
WriteTxnMarkers request); this module only decides whether the partition accepts the marker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from coordinatord.broker.log.errors import LogFailed
from coordinatord.broker.log.loader import ReplayedBatch
from coordinatord.broker.log.writer import LogWriter
from coordinatord.broker.topics.catalogue import Catalogue
from coordinatord.broker.topics.names import INTERNAL
from coordinatord.broker.topics.partition import Partition
from coordinatord.broker.topics.producers import Producers
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import TRANSACTIONAL, BatchBuilder, Records, build_control_batch, read_header
from kafka_wire.records.control import ControlType, read_end_marker


@dataclass(frozen=True, slots=True)
class Marker:
    """Content of a marker. `coordinator_epoch` is None for a marker from this node's own transaction coordinator: such
    a marker gets the latest coordinator epoch in the partition's producer state, so it is never fenced.
    """

    producer_id: int
    producer_epoch: int
    committed: bool
    transaction_version: int = 0
    coordinator_epoch: int | None = None


class TransactionalAppends:
    """Transactional appends that do not come from producers: markers and a group's offsets."""

    def __init__(self, catalogue: Catalogue, writer: LogWriter, now_ms: Callable[[], int]) -> None:
        self.catalogue = catalogue
        self.writer = writer
        self.now_ms = now_ms

    def find(self, topic: str, index: int) -> Partition | None:
        """Return the partition, or None if it does not exist."""
        return self.catalogue.partition(topic, index)

    def watch(self, partition: Partition, batches: Iterable[ReplayedBatch]) -> Iterator[ReplayedBatch]:
        """Yield the batches of a partition that is being loaded, and rebuild its producer state from them, so that the
        log is read only once.
        """
        producers = Producers(partition.log.log_start_offset)
        aborted = []
        header = None
        for batch in batches:
            header = batch.header
            if header.producer_id < 0:
                yield batch
                continue
            marker = read_end_marker(*batch.records[0][2:]) if batch.control is not None and batch.records else None
            if marker is None:
                producers.replay(header)
            else:
                is_abort = marker[0] is ControlType.ABORT
                found = producers.marked(header, header.base_offset, aborted=is_abort, coordinator_epoch=marker[1])
                if found is not None:
                    aborted.append(found)
            yield batch
        if header is not None:
            producers.end_offset = header.next_offset
        partition.loaded(producers, aborted)

    def append_marker(self, partition: Partition, marker: Marker) -> int | ErrorCode:
        """Append a marker. Return the flush epoch that makes the marker durable, or the error for a rejected marker."""
        producers = partition.producers
        coordinator_epoch = marker.coordinator_epoch
        if coordinator_epoch is None:
            known = producers.get(marker.producer_id)
            coordinator_epoch = max(0, known.coordinator_epoch) if known is not None else 0
        refused = producers.check_marker(
            marker.producer_id, marker.producer_epoch, coordinator_epoch, marker.transaction_version
        )
        if refused is not None:
            return refused.error
        control_type = ControlType.COMMIT if marker.committed else ControlType.ABORT
        batch = build_control_batch(
            control_type, marker.producer_id, marker.producer_epoch, coordinator_epoch, self.now_ms()
        )
        header = read_header(batch)
        written = self._append(partition, batch, may_wait=partition.log.topic not in INTERNAL)
        if isinstance(written, ErrorCode):
            return written
        offset, epoch = written
        partition.marked(header, offset, aborted=not marker.committed, coordinator_epoch=coordinator_epoch)
        return epoch

    def append_records(
        self, partition: Partition, records: Records, now_ms: int, producer_id: int, producer_epoch: int
    ) -> int:
        """Append one transactional batch without sequence numbers, as a group coordinator writes offsets. The caller
        has checked the producer epoch. Returns the flush epoch that makes the batch durable. Raises LogFailed.
        """
        builder = BatchBuilder()
        records.put_into(builder, now_ms)
        batch = builder.finish(
            attributes=TRANSACTIONAL, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=0
        )
        header = read_header(batch)
        offset, epoch = self.writer.append(partition.log, batch)
        partition.last_epoch = epoch
        partition.appended(header, offset)
        return epoch

    def _append(self, partition: Partition, batch: bytearray, *, may_wait: bool) -> tuple[int, int] | ErrorCode:
        if partition.log.deleted:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            offset, epoch = self.writer.append(partition.log, batch, may_wait=may_wait)
        except LogFailed:
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition.last_epoch = epoch
        return offset, epoch

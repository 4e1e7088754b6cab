"""A placeholder for the log of a partition that another process writes."""

from __future__ import annotations

from coordinatord.broker.log.partition_log import OnNewSegment, PartitionLog
from kafka_wire.records.batch import BatchHeader, Records


class AbsentLog(PartitionLog):
    """An empty log that rejects appends: even if a handler does not check, only one process writes a partition."""

    __slots__ = ()

    def append(
        self, batch: bytearray, header: BatchHeader | None = None, on_new_segment: OnNewSegment | None = None
    ) -> int:
        raise AssertionError(f"{self.name} is another process's")

    def append_records(self, records: Records, timestamp_ms: int) -> None:
        raise AssertionError(f"{self.name} is another process's")

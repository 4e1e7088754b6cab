"""A placeholder for the log of a partition that another process writes."""

from __future__ import annotations

from collections.abc import Callable

from coordinatord.log.partition_log import PartitionLog
from kafka_wire.records.batch import Records


class AbsentLog(PartitionLog):
    """An empty log that refuses appends: even if a handler does not check, only one process writes a partition."""

    __slots__ = ()

    def append(self, batch: bytearray, on_new_segment: Callable[[PartitionLog], object] | None = None) -> int:
        raise AssertionError(f"{self.name} is another process's")

    def append_records(self, records: Records, timestamp_ms: int) -> None:
        raise AssertionError(f"{self.name} is another process's")

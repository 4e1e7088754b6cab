"""What stands for the log of a partition that another process writes."""

from __future__ import annotations

from coordinatord.log.partition_log import PartitionLog
from kafka_wire.records.batch import Records


class AbsentLog(PartitionLog):
    """Empty to those who look. That each partition is written by one process does not rest on every handler's asking
    first: nothing can be appended here.
    """

    __slots__ = ()

    def append(self, batch: bytearray) -> int:
        raise AssertionError(f"{self.name} is another process's")

    def append_records(self, records: Records, timestamp_ms: int) -> None:
        raise AssertionError(f"{self.name} is another process's")

"""One topic partition's log. (Interface; the body follows.)"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from coordinatord.log.config import LogConfig
from protocol.records.batch import BatchHeader


@dataclass(slots=True, frozen=True)
class TimestampOffset:
    timestamp: int
    offset: int


class PartitionLog:
    topic: str
    partition: int
    topic_id: bytes  # 16 raw bytes
    config: LogConfig  # may be replaced at any time
    leader_epoch: int  # always 0: a single replica
    log_start_offset: int
    end_offset: int  # next offset to be assigned
    high_watermark: int  # readers see offsets below this: durable, or with flush never/interval written

    @property
    def size_bytes(self) -> int: ...

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> bytes:
        """Whole batches from the one that holds `offset`, up to `max_bytes`, below the high watermark; the first batch even if it is
        larger when `at_least_one`. b"" at the high watermark or above up to end_offset. OffsetOutOfRange outside log_start_offset..end_offset."""
        ...

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """The earliest visible record whose timestamp is >= timestamp_ms."""
        ...

    def max_timestamp(self) -> TimestampOffset | None:
        """The visible record with the greatest timestamp (the first of equals)."""
        ...

    def batches(self, from_offset: int) -> Iterator[BatchHeader]:
        """Headers of the visible batches from the one that holds from_offset: no record is decoded (producer state after a restart)."""
        ...

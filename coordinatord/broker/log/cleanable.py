"""Cleanable part of a log and the time to clean it: Kafka's LogCleanerManager, without its state."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from coordinatord.broker.log.config import LONG_MAX
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.segment import Segment
from kafka_wire.records.batch import HEADER, HEADER_BYTES, BatchHeader


@dataclass(slots=True, frozen=True)
class LogToClean:
    """Cleanable state of one log. Offsets have the meanings of those in `cleaning.Job`; bytes are those of whole
    segments.
    """

    log: PartitionLog
    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    cleanable_bytes: int
    #: milliseconds by which max.compaction.lag.ms is exceeded
    delay_ms: int

    @property
    def ratio(self) -> float:
        """Ratio of cleanable bytes to clean and cleanable bytes (Kafka's dirty ratio)."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def due(self) -> bool:
        """True if the log should be cleaned now."""
        if self.delay_ms and self.cleanable_bytes:
            return True
        return self.ratio > self.log.config.min_cleanable_dirty_ratio


def assess(log: PartitionLog, cleaned_to: int, first_unstable: int, now_ms: int) -> LogToClean:
    """Assess one log. `cleaned_to` is the checkpoint's offset; `first_unstable` is the first offset of the log's first
    open transaction, or the log's end.

    Whole segments are cleanable, up to the first that is active, not completely in its file, undecided, or too young
    (min.compaction.lag.ms).
    """
    if not log.log_start_offset <= cleaned_to <= log.end_offset:
        cleaned_to = log.log_start_offset
    limit = min(first_unstable, log.high_watermark)
    too_young_ms = now_ms - log.config.min_compaction_lag_ms
    clean_bytes = cleanable_bytes = 0
    dirty: list[Segment] = []
    first_uncleanable = log.segments[0].base_offset if log.segments else 0
    for segment, successor in pairwise(log.segments):
        if segment.visible_bytes < segment.size or not successor.on_disk or limit < successor.base_offset:
            break
        if successor.base_offset <= cleaned_to:
            clean_bytes += segment.size
        else:
            if log.config.min_compaction_lag_ms > 0 and segment.max_timestamp > too_young_ms:
                break
            if segment.base_offset < cleaned_to:
                clean_bytes += segment.size
            cleanable_bytes += segment.size
            dirty.append(segment)
        first_uncleanable = successor.base_offset
    return LogToClean(log, cleaned_to, first_uncleanable, clean_bytes, cleanable_bytes, _delay_ms(log, dirty, now_ms))


def _delay_ms(log: PartitionLog, dirty: list[Segment], now_ms: int) -> int:
    if log.config.max_compaction_lag_ms >= LONG_MAX:
        return 0
    times = (_first_timestamp(log, segment) for segment in dirty)
    earliest = min((each for each in times if each > 0), default=now_ms)
    return max(now_ms - log.config.max_compaction_lag_ms - earliest, 0)


def _first_timestamp(log: PartitionLog, segment: Segment) -> int:
    """Return the timestamp of a segment's first batch, which is read only once."""
    if segment.first_timestamp is None:
        file = log.disk.open(segment.log_path)
        try:
            segment.first_timestamp = BatchHeader._make(HEADER.unpack(file.pread(HEADER_BYTES, 0))).max_timestamp
        finally:
            file.close()
    return segment.first_timestamp


def roll_is_due(log: PartitionLog, now_ms: int) -> bool:
    """Return whether the active segment of a log without appends is older than segment.ms (or max.compaction.lag.ms).
    Kafka checks the age only on an append, so that it never compacts a topic without appends; users who set segment.ms
    expect it to.
    """
    if not log.segments:
        return False
    active = log.segments[-1]
    first = active.first_timestamp
    return bool(active.size) and first is not None and 0 <= first < now_ms - log.config.roll_ms

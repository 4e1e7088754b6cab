"""Settings of one topic's logs, under Kafka's names with Kafka's defaults (dots become underscores)."""

from __future__ import annotations

from dataclasses import dataclass, field

WEEK_MS = 7 * 24 * 60 * 60 * 1000

#: Largest batch in bytes, whatever a topic's max.message.bytes is: a batch is held in memory as a whole when it is
#: written, replayed or cleaned, and positions in a segment are int32. A request has at most socket.request.max.bytes
#: (100 MiB); a group's metadata, one record with every member's subscription and assignment, may be larger.
MAX_BATCH_BYTES = 1 << 30

LONG_MAX = (1 << 63) - 1


@dataclass(slots=True)
class LogConfig:
    """The settings of a partition's log. For bytes and milliseconds, -1 means "no limit"."""

    segment_bytes: int = 1 << 30
    segment_ms: int = WEEK_MS
    index_interval_bytes: int = 4096
    retention_ms: int = WEEK_MS
    retention_bytes: int = -1
    #: "delete", "compact" or "compact,delete"
    cleanup_policy: str = "delete"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    #: LONG_MAX: only the dirty ratio triggers cleaning
    max_compaction_lag_ms: int = LONG_MAX
    #: retention of tombstones, and of markers of transactions without any records left
    delete_retention_ms: int = 24 * 60 * 60 * 1000
    #: limit of the indexes that cleaning writes for one segment
    segment_index_bytes: int = 10 * 1024 * 1024
    #: Age of a segment's first record at which the next segment begins. Records that must be compacted by a certain
    #: time must have left the active segment by then. Computed once: a LogConfig never changes, and a topic whose
    #: settings change gets a new LogConfig.
    roll_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self.roll_ms = min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

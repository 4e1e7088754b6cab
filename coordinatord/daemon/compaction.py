"""The log cleaner as the daemon runs it: with its settings, metrics and log lines."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from coordinatord.config import Settings
from coordinatord.log.cleaner import Cleaner, CleanerSettings, Workshop
from coordinatord.log.cleaner_process import Process
from coordinatord.log.cleaning import Statistics
from coordinatord.log.data_dir import DataDirectory
from coordinatord.log.errors import LogDamaged
from coordinatord.log.partition_log import PartitionLog
from coordinatord.log.writer import EventLoop, LogWriter, ThreadWorker, Worker
from coordinatord.observe.logger import get_logger
from coordinatord.observe.metrics import Metrics
from coordinatord.topics import Topics

LEAST_BUFFER_BYTES = 4096
"""log.cleaner.io.buffer.size may be anything."""


class Compaction:
    """The cleaner of a daemon. Does nothing until `look` is called."""

    def __init__(
        self,
        settings: Settings,
        data: DataDirectory,
        writer: LogWriter,
        loop: EventLoop,
        topics: Topics,
        metrics: Metrics,
        now_ms: Callable[[], int],
        *,
        workshop: Workshop | None = None,
        worker: Worker | None = None,
    ) -> None:
        """`workshop` rewrites logs, by default in its own process; `worker` waits for it, by default on a thread."""
        self._metrics = metrics
        self._log = get_logger("coordinatord.log.cleaner")
        self.cleaner = Cleaner(
            data,
            writer,
            loop,
            CleanerSettings(
                map_bytes=settings.log_cleaner_dedupe_buffer_size,
                io_bytes=max(settings.log_cleaner_io_buffer_size // 2, LEAST_BUFFER_BYTES),
                max_bytes_per_second=settings.log_cleaner_io_max_bytes_per_second,
                producer_expiration_ms=settings.producer_id_expiration_ms,
            ),
            workshop=workshop or Process(),
            worker=worker or ThreadWorker("log-cleaner"),
            now_ms=now_ms,
            first_unstable=topics.first_unstable_offset,
            on_cleaned=self._cleaned,
            on_failed=self._failed,
            tag=str(os.getpid()),
        )
        self._watch(now_ms)

    def look(self) -> None:
        """Find a log to clean, and clean it. Called every log.cleaner.backoff.ms."""
        self.cleaner.look()

    def close(self) -> None:
        """Stop cleaning; to be called before the log is closed."""
        self.cleaner.close()

    def _cleaned(self, log: PartitionLog, statistics: Statistics) -> None:
        metrics, seconds = self._metrics, statistics.seconds
        metrics.log_cleanings += 1
        metrics.log_cleaned_bytes += statistics.bytes_read
        metrics.log_rewritten_bytes += statistics.bytes_written
        self._log.info(
            "log cleaned",
            partition=log.name,
            end_offset=statistics.end_offset,
            bytes_before=statistics.bytes_read,
            bytes_after=statistics.bytes_written,
            records_before=statistics.records_read,
            records_after=statistics.records_kept,
            records_without_key=statistics.records_without_key,
            segments_before=statistics.segments_before,
            segments_after=statistics.segments_after,
            keys=statistics.map_entries,
            seconds=round(seconds, 3),
            mb_per_second=round((statistics.bytes_read + statistics.map_bytes_read) / max(seconds, 1e-6) / 1e6, 1),
        )

    def _failed(self, log: PartitionLog, error: BaseException) -> None:
        self._metrics.log_cleaning_failures += 1
        told: dict[str, Any] = {"partition": log.name, "error": str(error)}
        if isinstance(error, LogDamaged):
            self._log.error("log cannot be cleaned; no further attempt before the next start", **told)
        elif isinstance(error, OSError):
            self._log.warning("log not cleaned; next attempt after log.cleaner.backoff.ms", **told)
        else:
            self._log.warning("log not cleaned; no further attempt before the next start", **told)

    def _watch(self, now_ms: Callable[[], int]) -> None:
        watch, state = self._metrics.watch, self.cleaner.state
        manager = "kafka_log_logcleanermanager_"
        watch(manager + "max_dirty_percent", lambda: int(100 * state.max_dirty_ratio))
        watch(manager + "time_since_last_run_ms", lambda: now_ms() - state.looked_ms)
        watch(manager + "uncleanable_partitions_count", lambda: state.uncleanable)
        watch(manager + "uncleanable_bytes", lambda: state.uncleanable_bytes)
        cleaner = "kafka_log_logcleaner_"
        watch(cleaner + "cleaner_recopy_percent", lambda: _percent(state.last.bytes_written, state.last.bytes_read))
        watch(cleaner + "max_buffer_utilization_percent", lambda: int(100 * state.last.map_utilization))
        watch(cleaner + "max_clean_time_secs", lambda: int(state.last.seconds))
        watch(cleaner + "max_compaction_delay_secs", lambda: state.max_delay_ms // 1000)


def _percent(part: int, whole: int) -> int:
    return 100 * part // max(whole, 1)

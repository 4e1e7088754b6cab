"""The log cleaner as the daemon runs it: with its settings, metrics and log lines."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from typing import Any

from coordinatord.base.config import Settings
from coordinatord.base.observe.logger import get_logger
from coordinatord.base.observe.metrics import Metrics
from coordinatord.base.threads import EventLoop, ThreadWorker, Worker
from coordinatord.broker.log.cleaner import Cleaner, CleanerBackend, CleanerSettings, CleanerState
from coordinatord.broker.log.cleaner_process import Process
from coordinatord.broker.log.cleaning import Statistics
from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.log.errors import LogDamaged
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.writer import LogWriter
from coordinatord.broker.topics import Topics

LEAST_BUFFER_BYTES = 4096
"""Smallest buffer in bytes; log.cleaner.io.buffer.size has no lower limit."""


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
        workshop: CleanerBackend | None = None,
        worker: Worker | None = None,
    ) -> None:
        """`workshop` rewrites logs, by default in its own process; `worker` waits for it, by default on a thread."""
        self._metrics = metrics
        self._log = get_logger("coordinatord.broker.log.cleaner")
        self._settings = settings
        self._data, self._writer, self._loop, self._topics, self._now_ms = data, writer, loop, topics, now_ms
        self._workshop, self._worker = workshop, worker
        self._watch(now_ms)

    def use(self, settings: Settings) -> None:
        """Apply settings that were changed while the broker runs, from the next cleaning on."""
        self._settings = settings
        if "cleaner" in self.__dict__:  # it has been made
            self.cleaner.settings = self._cleaner_settings()

    def _cleaner_settings(self) -> CleanerSettings:
        settings = self._settings
        return CleanerSettings(
            map_bytes=settings.log_cleaner_dedupe_buffer_size,
            io_bytes=max(settings.log_cleaner_io_buffer_size // 2, LEAST_BUFFER_BYTES),
            max_bytes_per_second=settings.log_cleaner_io_max_bytes_per_second,
            producer_expiration_ms=settings.producer_id_expiration_ms,
        )

    @cached_property
    def cleaner(self) -> Cleaner:
        """The cleaner, made at its first use."""
        return Cleaner(
            self._data,
            self._writer,
            self._loop,
            self._cleaner_settings(),
            workshop=self._workshop or Process(),
            worker=self._worker or ThreadWorker("log-cleaner"),
            now_ms=self._now_ms,
            first_unstable=self._topics.first_unstable_offset,
            on_cleaned=self._cleaned,
            on_failed=self._failed,
            tag=str(os.getpid()),
        )

    @property
    def _state(self) -> CleanerState:
        return self.cleaner.state

    def look(self) -> None:
        """Find a log to clean, and clean it. Called every log.cleaner.backoff.ms."""
        self.cleaner.look()

    def close(self) -> None:
        """Stop cleaning. Must be called before the log is closed."""
        if "cleaner" in self.__dict__:  # it has been made
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
        watch = self._metrics.watch
        manager = "kafka_log_logcleanermanager_"
        watch(manager + "max_dirty_percent", lambda: int(100 * self._state.max_dirty_ratio))
        watch(manager + "time_since_last_run_ms", lambda: now_ms() - self._state.looked_ms)
        watch(manager + "uncleanable_partitions_count", lambda: self._state.uncleanable)
        watch(manager + "uncleanable_bytes", lambda: self._state.uncleanable_bytes)
        cleaner = "kafka_log_logcleaner_"
        watch(
            cleaner + "cleaner_recopy_percent",
            lambda: _percent(self._state.last.bytes_written, self._state.last.bytes_read),
        )
        watch(cleaner + "max_buffer_utilization_percent", lambda: int(100 * self._state.last.map_utilization))
        watch(cleaner + "max_clean_time_secs", lambda: int(self._state.last.seconds))
        watch(cleaner + "max_compaction_delay_secs", lambda: self._state.max_delay_ms // 1000)


def _percent(part: int, whole: int) -> int:
    return 100 * part // max(whole, 1)

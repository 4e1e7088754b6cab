"""Group commit. (Interface; the body follows.)"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from coordinatord.log.data_dir import DataDirectory
from coordinatord.log.partition_log import PartitionLog

FlushPolicy = Literal["always", "interval", "never"]


class EventLoop(Protocol):
    """The part of asyncio's loop that the writer uses."""

    def call_soon(self, callback: Callable[..., object], *args: object) -> object: ...
    def call_soon_threadsafe(self, callback: Callable[..., object], *args: object) -> object: ...
    def call_later(self, delay: float, callback: Callable[..., object], *args: object) -> object: ...


class LogWriter:
    flushed_epoch: int
    failed: BaseException | None

    def __init__(
        self,
        data: DataDirectory,
        loop: EventLoop,
        on_failure: Callable[[BaseException], None],
        *,
        flush: FlushPolicy = "always",
        flush_interval_ms: int = 1000,
    ) -> None: ...

    def append(self, log: PartitionLog, batch: bytearray) -> tuple[int, int]:
        """(base_offset, epoch). `batch` is one valid v2 batch; its base offset and leader epoch are set in place, the buffer is the log's from now on."""
        ...

    def append_records(self, log: PartitionLog, records: Sequence[tuple[bytes, bytes | None]], timestamp_ms: int) -> int:
        """Epoch. All records of one call are in one batch; calls of one turn share a batch."""
        ...

    def hold(self, epoch: int, callback: Callable[[], object], failed: Callable[[], object] | None = None) -> None:
        """callback once `epoch` is durable (at once if it is); `failed` instead when the log fails first."""
        ...

    def delete(self, logs: Sequence[PartitionLog]) -> None:
        """Partitions are gone, durably, on return; their files are removed in the background."""
        ...

    def delete_records(self, log: PartitionLog, before_offset: int) -> int:
        """Epoch at which the new log_start_offset is durable."""
        ...

    def apply_retention(self, now_ms: int) -> int:
        """Drop whole segments of all logs with cleanup.policy delete by retention.ms and retention.bytes; how many. Call it every log.retention.check.interval.ms."""
        ...

    def close(self) -> None:
        """Write and flush everything; blocks."""
        ...

"""Flush epochs that are not written yet: the forming one, and later ones for appends that need new segments.

A new segment costs several flushes of the disk, the first segment of a partition more. A request may need thousands of
new segments. A single epoch with all of them would delay the commits of all clients until the disk has created them. So
the appends of one epoch begin at most `NEW_FILES` segments. Further appends that need a new segment, and may wait, go
to later epochs, with `NEW_FILES` segments each. All other appends go to the forming epoch, which is written next: they
wait for a few new segments, not for thousands.

The epoch of an append is determined when it is appended, and does not change. Appends to a partition keep their order:
once a partition has an append in a later epoch, its further appends go to the same epoch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.segment_write import SegmentWrite

NEW_FILES = 2
"""Number of segments that the appends of one flush epoch may begin; appends that may not wait are not counted. A
segment costs three or four flushes, the epoch itself two. With one segment per epoch, a new partition would cost a
third more flushes than with any greater number.
"""

Callback = Callable[[], object]


@dataclass(slots=True)
class FlushStats:
    """Measurements of one flush epoch, for the metrics."""

    epoch: int
    partitions: int
    bytes: int
    seconds: float


class CommitBatch:
    """One flush epoch: its writes, the callbacks that wait for it, and its result."""

    __slots__ = ("bytes", "error", "holds", "logs", "new_files", "number", "seconds", "start_offsets", "writes")

    def __init__(self, number: int) -> None:
        self.number = number
        #: partitions with appends whose writes are not taken yet
        self.logs: dict[PartitionLog, None] = {}
        #: writes that have been taken
        self.writes: list[SegmentWrite] = []
        #: bytes of the record batches that callers have built themselves
        self.bytes = 0
        #: segments that its appends begin; appends that may not wait are not counted
        self.new_files = 0
        #: True if a log start offset has changed: the checkpoint is written with this epoch
        self.start_offsets = False
        self.holds: list[tuple[Callback, Callback | None]] = []
        #: exception of the write, set by the worker
        self.error: BaseException | None = None
        self.seconds = 0.0

    def take(self) -> None:
        """Take the writes of all partitions of this epoch."""
        for log in self.logs:
            self.writes += log.take_pending()
        self.logs.clear()


class CommitBatches:
    """The flush epochs that are not sealed yet, in order."""

    def __init__(self) -> None:
        #: the epoch of current appends that need not wait
        self.forming = CommitBatch(1)
        #: `forming` and later epochs; all but the last one have as many new files as they may
        self._epochs: deque[CommitBatch] = deque([self.forming])
        #: partitions that wait for a later epoch than `forming`
        self.waiting: dict[PartitionLog, CommitBatch] = {}

    @property
    def is_empty(self) -> bool:
        """True if there are no writes and no held callbacks."""
        forming = self.forming
        return len(self._epochs) == 1 and not (forming.logs or forming.writes or forming.holds or forming.start_offsets)

    @property
    def last(self) -> CommitBatch:
        """The last epoch that is not sealed: `forming` if no append waits for a later one."""
        return self._epochs[-1]

    def at(self, number: int) -> CommitBatch:
        """Return the epoch with this number; the nearest epoch if there is none."""
        return self._epochs[min(max(number - self.forming.number, 0), len(self._epochs) - 1)]

    def make_room(self, log: PartitionLog) -> None:
        """Assign `log` to an epoch that may begin another segment. The caller is about to append to `log` a batch that
        begins a segment, and that may wait.
        """
        epoch = self.waiting.get(log, self.forming)
        if epoch.new_files >= NEW_FILES:
            if log in epoch.logs:  # earlier appends stay in the epoch that was returned for them
                epoch.writes += log.take_pending()
                del epoch.logs[log]
            epoch = self._epochs[-1]
            if epoch.new_files >= NEW_FILES:
                epoch = CommitBatch(epoch.number + 1)
                self._epochs.append(epoch)
            self.waiting[log] = epoch
        epoch.new_files += 1

    def seal(self) -> CommitBatch:
        """Return the forming epoch with its writes; the next epoch becomes the forming one."""
        epoch = self._epochs.popleft()
        for log in epoch.logs if self.waiting else ():
            self.waiting.pop(log, None)
        epoch.take()
        if self._epochs:
            self.forming = self._epochs[0]
        else:
            self.forming = CommitBatch(epoch.number + 1)
            self._epochs.append(self.forming)
        return epoch

    def seal_all(self) -> CommitBatch:
        """Return all epochs merged into one, with the number of the last."""
        whole = CommitBatch(self.last.number)
        for epoch in self._epochs:
            epoch.take()
            whole.writes += epoch.writes
            whole.holds += epoch.holds
            whole.start_offsets |= epoch.start_offsets
        self.waiting.clear()
        self.forming = CommitBatch(whole.number + 1)
        self._epochs = deque([self.forming])
        return whole

    def forget(self, log: PartitionLog) -> None:
        """Drop a deleted partition."""
        self.waiting.pop(log, self.forming).logs.pop(log, None)

    def take_holds(self) -> list[tuple[Callback, Callback | None]]:
        """Remove and return all held callbacks, in order."""
        holds = [hold for epoch in self._epochs for hold in epoch.holds]
        for epoch in self._epochs:
            epoch.holds.clear()
        return holds

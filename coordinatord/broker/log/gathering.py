"""Epochs that gather: the one that forms now, and later ones for appends that need new files.

A new segment costs several flushes of the disk, the first one of a partition more. A request may ask for thousands of
them at once, and an epoch that had them all would keep everybody's commits waiting for as long as the disk takes. So an
epoch begins `NEW_FILES` segments at most. Further appends that need one, and may wait, go to later epochs, `NEW_FILES`
each. Meanwhile all other appends go to the epoch that forms, which is the next one to be written: they wait for a few
new segments, not for thousands.

Which epoch an append belongs to is known at once and does not change. What is appended to a partition keeps its order:
a partition that waits for a later epoch takes all its later appends there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.segment_write import SegmentWrite

NEW_FILES = 2
"""Segments that the appends of one epoch may begin, of those that may wait. Each costs three or four flushes; the epoch
itself has two. With one, a partition would cost a third more than with any number."""

Callback = Callable[[], object]


@dataclass(slots=True, repr=False, eq=False)
class FlushStats:
    """The metrics of one epoch."""

    epoch: int
    partitions: int
    bytes: int
    seconds: float


class Epoch:
    """One epoch: its writes, its held callbacks, and its result."""

    __slots__ = ("bytes", "error", "holds", "logs", "new_files", "number", "seconds", "start_offsets", "writes")

    def __init__(self, number: int) -> None:
        self.number = number
        #: partitions with appends whose writes are still to be taken
        self.logs: dict[PartitionLog, None] = {}
        #: writes that have been taken
        self.writes: list[SegmentWrite] = []
        #: of the batches that were appended whole
        self.bytes = 0
        #: segments that its appends begin, of those that may wait
        self.new_files = 0
        #: log start offsets changed: write the checkpoint with this epoch
        self.start_offsets = False
        self.holds: list[tuple[Callback, Callback | None]] = []
        #: set by the worker
        self.error: BaseException | None = None
        self.seconds = 0.0

    def take(self) -> None:
        """Take the writes of all its partitions."""
        for log in self.logs:
            self.writes += log.take_pending()
        self.logs.clear()


class Gathering:
    """The epochs that are not sealed yet, in order."""

    def __init__(self) -> None:
        #: takes what is appended now, unless that has to wait
        self.forming = Epoch(1)
        #: `forming` and later ones; all but the last one have as many new files as they may
        self._epochs: deque[Epoch] = deque([self.forming])
        #: partitions that wait for a later epoch than `forming`
        self.waiting: dict[PartitionLog, Epoch] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write and nobody waits."""
        forming = self.forming
        return len(self._epochs) == 1 and not (forming.logs or forming.writes or forming.holds or forming.start_offsets)

    @property
    def last(self) -> Epoch:
        """The last one that has anything, or `forming`."""
        return self._epochs[-1]

    def at(self, number: int) -> Epoch:
        """The epoch with this number; the nearest one if there is none."""
        return self._epochs[min(max(number - self.forming.number, 0), len(self._epochs) - 1)]

    def make_room(self, log: PartitionLog) -> None:
        """`log` begins a segment with what is appended next, and it may wait: find an epoch for that."""
        epoch = self.waiting.get(log, self.forming)
        if epoch.new_files >= NEW_FILES:
            if log in epoch.logs:  # what was appended before goes with the epoch that was promised for it
                epoch.writes += log.take_pending()
                del epoch.logs[log]
            epoch = self._epochs[-1]
            if epoch.new_files >= NEW_FILES:
                epoch = Epoch(epoch.number + 1)
                self._epochs.append(epoch)
            self.waiting[log] = epoch
        epoch.new_files += 1

    def seal(self) -> Epoch:
        """Take the epoch that forms, with its writes; the next one forms now."""
        epoch = self._epochs.popleft()
        for log in epoch.logs if self.waiting else ():
            self.waiting.pop(log, None)
        epoch.take()
        if self._epochs:
            self.forming = self._epochs[0]
        else:
            self.forming = Epoch(epoch.number + 1)
            self._epochs.append(self.forming)
        return epoch

    def seal_all(self) -> Epoch:
        """Take all of them as one, with the number of the last."""
        whole = Epoch(self.last.number)
        for epoch in self._epochs:
            epoch.take()
            whole.writes += epoch.writes
            whole.holds += epoch.holds
            whole.start_offsets |= epoch.start_offsets
        self.waiting.clear()
        self.forming = Epoch(whole.number + 1)
        self._epochs = deque([self.forming])
        return whole

    def forget(self, log: PartitionLog) -> None:
        """Drop a partition that is deleted."""
        self.waiting.pop(log, self.forming).logs.pop(log, None)

    def take_holds(self) -> list[tuple[Callback, Callback | None]]:
        """Take all held callbacks, in order."""
        holds = [hold for epoch in self._epochs for hold in epoch.holds]
        for epoch in self._epochs:
            epoch.holds.clear()
        return holds

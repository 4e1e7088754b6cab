"""Loading at start: the order of the partitions, slices that let other work run, and progress.

The smallest logs are loaded first: most groups are served after a fraction of the time, and the one partition that
holds a million commits delays no others. Groups are loaded before transactions: an unfinished transaction may have
markers to write for groups. Meanwhile requests for a group whose partition is not loaded get
COORDINATOR_LOAD_IN_PROGRESS; all other requests are served.

Loaded objects stay in memory, so Python's garbage collector need not traverse them repeatedly: the collector is off
during a slice, and the objects that the slice created are frozen.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterable, Iterator
from typing import Protocol

from coordinatord.base.budget import Budget
from coordinatord.base.observe.logger import get_logger
from coordinatord.base.observe.metrics import Metrics
from coordinatord.broker.log.loader import ReplayedBatch
from coordinatord.coordination.runtime.log import Log
from coordinatord.coordination.runtime.partitions import Partitions

log = get_logger("coordinatord.coordination.runtime")

PROGRESS_S = 5.0
"""Seconds between two progress lines of a long load."""


class Loadable(Protocol):
    """A coordinator whose partitions can be loaded."""

    @property
    def log(self) -> Log: ...

    @property
    def partitions(self) -> Partitions: ...

    def load(self, partition: int, batches: Iterable[ReplayedBatch]) -> Iterator[int]: ...


GC_THRESHOLDS = (5_000, 2, 5_000)
"""Thresholds of Python's garbage collector. With the defaults (700, 10, 10) the collector traverses all groups whenever
they have grown by a quarter: 34 ms at a time with 100,000 members. Dropped objects are in no cycles (tests/guard counts
them), so there is almost nothing to collect. The first two bound the number of young objects traversed at a time,
20,000: with (10,000, 50) a collection took 70 ms.
"""


class Loading:
    """The load of all partitions, once. Call `run` in a task; other threads may read the figures."""

    def __init__(self, metrics: Metrics, *, is_guest: bool = False) -> None:
        """`is_guest`: the daemon runs in an application's process, whose garbage collector stays unchanged."""
        self.metrics = metrics
        self._is_guest = is_guest
        self.total_bytes = 0
        self.records = 0
        self.bytes = 0
        self.seconds = 0.0
        self._began_s = self._logged_s = 0.0
        self._done = False
        self._counted = (0, 0)

    async def run(self, *coordinators: Loadable) -> None:
        """Load the partitions of each coordinator, one coordinator after the other."""
        self._began_s = self._logged_s = time.monotonic()
        ordered = [
            (each, sorted((each.log.size_bytes(partition), partition) for partition in each.partitions.to_load()))
            for each in coordinators
        ]
        self.total_bytes = sum(size for _, sized in ordered for size, _ in sized)
        if not self._is_guest:
            gc.collect()
            gc.freeze()
        for coordinator, sized in ordered:
            for _, partition in sized:
                await self._load(coordinator, partition)
        if not self._is_guest:
            gc.set_threshold(*GC_THRESHOLDS)
            gc.enable()  # cli/serve.py turns it off before the imports
        self.seconds = time.monotonic() - self._began_s
        self._done = True

    # Progress

    @property
    def ratio(self) -> float:
        """The loaded share of the bytes, 0 to 1."""
        return 1.0 if self._done else self.bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def has_begun(self) -> bool:
        """True once it is known which coordinators are loaded."""
        return self._began_s > 0

    @property
    def elapsed_seconds(self) -> float:
        """Duration of the load in seconds: so far, or in total when it is done."""
        return self.seconds if self._done else time.monotonic() - self._began_s if self._began_s else 0.0

    @property
    def records_per_second(self) -> float:
        """Average rate: so far, or of the whole load when it is done."""
        seconds = self.elapsed_seconds
        return self.records / seconds if seconds else 0.0

    # Internal

    async def _load(self, coordinator: Loadable, partition: int) -> None:
        began_s, budget = time.monotonic(), Budget()
        began_records = self.records
        steps = coordinator.load(partition, self._measured(coordinator.log.read(partition)))
        is_guest = self._is_guest
        if not is_guest:
            gc.disable()
        try:
            for records in steps:
                self.records += records
                if budget.is_spent():
                    if not is_guest:
                        gc.freeze()
                        gc.enable()
                    self._count()
                    self._log_progress(coordinator.log.topic, partition)
                    await asyncio.sleep(0)
                    if not is_guest:
                        gc.disable()
                    budget = Budget()
            if self.records > began_records and not is_guest:
                gc.freeze()
        finally:
            if not is_guest:
                gc.enable()
        self._count()
        if self.records > began_records:
            self.metrics.load_seconds.observe(time.monotonic() - began_s)

    def _count(self) -> None:
        self.metrics.loaded_records += self.records - self._counted[0]
        self.metrics.loaded_bytes += self.bytes - self._counted[1]
        self._counted = self.records, self.bytes

    def _log_progress(self, topic: str, partition: int) -> None:
        now_s = time.monotonic()
        if now_s - self._logged_s < PROGRESS_S:
            return
        self._logged_s = now_s
        log.info(
            "loading groups",
            partition=f"{topic}-{partition}",
            percent=round(100 * self.ratio, 1),
            records=self.records,
            records_per_second=round(self.records_per_second),
            seconds=round(self.elapsed_seconds, 1),
        )

    def _measured(self, batches: Iterable[ReplayedBatch]) -> Iterator[ReplayedBatch]:
        """Count the bytes of a partition's batches while yielding the batches."""
        before = self.bytes
        for batch in batches:
            self.bytes = before + batch.bytes_read
            yield batch

"""The disk of the simulated world: `coordinatord.broker.log.simulated_disk` behind threads that take virtual time.

The daemon hands writes and flushes to a worker, which in truth is a thread. Here a job begins when the one before it is
done, takes as long as the disk takes just now, and its outcome is told to the node's loop. A fault is set for the next
job: the process dies within it (some of its writes are there, one perhaps by half), or a flush in it fails.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Literal

from coordinatord.broker.log.simulated_disk import SimulatedDisk
from coordinatord.testing.simulation.engine import Engine

Fault = Literal["dies", "fails"]


class DiskWorker:
    """One thread of one node. Jobs run one after the other; nothing runs once the process has ended."""

    def __init__(
        self, engine: Engine, disk: SimulatedDisk, chance: random.Random, on_death: Callable[[], None]
    ) -> None:
        self.engine = engine
        self.disk = disk
        self.random = chance
        self.on_death = on_death
        self.ended = False
        self.fault: Fault | None = None
        self.slow_ms = 0  # a disk that is busy with something else
        self.jobs_done = 0
        self._jobs: deque[Callable[[], None]] = deque()
        self._busy = False

    def submit(self, job: Callable[[], None]) -> None:
        self._jobs.append(job)
        if not self._busy:
            self._busy = True
            self._next()

    def stop(self) -> None:
        """The daemon waits for what it has submitted; in no time, as far as the world can tell."""
        while self._jobs and not self.ended:
            self._do(self._jobs.popleft())
        self._jobs.clear()

    def end(self) -> None:
        self.ended = True
        self._jobs.clear()

    def _next(self) -> None:
        takes_ms = self.random.choice((0, 0, 1, 1, 2, 5)) + self.slow_ms
        self.engine.at(self.engine.now_ms + takes_ms, self._run)

    def _run(self) -> None:
        if self.ended:
            return
        if self._jobs:
            self._do(self._jobs.popleft())
        if self._jobs and not self.ended:
            self._next()
        else:
            self._busy = False

    def _do(self, job: Callable[[], None]) -> None:
        fault, self.fault = self.fault, None
        disk = self.disk
        if fault == "dies":
            disk.crash_after = disk.operations + self.random.randrange(4)
        elif fault == "fails":
            disk.datasyncs_left = 0
        self.jobs_done += 1
        try:
            job()  # catches whatever goes wrong, and would tell the loop
        finally:
            disk.datasyncs_left = None
        if disk.crashed:
            disk.crash("kill")  # the kernel has what was written
            self.on_death()
        disk.crash_after = None

"""A log under test: simulated disk, hand-turned event loop, a worker that runs when told. One thread, no clock,
every choice from a seed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from coordinatord.broker.log import DataDirectory, LogConfig, LogWriter, PartitionLog, replay
from coordinatord.broker.log.cleaner import Cleaner, CleanerSettings, InProcess
from coordinatord.broker.log.cleaning import Statistics
from coordinatord.broker.log.simulated_disk import SimulatedDisk
from coordinatord.broker.log.worker_checkpoints import WorkerShare
from coordinatord.broker.log.writer import FlushPolicy

PATH = "/data"


class HandLoop:
    """asyncio's loop, as far as the writer uses it; `run` is one or more turns."""

    def __init__(self) -> None:
        self.ready: deque[Callable[[], object]] = deque()
        self.later: list[tuple[float, Callable[[], object]]] = []

    def call_soon(self, callback: Callable[[], object], /) -> None:
        self.ready.append(callback)

    call_soon_threadsafe = call_soon

    def call_later(self, delay: float, callback: Callable[[], object], /) -> None:
        self.later.append((delay, callback))

    def turn(self) -> None:
        for _ in range(len(self.ready)):
            self.ready.popleft()()

    def fire_timers(self) -> None:
        timers, self.later = self.later, []
        for _delay, callback in timers:
            callback()


class HandWorker:
    """The writer's thread, run by hand: a flush takes as long as the test likes."""

    def __init__(self) -> None:
        self.jobs: deque[Callable[[], None]] = deque()

    def submit(self, job: Callable[[], None]) -> None:
        self.jobs.append(job)

    def run_one(self) -> bool:
        if not self.jobs:
            return False
        self.jobs.popleft()()
        return True

    def stop(self) -> None:
        while self.run_one():
            pass


class World:
    """An open data directory and its writer."""

    def __init__(
        self,
        disk: SimulatedDisk,
        *,
        flush: FlushPolicy = "always",
        config: LogConfig | None = None,
        journal_bytes: int = 1 << 20,
        node_id: int = 0,
        cleaner: CleanerSettings | None = None,
        share: WorkerShare | None = None,
        path: str = PATH,
        now_ms: int = 1_000_000,
    ) -> None:
        self.disk = disk
        self.config = config or LogConfig()
        self.loop = HandLoop()
        self.worker = HandWorker()
        self.background = HandWorker()
        self.failures: list[BaseException] = []
        config_for = lambda topic: self.config  # noqa: E731
        if share is None:
            self.data = DataDirectory.open(path, disk=disk, node_id=node_id, config_for=config_for)
        else:
            self.data = DataDirectory.open_share(
                path, share, cluster_id="", node_id=node_id, disk=disk, config_for=config_for
            )
        self.writer = LogWriter(
            self.data,
            self.loop,
            self.failures.append,
            flush=flush,
            journal_bytes=journal_bytes,
            worker=self.worker,
            background=self.background,
            now_ms=lambda: self.now_ms,
        )
        self.now_ms = now_ms
        self.cleaner_worker = HandWorker()
        self.cleaned: list[tuple[str, Statistics]] = []
        self.cleaner = Cleaner(
            self.data,
            self.writer,
            self.loop,
            cleaner or CleanerSettings(),
            workshop=InProcess(disk),
            worker=self.cleaner_worker,
            now_ms=lambda: self.now_ms,
            on_cleaned=lambda log, statistics: self.cleaned.append((log.name, statistics)),
            on_failed=lambda log, error: self.cleaner_failures.append(error),
        )
        self.cleaner_failures: list[BaseException] = []

    def log(self, topic: str = "events", partition: int = 0) -> PartitionLog:
        """The partition, made when it is not there."""
        found = self.data.get(topic, partition)
        return found or self.data.create(topic, [partition], topic.encode().ljust(16, b".")[:16], self.config)[0]

    def settle(self) -> None:
        """Turn until nothing is left to do."""
        while self.loop.ready or self.worker.jobs or self.background.jobs or self.cleaner_worker.jobs:
            self.loop.turn()
            self.worker.run_one()
            self.background.run_one()
            self.cleaner_worker.run_one()

    def clean(self) -> list[tuple[str, Statistics]]:
        """Let the cleaner do all it wants to; what it has done."""
        self.cleaned.clear()
        self.cleaner.look()
        self.settle()
        return self.cleaned

    def close(self) -> None:
        self.cleaner.close()
        self.writer.close()
        self.data.close()


def contents(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of everything that can be read."""
    return [(offset, key, value) for batch in replay(log) for offset, _timestamp, key, value in batch.records]

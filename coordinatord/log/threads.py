"""Where the log's work is done: the event loop, and threads beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol


class EventLoop(Protocol):
    """The part of asyncio's loop that the writer uses."""

    def call_soon(self, callback: Callable[..., object], /) -> object: ...

    def call_soon_threadsafe(self, callback: Callable[..., object], /) -> object: ...

    def call_later(self, delay: float, callback: Callable[..., object], /) -> object: ...


class Worker(Protocol):
    """Runs jobs one after the other, off the event loop."""

    def submit(self, job: Callable[[], None]) -> None: ...

    def stop(self) -> None:
        """Finish the submitted jobs; blocks."""


class ThreadWorker:
    """One thread with a queue and call_soon_threadsafe: a future per flush would cost more than the write."""

    def __init__(self, name: str = "log-writer") -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._running = threading.Thread(target=self._run, name=name, daemon=True)
        self._running.start()

    def submit(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)

    def stop(self) -> None:
        self._jobs.put(None)
        self._running.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

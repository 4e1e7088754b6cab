"""Execution of the log's work: the event loop, and other threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Final, Protocol

SWITCH_INTERVAL_S: Final = 0.0003
"""Longest time in seconds that the event loop waits for Python's interpreter lock while another thread computes.
Python's default of 5 ms would be added to each of the loop's callbacks.
"""


class _Computing:
    """The number of computing threads, and the switch interval as it was before the first of them began."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._usual_s = 0.0

    @contextmanager
    def now(self) -> Iterator[None]:
        with self._lock:
            if not self._count:
                self._usual_s = sys.getswitchinterval()
                sys.setswitchinterval(min(self._usual_s, SWITCH_INTERVAL_S))
            self._count += 1
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1
                if not self._count:
                    sys.setswitchinterval(self._usual_s)


computing = _Computing().now
"""A context manager for Python code that takes long on a thread other than the event loop's: `with computing(): …`."""


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

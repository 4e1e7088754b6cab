"""Work on a thread beside the event loop's: what waits for a disk, and what computes for long."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from typing import Any, Final

from coordinatord.log.writer import ThreadWorker

SWITCH_INTERVAL_S: Final = 0.0003
"""How long the event loop waits for Python's interpreter lock while this thread computes. Python's own 5 ms would be
added to each of the loop's callbacks."""


class AsideThread:
    """Calls jobs one after the other on a thread, which is started for the first of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._worker: ThreadWorker | None = None

    def __call__(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], object]) -> None:
        """`job` runs on the thread, then `done` on the loop's, with its result or what it raised."""
        if self._worker is None:
            self._worker = ThreadWorker("aside")
        self._worker.submit(lambda: self._run(job, done))

    def _run(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], object]) -> None:
        result: Any = None
        failure: BaseException | None = None
        usual_s = sys.getswitchinterval()
        sys.setswitchinterval(min(usual_s, SWITCH_INTERVAL_S))
        try:
            result = job()
        except BaseException as error:
            failure = error
        finally:
            sys.setswitchinterval(usual_s)
        # RuntimeError: the loop was closed meanwhile; nobody waits any more
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(done, result, failure)

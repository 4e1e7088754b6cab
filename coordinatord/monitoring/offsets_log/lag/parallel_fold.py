"""Parallel reading of the logs at a large first read, by several processes: logs are folded independently."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from multiprocessing import get_context
from typing import Any, TypeVar

import pyarrow.compute as pc

from coordinatord.monitoring.offsets_log.decode.compiling import compile_loops, expect
from coordinatord.monitoring.offsets_log.decode.projection import Wanted
from coordinatord.monitoring.offsets_log.lag.fold import Fold
from coordinatord.monitoring.offsets_log.source.logs import Part, read_part
from coordinatord.monitoring.offsets_log.source.ranges import KindBatch
from coordinatord.monitoring.offsets_log.source.shared_connections import shared

T = TypeVar("T")
Task = tuple[Fold, Sequence[Part], Wanted]

WORTH_BYTES = 24 << 20
"""Size of the input in bytes from which a second process is worth its start."""

_judge: Callable[[Fold], Any] | None = None
"""In a process of the pool: the function whose result for a fold is returned."""


def fold_all(tasks: Sequence[Task], workers: int, judge: Callable[[Fold], T] | None) -> list[Fold | T]:
    """Return the folds with the records of their parts of the log. For a fold that another process has read, return the
    result of `judge` there: sending a fold of millions of commits takes longer than sending that result. Raises
    SourceError.
    """
    sizes = [sum(part.bytes for part in parts) for _, parts, _ in tasks]
    count = min(workers, len(tasks))
    if count < 2 or sum(sizes) < WORTH_BYTES:
        expect(sum(sizes))
        with no_collections():
            return [_folded(task) for task in tasks]
    largest_first = sorted(range(len(tasks)), key=lambda number: -sizes[number])
    # Not forked: threads of a client or of Arrow may hold locks.
    with ProcessPoolExecutor(count, get_context("spawn"), _begin, (judge,)) as pool:
        try:
            is_main = threading.current_thread() is threading.main_thread()
            with _begun_without_sigint() if is_main else nullcontext():
                asked = {number: pool.submit(_judged, tasks[number]) for number in largest_first}
            return [asked[number].result() for number in range(len(tasks))]
        except KeyboardInterrupt:
            for process in list(pool._processes.values()):
                process.terminate()
            raise


@contextmanager
def _begun_without_sigint() -> Iterator[None]:
    """Run a block whose new processes never get SIGINT, which a terminal sends to all: each would print a traceback. A
    SIGINT during the block is raised after it, because a process that has only half started would print a traceback,
    too.
    """
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, before)
    if came:
        signal.raise_signal(signal.SIGINT)


def _begin(judge: Callable[[Fold], Any] | None) -> None:
    """Initialize a process of the pool."""
    global _judge
    _judge = judge
    compile_loops()
    gc.disable()


def _judged(task: Task) -> Any:
    with shared():
        fold = _folded(task)
        return fold if _judge is None else _judge(fold)


@contextmanager
def no_collections() -> Iterator[None]:
    """Run a block without the garbage collector's searches for reference cycles. Reading makes no cycles, but millions
    of tuples that each search would visit: that took half of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _folded(task: Task) -> Fold:
    fold, parts, wanted = task
    for part in parts:
        for chunk in chunks(read_part(part, wanted)):
            fold.take(chunk)
    return fold


def chunks(batches: Iterable[KindBatch]) -> Iterator[list[KindBatch]]:
    """Return lists of batches: batches whose offsets overlap, which arrive kind by kind, are in one list."""
    chunk: list[KindBatch] = []
    last = -1
    for kind, batch in batches:
        offsets = batch.column("log_offset")
        bounds = pc.min_max(offsets).as_py()
        if chunk and bounds["min"] is not None and bounds["min"] > last:
            yield chunk
            chunk = []
        chunk.append((kind, batch))
        last = max(last, -1 if bounds["max"] is None else bounds["max"])
    if chunk:
        yield chunk

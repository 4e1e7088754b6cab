"""The logs of a large first look, shared by several processes: logs are folded independently of each other."""

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

from coordinatord.monitoring.offsets_log.decode.projection import Wanted
from coordinatord.monitoring.offsets_log.lag.fold import Fold
from coordinatord.monitoring.offsets_log.lag.without_pandas import keep_pandas_out
from coordinatord.monitoring.offsets_log.source.logs import Part, read_part
from coordinatord.monitoring.offsets_log.source.ranges import KindBatch
from coordinatord.monitoring.offsets_log.source.shared_connections import shared

T = TypeVar("T")
Task = tuple[Fold, Sequence[Part], Wanted]

WORTH_BYTES = 24 << 20
"""From so many bytes on, a second process is worth its start."""

_judge: Callable[[Fold], Any] | None = None
"""In a process of the pool: what is wanted of its folds."""


def fold_all(tasks: Sequence[Task], workers: int, judge: Callable[[Fold], T] | None) -> list[Fold | T]:
    """The folds with what their parts of the log add or, of those that another process has read, what `judge` makes of
    them there: a fold of millions of commits takes longer to send than what is made of it. SourceError.
    """
    sizes = [sum(part.bytes for part in parts) for _, parts, _ in tasks]
    count = min(workers, len(tasks))
    if count < 2 or sum(sizes) < WORTH_BYTES:
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
    """Processes begun meanwhile never see SIGINT, which a terminal sends to all: each would say where it was. One that
    comes meanwhile counts afterwards, for a process that is only half begun has something to say, too.
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
    """In a process of its own."""
    global _judge
    _judge = judge
    gc.disable()
    keep_pandas_out()


def _judged(task: Task) -> Any:
    with shared():
        fold = _folded(task)
        return fold if _judge is None else _judge(fold)


@contextmanager
def no_collections() -> Iterator[None]:
    """Without searches for reference cycles. Reading makes none, but millions of tuples that each search would visit:
    half of its time went there.
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
    """Batches whose offsets overlap, which come kind by kind, together."""
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

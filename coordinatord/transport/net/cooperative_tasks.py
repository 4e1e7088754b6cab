"""Responses that are made in slices, so that no request holds the event loop for long.

A handler whose work grows with its request, or with the coordinator's state, returns `CooperativeTask`: a generator
that yields wherever it can be interrupted, and returns the response. The generator runs for one `Budget`; then other
work has its turn. All generators of a process share these slices, in turn: a hundred such requests take longer, and
delay others as little as one. The yielded value says when the generator continues:

- None: at its next turn;
- a function: another thread calls it, and the `yield` returns its result or raises its exception;
- `Wait`: when its callback is called.

The state of the coordinator may change wherever the generator yields.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Final, Protocol, TypeVar

from coordinatord.base.budget import SLICE_COSTLY_ITEMS, Budget
from coordinatord.base.observe.metrics import Metrics
from coordinatord.base.threads import ThreadWorker, Worker, computing

Element = TypeVar("Element")
Made = TypeVar("Made")

MAX_RUNNING: Final = 8
"""Maximum number of requests that are served in slices at one time. The memory of each of them is limited; later
requests wait undecoded.
"""


class Wait:
    """Yielded by a generator that waits: `begin` receives the function that resumes the generator."""

    __slots__ = ("begin",)

    def __init__(self, begin: Callable[[Callable[[], object]], object]) -> None:
        self.begin = begin


TaskSteps = Generator[Callable[[], Any] | Wait | None, Any, Any]


class CooperativeTask:
    """A handler's result if these steps make the response. `is_change`: the steps continue although the peer has
    disconnected.
    """

    __slots__ = ("is_change", "steps")

    def __init__(self, steps: TaskSteps, *, is_change: bool = False) -> None:
        self.steps = steps
        self.is_change = is_change


class Aside(Protocol):
    """Calls `job` on another thread, and then `done` with its result or its exception on the loop's thread."""

    def __call__(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], object]) -> object: ...


def _done_here(steps: TaskSteps, job: Callable[[], Any]) -> Any:
    """Run a job on this thread instead of another; returns what the steps yield then."""
    try:
        result = job()
    except Exception as error:
        return steps.throw(error)
    return steps.send(result)


@dataclass(eq=False, slots=True)
class _Running:
    """A generator in progress. `finished` receives the response; `failed` is called after an exception, which
    is a bug.
    """

    slices: CooperativeTask
    finished: Callable[[Any], object]
    failed: Callable[[], object]
    is_given_up: Callable[[], bool]
    value: Any = None
    error: BaseException | None = None


class TaskScheduler:
    """Runs generators, a slice in each turn of the event loop."""

    def __init__(
        self, call_soon: Callable[..., object], aside: Aside | None = None, metrics: Metrics | None = None
    ) -> None:
        """Without `aside`, a job runs on the event loop's thread."""
        self._call_soon = call_soon
        self._aside = aside
        self._longest = (metrics or Metrics()).longest_turn
        self._ready: deque[_Running] = deque()
        self._waiting: deque[_Running] = deque()
        self._is_due = False
        #: number of generators that have begun and have not ended
        self.running = 0

    def run(
        self,
        slices: CooperativeTask,
        finished: Callable[[Any], object],
        failed: Callable[[], object],
        is_given_up: Callable[[], bool],
    ) -> None:
        """Run the steps from the next turn on. `failed` is called within the handler of the exception."""
        running = _Running(slices, finished, failed, is_given_up)
        if self.running >= MAX_RUNNING:
            self._waiting.append(running)
            return
        self.running += 1
        self._resume(running)

    def _resume(self, running: _Running) -> None:
        self._ready.append(running)
        if not self._is_due:
            self._is_due = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        """Run one slice of the generator whose turn it is."""
        began_s = perf_counter()
        self._one_slice()
        took_s = perf_counter() - began_s
        if took_s > self._longest.seconds:
            self._longest.seconds = took_s

    def _one_slice(self) -> None:
        self._is_due = False
        running = self._ready.popleft()
        if self._ready:
            self._is_due = True
            self._call_soon(self._turn)
        slices = running.slices
        if not slices.is_change and running.is_given_up():
            slices.steps.close()
            self._end()
            return
        try:
            self._slice(running)
        except StopIteration as end:
            self._end()
            try:
                running.finished(end.value)
            except Exception:
                running.failed()
        except Exception:
            self._end()
            running.failed()

    def _slice(self, running: _Running) -> None:
        steps, value, error = running.slices.steps, running.value, running.error
        running.value = running.error = None
        budget = Budget()
        waits = steps.send(value) if error is None else steps.throw(error)
        while not isinstance(waits, Wait):
            if waits is None:
                if budget.is_spent():
                    self._resume(running)
                    return
                waits = next(steps)
            elif self._aside is None:
                waits = _done_here(steps, waits)
            else:
                self._aside(waits, partial(self._done, running))
                return
        waits.begin(lambda: self._resume(running))

    def _done(self, running: _Running, result: Any, error: BaseException | None) -> None:
        running.value, running.error = result, error
        self._resume(running)

    def _end(self) -> None:
        self.running -= 1
        if self._waiting:
            self.running += 1
            self._resume(self._waiting.popleft())


class BackgroundThread:
    """Calls jobs one after the other on a thread, which the first job starts, or on `worker`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, worker: Worker | None = None) -> None:
        self._loop = loop
        self._worker = worker

    def __call__(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], object]) -> None:
        """Run `job` on the thread, then `done` on the loop's thread, with its result or the exception that it
        raised.
        """
        if self._worker is None:
            self._worker = ThreadWorker("aside")
        self._worker.submit(lambda: self._run(job, done))

    def _run(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], object]) -> None:
        result: Any = None
        failure: BaseException | None = None
        try:
            with computing():
                result = job()
        except BaseException as error:
            failure = error
        # RuntimeError: the loop was closed meanwhile; nothing waits for the result any more
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(done, result, failure)


class OneAtATime:
    """Changes that must not overlap: each waits for the earlier ones."""

    def __init__(self) -> None:
        self._is_busy = False
        self._waiting: deque[Callable[[], object]] = deque()

    def steps(self, steps: TaskSteps) -> TaskSteps:
        """Return steps that wait for their turn and then run `steps`."""
        if self._is_busy:
            yield Wait(self._waiting.append)
        self._is_busy = True
        try:
            return (yield from steps)
        finally:
            if self._waiting:
                self._waiting.popleft()()  # still busy
            else:
                self._is_busy = False


def made_of(elements: Iterable[Element], make: Callable[[Element], Made]) -> Generator[None, Any, list[Made]]:
    """Return the results of `make` for all elements, with pauses."""
    made = []
    for number, element in enumerate(elements):
        made.append(make(element))
        if number % SLICE_COSTLY_ITEMS == SLICE_COSTLY_ITEMS - 1:
            yield None
    return made


def any_of(elements: Iterable[Element], holds: Callable[[Element], bool]) -> Generator[None, Any, bool]:
    """Return whether `holds` is true for any of the elements, with pauses."""
    for number, element in enumerate(elements):
        if holds(element):
            return True
        if number % SLICE_COSTLY_ITEMS == SLICE_COSTLY_ITEMS - 1:
            yield None
    return False


def let_go(*containers: list[Any] | dict[Any, Any]) -> Generator[None, Any, None]:
    """Empty lists and dictionaries, with pauses: freeing a hundred thousand objects at once would take 20 ms."""
    for container in containers:
        while container:
            if isinstance(container, list):
                del container[-SLICE_COSTLY_ITEMS:]
            else:
                for _ in range(min(SLICE_COSTLY_ITEMS, len(container))):
                    container.popitem()
            yield None


def begun(steps: TaskSteps) -> CooperativeTask | None:
    """Run steps until their first pause, which must be a None. Returns a task that continues, or None at their end."""
    for waits in steps:
        assert waits is None, "the first pause is lost"
        return CooperativeTask(steps)
    return None


def run_through(steps: TaskSteps) -> Any:
    """Return the steps' result, without a pause: for small requests, and for tests."""
    value: Any = None
    error: BaseException | None = None
    try:
        while True:
            waits = steps.send(value) if error is None else steps.throw(error)
            value = error = None
            if waits is not None:
                assert not isinstance(waits, Wait), "a task that waits for an event needs the event loop"
                try:
                    value = waits()
                except Exception as raised:
                    error = raised
    except StopIteration as end:
        return end.value

"""Generators that make responses in slices: what they yield is done, in which turn of the event loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from coordinatord.base.budget import SLICE_COSTLY_ITEMS
from coordinatord.transport.net.cooperative_tasks import (
    CooperativeTask,
    TaskScheduler,
    TaskSteps,
    Wait,
    any_of,
    let_go,
    made_of,
)


class Turns:
    """An event loop's turns, one `turn` after the other, and another thread's jobs."""

    def __init__(self) -> None:
        self.due: deque[Callable[[], object]] = deque()
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any, BaseException | None], object]]] = []
        self.told: list[object] = []

    def turn(self) -> None:
        for _ in range(len(self.due)):
            self.due.popleft()()

    def run(self, slicer: TaskScheduler, steps: TaskSteps) -> None:
        slicer.run(CooperativeTask(steps), self.told.append, lambda: self.told.append("a bug"), lambda: False)


@pytest.fixture
def turns() -> Turns:
    return Turns()


def working(turns: Turns, job: Callable[[], object]) -> TaskSteps:
    turns.told.append("begins")
    try:
        found = yield job
    except OSError as error:
        found = str(error)
    return f"ends with {found}"


def full() -> object:
    raise OSError("disk full")


@pytest.mark.parametrize(("job", "ends"), [(lambda: 7, "ends with 7"), (full, "ends with disk full")])
def test_without_another_thread_a_job_is_done_in_the_turn_that_comes_to_it(
    turns: Turns, job: Callable[[], object], ends: str
) -> None:
    """Whoever holds a lock over a job has let it go before anything else runs."""
    turns.run(TaskScheduler(turns.due.append), working(turns, job))
    assert turns.told == []
    turns.turn()
    assert turns.told == ["begins", ends]
    assert not turns.due


@pytest.mark.parametrize(
    ("result", "ends"), [((7, None), "ends with 7"), ((None, OSError("disk full")), "ends with disk full")]
)
def test_another_thread_does_a_job_and_the_steps_go_on_in_a_later_turn(
    turns: Turns, result: tuple[Any, BaseException | None], ends: str
) -> None:
    turns.run(TaskScheduler(turns.due.append, lambda job, done: turns.jobs.append((job, done))), working(turns, full))
    turns.turn()
    ((job, done),) = turns.jobs
    assert job is full
    turns.turn()
    assert turns.told == ["begins"]
    done(*result)
    assert turns.told == ["begins"], "what the thread has made is taken in the loop's next turn"
    turns.turn()
    assert turns.told == ["begins", ends]


def test_steps_that_wait_go_on_when_somebody_calls_them_back(turns: Turns) -> None:
    waiting: list[Callable[[], object]] = []

    def steps() -> TaskSteps:
        yield Wait(waiting.append)
        return "called"

    turns.run(TaskScheduler(turns.due.append), steps())
    turns.turn()
    turns.turn()
    assert turns.told == []
    waiting[0]()
    turns.turn()
    assert turns.told == ["called"]


def test_a_bug_is_told(turns: Turns) -> None:
    turns.run(TaskScheduler(turns.due.append), working(turns, lambda: 1 // 0))
    turns.turn()
    assert turns.told == ["begins", "a bug"]


def test_long_lists_are_gone_through_with_pauses() -> None:
    """Each pause comes after a few elements, and the result is that of going through all at once."""
    numbers = list(range(10 * SLICE_COSTLY_ITEMS))
    assert paused(made_of(numbers, str)) == (10, [str(number) for number in numbers])
    assert paused(any_of(numbers, lambda number: number == 5 * SLICE_COSTLY_ITEMS)) == (5, True)
    assert paused(any_of(numbers, lambda number: number < 0)) == (10, False)
    table = dict.fromkeys(numbers)
    assert paused(let_go(numbers, table)) == (20, None)
    assert not numbers
    assert not table


def paused(steps: TaskSteps) -> tuple[int, Any]:
    """How often the steps pause, and what they return."""
    count = 0
    while True:
        try:
            assert next(steps) is None
        except StopIteration as end:
            return count, end.value
        count += 1

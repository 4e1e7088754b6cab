"""The clock follows the wall clock slowly; timers wake the loop when they are due and not before."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

from coordinatord.base import budget
from coordinatord.base.budget import SLICE_S
from coordinatord.base.clocks import clock as clock_module
from coordinatord.base.clocks import timers as timers_module
from coordinatord.base.clocks.clock import MAX_SLEW, Clock
from coordinatord.base.clocks.timers import (
    BATCH,
    BEHIND_S,
    LATE_MS,
    LONG_MS,
    READING_TURNS,
    TICK_MS,
    Alarm,
    Timers,
)
from coordinatord.coordination.group.result import TimerKey


class FakeTime:
    """time.time and time.monotonic, controlled by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall = 1_700_000_000.0
        self.running = 500.0
        monkeypatch.setattr(clock_module.time, "time", lambda: self.wall)
        monkeypatch.setattr(clock_module.time, "monotonic", lambda: self.running)

    def pass_(self, seconds: float) -> None:
        self.wall += seconds
        self.running += seconds


def test_the_clock_shows_the_time_of_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    time = FakeTime(monkeypatch)
    clock = Clock()
    time.pass_(1.5)
    assert clock() == 1_700_000_001_500


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_a_wall_clock_that_is_set_is_followed_slowly(monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    time = FakeTime(monkeypatch)
    clock = Clock()
    before = clock()
    time.wall += jump
    assert clock() == before
    last = before
    for _ in range(100):
        time.pass_(1.0)
        clock.follow_wall()
        now = clock()
        assert 1000 * (1 - MAX_SLEW) - 2 <= now - last <= 1000 * (1 + MAX_SLEW) + 2
        last = now
    assert abs(clock.follow_wall()) < 3600 - 100 * MAX_SLEW + 1


class FakeLoop:
    """call_later on virtual time. `turns` counts the callbacks of call_soon, one per turn."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.calls: list[tuple[float, Any, Callable[[], None]]] = []
        self.turns = 0
        self.is_behind = False

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Any:
        loop = self

        class Handle:
            def cancel(self) -> None:
                loop.calls = [call for call in loop.calls if call[1] is not self]

        handle = Handle()
        self.calls.append((self.now_ms + delay_s * 1000, handle, callback))
        return handle

    def call_soon(self, callback: Callable[[], None]) -> Any:
        self.turns += 1
        return self.call_later(0, callback)

    def run_until(self, now_ms: int) -> None:
        for _ in range(10_000):
            due = [call for call in self.calls if call[0] <= now_ms]
            if not due:
                break
            call = min(due, key=lambda each: each[0])
            self.calls.remove(call)
            self.now_ms = max(self.now_ms, int(call[0]))
            call[2]()
        self.now_ms = now_ms

    def timers(self, on_expired: Callable[[TimerKey], object]) -> Timers:
        return Timers(self, lambda: self.now_ms, on_expired, lambda: self.is_behind)  # type: ignore[arg-type]


def test_timers_go_off_in_time_and_in_batches() -> None:
    loop = FakeLoop()
    expired: list[tuple[int, TimerKey]] = []
    timers = loop.timers(lambda key: expired.append((loop.now_ms, key)))
    many = [TimerKey(f"g{number}", "session", "m") for number in range(3 * BATCH)]
    for key in many:
        timers.schedule(key, 1_005_000)
    later = TimerKey("later", "session", "m")
    timers.schedule(later, 1_020_000)
    cancelled = TimerKey("cancelled", "join")
    timers.schedule(cancelled, 1_001_000)
    timers.cancel(cancelled)
    loop.run_until(1_010_000)
    assert {key for _, key in expired} == set(many)
    assert all(1_005_000 <= at <= 1_005_000 + 2 * TICK_MS + 1 for at, _ in expired)
    loop.run_until(1_030_000)
    assert expired[-1][1] == later
    assert loop.calls == []


def test_a_timer_goes_off_at_most_two_milliseconds_late() -> None:
    """On an idle loop. Kafka's timers, too, are within two milliseconds."""
    loop = FakeLoop()
    late: list[int] = []
    timers = loop.timers(lambda key: late.append(loop.now_ms - int(key.group_id)))
    deadlines_ms = range(1_000_003, 1_700_000, 777)
    for deadline_ms in deadlines_ms:
        timers.schedule(TimerKey(str(deadline_ms), "session", "m"), deadline_ms)
    loop.run_until(1_800_000)
    assert len(late) == len(deadlines_ms)
    assert 0 <= min(late) <= max(late) <= 2


def test_timers_that_are_due_together_share_the_loop_with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = FakeLoop()
    busy_s = 0.0

    def expire(key: TimerKey) -> None:
        nonlocal busy_s
        busy_s += 0.0001
        expired.append(key)
        if key.group_id == "g7":
            timers.schedule(TimerKey("again", "session", "m"), loop.now_ms + 50_000)

    monkeypatch.setattr(budget, "perf_counter", lambda: busy_s)
    expired: list[TimerKey] = []
    timers = loop.timers(expire)
    for number in range(1_000):
        timers.schedule(TimerKey(f"g{number}", "session", "m"), 1_005_000)
    in_turn = []
    while len(expired) < 1_000:
        (call,) = loop.calls  # one at a time, whatever is scheduled meanwhile
        loop.calls.remove(call)
        loop.now_ms = max(loop.now_ms, int(call[0]))
        before = len(expired)
        call[2]()
        in_turn.append(len(expired) - before)
    assert len(set(expired)) == 1_000
    a_slice = round(SLICE_S / 0.0001)
    assert max(in_turn) <= a_slice + BATCH
    assert loop.now_ms <= 1_005_000 + 2 * TICK_MS, "turns follow each other without a wait"
    loop.run_until(1_060_000)
    assert expired[-1].group_id == "again"


def test_what_a_slice_has_made_is_not_left_to_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many objects are dropped as are made, so it would not begin by itself, and have all slices' at last."""
    loop = FakeLoop()
    kept: list[list[int]] = [[] for _ in range(4 * BATCH)]
    young: list[int] = []

    def expire(key: TimerKey) -> None:
        kept[len(young)] = [len(young)]  # another one instead of the last
        young.append(len(gc.get_objects(0)) + len(gc.get_objects(1)))

    timers = loop.timers(expire)
    for number in range(4 * BATCH):
        timers.schedule(key_of(str(number)), 1_005_000)
    monkeypatch.setattr(budget, "perf_counter", lambda: len(young) * SLICE_S)  # each batch takes a slice
    gc.collect()
    gc.disable()
    try:
        loop.run_until(1_006_000)
    finally:
        gc.enable()
    assert len(young) == 4 * BATCH
    assert max(young[BATCH + 1 :]) <= max(young[:BATCH]), "of one slice, not of all"


def test_alarms_call_back_unless_they_are_cancelled() -> None:
    loop = FakeLoop()
    timers = loop.timers(lambda key: None)
    rung: list[str] = []
    timers.alarm(1_000_500, lambda: rung.append("one"))
    other = timers.alarm(1_000_400, lambda: rung.append("other"))
    other.cancel()
    loop.run_until(1_002_000)
    assert rung == ["one"]
    timers.alarm(1_003_000, lambda: rung.append("never"))
    timers.close()
    loop.run_until(1_010_000)
    assert rung == ["one"]


def key_of(name: str) -> TimerKey:
    return TimerKey(name, "session", "m")


def test_a_round_is_about_what_is_due_when_it_begins_to_read() -> None:
    """Time passes while the loop reads, as when the process is stopped and continued."""
    loop = FakeLoop()
    expired: list[tuple[str, int]] = []
    timers = loop.timers(lambda key: expired.append((key.group_id, loop.turns)))
    for name, deadline_ms in (("in time", 1_005_000), ("meanwhile", 1_009_000), ("alive", 1_005_000)):
        timers.schedule(key_of(name), deadline_ms)
    (wake,) = loop.calls
    loop.calls.clear()
    loop.now_ms = 1_006_000  # the loop had other work
    wake[2]()
    (turn,) = loop.calls
    loop.calls.clear()
    timers.schedule(key_of("alive"), 1_012_000)  # what lay in a socket says so
    timers.schedule(key_of("at once"), 1_006_500)
    loop.now_ms = 1_010_000
    turn[2]()
    loop.run_until(1_010_000)
    assert expired[0] == ("in time", READING_TURNS)
    assert sorted(expired[1:]) == [("at once", 2 * READING_TURNS), ("meanwhile", 2 * READING_TURNS)]
    loop.run_until(1_012_000 + 2 * TICK_MS)
    assert [name for name, _ in expired[3:]] == ["alive"]


def test_for_those_who_only_wait_nothing_is_read_first() -> None:
    """And their timers jump, are counted and end with the others."""
    loop = FakeLoop()
    rung: list[tuple[str, int]] = []
    timers = loop.timers(lambda key: rung.append((key.group_id, loop.turns)))
    timers.schedule(key_of("member"), 1_005_000)
    timers.wait_alarm(1_005_000 - LATE_MS, lambda: rung.append(("fetch", loop.turns)))
    assert timers.count == 2
    loop.run_until(1_005_000 + 2 * TICK_MS)
    assert rung == [("fetch", 1), ("member", READING_TURNS)], "a turn of the members' round, in which it reads"
    timers.wait_alarm(2_000_000, lambda: rung.append(("jumped", 0)))
    assert not timers.is_due
    loop.now_ms = 2_000_000
    assert timers.is_due
    timers.jumped()
    assert rung[-1] == ("jumped", 0)
    assert timers.count == 0
    timers.wait_alarm(2_001_000, lambda: rung.append(("never", 0)))
    timers.close()
    loop.run_until(2_010_000)
    assert rung[-1] == ("jumped", 0)
    assert loop.calls == []


def test_long_waits_end_together_with_the_next_one_or_a_little_late() -> None:
    """An idle loop is not woken for each of them."""
    loop = FakeLoop()
    rung: list[tuple[str, int]] = []
    timers = loop.timers(lambda key: None)
    first = loop.now_ms + 1_000

    def ring(name: str) -> Callable[[], None]:
        return lambda: rung.append((name, loop.now_ms))

    timers.wait_alarm(first, ring("first"))
    timers.wait_alarm(first + 5, ring("second"))
    loop.run_until(first + LATE_MS - 1)
    assert rung == [], "the loop sleeps on"
    timers.wait_alarm(first + 2_000, ring("third"))
    loop.run_until(first + LATE_MS - 1)
    assert [name for name, _ in rung] == ["first", "second"]
    loop.run_until(first + 2_000 + LATE_MS - 1)
    assert len(rung) == 2
    loop.run_until(first + 2_000 + LATE_MS + 2 * TICK_MS)
    assert [name for name, _ in rung] == ["first", "second", "third"], "nothing has woken the loop before"


def test_many_waits_that_end_together_are_one_round_of_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not two, of which the second would have begun when the loop's own timer goes off."""
    loop = FakeLoop()
    rung: list[int] = []
    others: set[int] = set()

    def ring() -> None:
        rung.append(loop.turns)
        others.add(len(loop.calls))

    timers = loop.timers(lambda key: None)
    due_ms = loop.now_ms + 1_000
    for _ in range(4 * BATCH):
        timers.wait_alarm(due_ms, ring)
    monkeypatch.setattr(budget, "perf_counter", lambda: len(rung) * SLICE_S)  # each batch takes a slice
    loop.run_until(due_ms + 2 * TICK_MS)
    before = loop.turns
    timers.wait_alarm(due_ms + 5_000, lambda: None)
    loop.run_until(due_ms + 2 * LATE_MS)
    assert [rung.count(before + turn) for turn in range(1, 5)] == [BATCH] * 4
    assert others == {0}, "nothing else is to come while a slice is at work"
    assert loop.turns == before + 4
    assert len(loop.calls) == 1, "for the last one"


def test_a_wait_that_is_set_after_the_end_does_not_end() -> None:
    loop = FakeLoop()
    timers = loop.timers(lambda key: None)
    timers.close()
    timers.wait_alarm(loop.now_ms + 1_000, lambda: pytest.fail("it is closed"))
    loop.run_until(loop.now_ms + 2_000)


def test_a_short_wait_ends_in_time() -> None:
    loop = FakeLoop()
    rung: list[str] = []
    timers = loop.timers(lambda key: None)
    deadline_ms = loop.now_ms + LONG_MS - 1
    timers.wait_alarm(deadline_ms, lambda: rung.append("short"))
    loop.run_until(deadline_ms + 2 * TICK_MS)
    assert rung == ["short"]


def test_a_round_waits_for_those_who_are_behind_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = FakeLoop()
    expired: list[int] = []
    timers = loop.timers(lambda key: expired.append(loop.turns))
    loop.is_behind = True
    monkeypatch.setattr(timers_module, "thread_time", lambda: loop.turns * BEHIND_S / 100)
    timers.schedule(key_of("dead"), 1_005_000)
    loop.run_until(1_005_000 + 2 * TICK_MS)
    assert len(expired) == 1
    assert 100 <= expired[0] <= 100 + READING_TURNS


def test_one_that_fails_stops_no_others() -> None:
    loop = FakeLoop()
    rung: list[str] = []
    timers = loop.timers(lambda key: None)
    for number in range(3 * BATCH):
        timers.alarm(1_001_000, lambda number=number: rung.append("due, too") if number % 2 else 1 // 0)  # type: ignore[misc]
    timers.alarm(1_002_000, lambda: rung.append("later"))
    for _ in range(3 * BATCH // 2):
        with pytest.raises(ZeroDivisionError):
            loop.run_until(1_010_000)
    loop.run_until(1_010_000)
    assert rung == ["due, too"] * (3 * BATCH // 2) + ["later"]
    timers.alarm(1_012_000, lambda: rung.append("set anew"))
    loop.run_until(1_020_000)
    assert rung[-1] == "set anew"


def test_one_that_is_cancelled_by_another_of_the_same_moment_does_not_go_off() -> None:
    loop = FakeLoop()
    rung: list[int] = []
    timers = loop.timers(lambda key: None)
    alarms: list[Alarm] = []

    def ring(number: int) -> None:
        rung.append(number)
        for each in alarms:
            each.cancel()

    alarms += [timers.alarm(1_001_000, lambda number=number: ring(number)) for number in range(5)]  # type: ignore[misc]
    loop.run_until(1_010_000)
    assert len(rung) == 1
    assert timers.count == 0


def test_a_round_that_has_begun_ends_nobody_after_the_timers_are_closed() -> None:
    loop = FakeLoop()
    rung: list[int] = []
    timers = loop.timers(lambda key: None)
    for _ in range(2 * BATCH):
        timers.alarm(1_001_000, lambda: (rung.append(1), timers.close()))
    loop.run_until(1_010_000)
    assert len(rung) == 1
    timers.alarm(1_011_000, lambda: rung.append(1))
    loop.run_until(1_020_000)
    assert len(rung) == 1
    assert loop.calls == []

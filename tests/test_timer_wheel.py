"""The timing wheel against a plain sorted model, and its promises about bounded work."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinatord.base.clocks.timer_wheel import TimerWheel


def test_a_timer_fires_in_the_tick_after_its_deadline_and_not_before() -> None:
    wheel: TimerWheel[str] = TimerWheel(tick_ms=10)
    wheel.schedule("a", 25)
    assert wheel.advance(25) == []
    assert wheel.advance(29) == []
    assert wheel.advance(30) == ["a"]
    assert wheel.advance(1_000_000) == []


def test_a_deadline_that_has_passed_fires_at_the_next_advance() -> None:
    wheel: TimerWheel[str] = TimerWheel(tick_ms=10, now_ms=1_000)
    wheel.schedule("late", 5)
    wheel.schedule("now", 1_000)
    assert wheel.next_deadline_ms() == 1_000
    assert sorted(wheel.advance(1_000)) == ["late", "now"]
    assert wheel.next_deadline_ms() is None


def test_scheduling_again_replaces_in_both_directions() -> None:
    wheel: TimerWheel[str] = TimerWheel(tick_ms=1)
    wheel.schedule("later", 10)
    wheel.schedule("later", 5_000)
    wheel.schedule("sooner", 5_000)
    wheel.schedule("sooner", 10)
    assert len(wheel) == 2
    assert wheel.advance(4_999) == ["sooner"]
    assert wheel.advance(5_000) == ["later"]


def test_cancel_says_whether_there_was_a_timer() -> None:
    wheel: TimerWheel[str] = TimerWheel(tick_ms=1)
    wheel.schedule("a", 10)
    assert "a" in wheel
    assert wheel.cancel("a")
    assert not wheel.cancel("a")
    assert "a" not in wheel
    assert wheel.advance(100) == []
    assert wheel.next_deadline_ms() is None


def test_hours_without_a_timer_are_skipped() -> None:
    wheel: TimerWheel[str] = TimerWheel(tick_ms=1)
    year_ms = 365 * 24 * 3_600_000
    wheel.schedule("next year", year_ms)
    assert wheel.advance(year_ms - 1, limit=20) == []
    assert wheel.advance(year_ms, limit=20) == ["next year"]


def test_time_that_goes_back_is_ignored() -> None:
    wheel: TimerWheel[str] = TimerWheel(tick_ms=1)
    assert wheel.advance(100) == []
    assert wheel.advance(50) == []
    wheel.schedule("a", 101)
    assert wheel.advance(60) == []
    assert wheel.advance(101) == ["a"]


@pytest.mark.parametrize("deadline_ms", [5_000, 300_000])
def test_what_falls_due_together_comes_in_bounded_portions(deadline_ms: int) -> None:
    """Neither expiring nor moving timers down a level does more than `limit` of work, and nothing is lost."""
    wheel: TimerWheel[int] = TimerWheel(tick_ms=10)
    count = 20_000
    for key in range(count):
        wheel.schedule(key, deadline_ms + key % 1_000)
    seen: list[int] = []
    calls = 0
    deadline = wheel.next_deadline_ms()
    while deadline is not None:
        got = wheel.advance(max(deadline, deadline_ms + 1_000), limit=500)
        assert len(got) <= 500
        seen += got
        calls += 1
        deadline = wheel.next_deadline_ms()
    assert sorted(seen) == list(range(count))
    assert calls >= count / 500


def test_a_timer_may_be_set_and_unset_while_its_slot_is_half_drained() -> None:
    wheel: TimerWheel[int] = TimerWheel(tick_ms=1)
    for key in range(10):
        wheel.schedule(key, 100)
    first = set(wheel.advance(100, limit=5))  # some of this work is moving them to level 0
    left = [key for key in range(10) if key not in first]
    wheel.cancel(left[0])
    wheel.schedule(left[1], 164)
    wheel.schedule(99, 164)
    rest: list[int] = []
    while wheel.next_deadline_ms() is not None and (wheel.next_deadline_ms() or 0) <= 100:
        rest += wheel.advance(100, limit=3)
    assert sorted(rest) == sorted(left[2:])
    assert sorted(wheel.advance(164)) == sorted([left[1], 99])


def test_a_slot_that_was_drained_is_used_again_for_its_next_turn() -> None:
    wheel: TimerWheel[str] = TimerWheel(tick_ms=1)
    wheel.schedule("first", 5)
    assert wheel.advance(5) == ["first"]
    assert wheel.advance(64) == []
    wheel.schedule("second", 69)  # the same slot, 64 ticks on
    assert wheel.next_deadline_ms() == 69
    assert wheel.advance(68) == []
    assert wheel.advance(69) == ["second"]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("schedule"), st.integers(0, 12), st.integers(-50, 400_000)),
        st.tuples(st.just("schedule"), st.integers(0, 12), st.integers(0, 700)),
        st.tuples(st.just("cancel"), st.integers(0, 12), st.just(0)),
        st.tuples(st.just("advance"), st.integers(1, 8), st.integers(0, 300)),
        st.tuples(st.just("advance"), st.integers(1, 8), st.integers(0, 500_000)),
    ),
    max_size=60,
)


@given(tick_ms=st.sampled_from([1, 7, 10, 100]), start_ms=st.integers(0, 10**12), steps=STEPS)
def test_it_does_what_a_sorted_list_of_deadlines_does(
    tick_ms: int, start_ms: int, steps: list[tuple[str, int, int]]
) -> None:
    """Never early, never lost, never twice; at most one tick late once `advance` has no more work to do."""
    wheel: TimerWheel[int] = TimerWheel(tick_ms, start_ms)
    model: dict[int, int] = {}
    now_ms = start_ms
    for what, number, amount in steps:
        if what == "schedule":
            wheel.schedule(number, now_ms + amount)
            model[number] = now_ms + amount
        elif what == "cancel":
            assert wheel.cancel(number) == (model.pop(number, None) is not None)
        else:
            now_ms += amount
            for key in wheel.advance(now_ms, limit=number):
                assert model.pop(key) <= now_ms
        assert len(wheel) == len(model)
        next_ms = wheel.next_deadline_ms()
        assert (next_ms is None) == (not model)
        if next_ms is not None:
            earliest_tick = max(-(-min(model.values()) // tick_ms), now_ms // tick_ms)
            assert next_ms <= earliest_tick * tick_ms
    while (next_ms := wheel.next_deadline_ms()) is not None:
        now_ms = max(now_ms, next_ms)
        for key in wheel.advance(now_ms, limit=3):
            assert model.pop(key) <= now_ms
        if (wheel.next_deadline_ms() or now_ms + tick_ms) > now_ms:
            assert all(deadline > now_ms - tick_ms for deadline in model.values()), "a timer is more than a tick late"
    assert not model


def test_keys_come_in_the_order_of_their_ticks() -> None:
    """Even when one call covers many ticks and levels."""
    wheel: TimerWheel[int] = TimerWheel(tick_ms=10)
    for key in (70, 30, 6_500, 10, 640, 50_000):
        wheel.schedule(key, key)
    assert wheel.advance(100_000) == [10, 30, 70, 640, 6_500, 50_000]

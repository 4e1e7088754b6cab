"""Timer, Backoff and Heartbeat: the member's three timers."""

from __future__ import annotations

import pytest

from coordinatord.testing.member.timer import NEVER, Backoff, Heartbeat, Timer


def heartbeat() -> Heartbeat:
    made = Heartbeat(45_000, 3_000, 300_000, Backoff(100, 1_000, lambda: 0.5))
    made.reset_timeouts(1_000)
    return made


def test_a_timer_expires_at_its_deadline() -> None:
    timer = Timer()
    assert timer.deadline_ms == NEVER
    assert not timer.is_expired(10**15)
    timer.reset(100, 50)
    assert timer.remaining_ms(100) == 50
    assert not timer.is_expired(149)
    assert timer.is_expired(150)
    assert timer.remaining_ms(151) == 0


def test_a_back_off_doubles_up_to_its_maximum() -> None:
    assert [Backoff(100, 1_000, lambda: 0.5).after_ms(n) for n in range(6)] == [100, 200, 400, 800, 1_000, 1_000]


@pytest.mark.parametrize(("random", "spread"), [(0.0, [80, 160, 800]), (0.999, [119, 239, 1_000])])
def test_a_back_off_is_spread_by_a_fifth(random: float, spread: list[int]) -> None:
    assert [Backoff(100, 1_000, lambda: random).after_ms(n) for n in (0, 1, 9)] == spread


def test_a_back_off_whose_maximum_is_its_beginning_is_not_spread() -> None:
    assert [Backoff(100, 100, lambda: 0.1).after_ms(n) for n in (0, 5)] == [100, 100]
    assert Backoff(100, 50, lambda: 0.1).after_ms(3) == 50


def test_an_interval_of_a_whole_session_is_refused() -> None:
    with pytest.raises(ValueError, match="must be lower than session"):
        Heartbeat(3_000, 3_000, 300_000, Backoff(100, 1_000, lambda: 0.5))


def test_all_three_begin_with_a_join() -> None:
    made = heartbeat()
    assert (made.heartbeat.deadline_ms, made.session.deadline_ms, made.poll.deadline_ms) == (4_000, 46_000, 301_000)
    assert made.time_to_next_ms(1_500) == 2_500


def test_sent_moves_the_heartbeat_timer_alone() -> None:
    made = heartbeat()
    made.sent(4_000)
    assert made.in_flight
    assert made.last_sent_ms == 4_000
    assert (made.heartbeat.deadline_ms, made.session.deadline_ms) == (7_000, 46_000)


def test_received_moves_the_session_timer_alone() -> None:
    made = heartbeat()
    made.sent(4_000)
    made.received(4_100)
    assert not made.in_flight
    assert (made.heartbeat.deadline_ms, made.session.deadline_ms) == (7_000, 49_100)


def test_failures_come_again_later_and_later_until_one_is_received() -> None:
    made = heartbeat()
    waits = []
    for now_ms in (4_000, 5_000, 6_000):
        made.sent(now_ms)
        made.failed(now_ms)
        waits.append(made.heartbeat.deadline_ms - now_ms)
    assert waits == [100, 200, 400]
    assert made.session.deadline_ms == 46_000
    made.received(7_000)
    made.failed(8_000)
    assert made.heartbeat.deadline_ms == 8_100


def test_polled_moves_the_poll_timer_alone() -> None:
    made = heartbeat()
    made.polled(2_000)
    assert (made.poll.deadline_ms, made.session.deadline_ms) == (302_000, 46_000)


def test_a_coordinator_that_was_just_found_has_a_whole_session() -> None:
    made = heartbeat()
    made.reset_session_timeout(40_000)
    assert (made.session.deadline_ms, made.heartbeat.deadline_ms) == (85_000, 4_000)


@pytest.mark.parametrize("timeout_ms", [-1, -(10**9)])
def test_a_negative_timeout_is_refused_and_the_timer_keeps_its_deadline(timeout_ms: int) -> None:
    timer = Timer()
    timer.reset(100, 50)
    with pytest.raises(ValueError, match=f"Invalid negative timeout {timeout_ms}"):
        timer.reset(120, timeout_ms)
    assert (timer.deadline_ms, timer.start_ms) == (150, 100)
    timer.reset(120, 0)
    assert timer.is_expired(120)


def test_a_timeout_beyond_all_time_never_expires() -> None:
    timer = Timer()
    timer.reset(10, NEVER)
    assert timer.deadline_ms == NEVER


def test_elapsed_counts_from_the_last_reset() -> None:
    timer = Timer()
    assert timer.elapsed_ms(500) == 0
    timer.reset(100, 50)
    assert [timer.elapsed_ms(now_ms) for now_ms in (100, 130, 160)] == [0, 30, 60]
    timer.reset(160, 50)
    assert timer.elapsed_ms(165) == 5


def test_each_of_the_three_says_how_long_ago_it_began() -> None:
    made = heartbeat()
    made.sent(4_000)
    made.received(4_100)
    made.polled(4_200)
    assert [each.elapsed_ms(5_000) for each in (made.heartbeat, made.session, made.poll)] == [1_000, 900, 800]


def test_the_last_poll_is_remembered_and_moved_by_polls_alone() -> None:
    made = heartbeat()
    assert made.last_poll_ms is None
    made.polled(2_000)
    made.sent(4_000)
    made.received(4_100)
    made.reset_timeouts(5_000)
    assert made.last_poll_ms == 2_000

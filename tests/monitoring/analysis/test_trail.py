"""A trail keeps what the rules need of many commits."""

from __future__ import annotations

from coordinatord.monitoring.analysis.burrow import Commit
from coordinatord.monitoring.analysis.commit_window import Trail


def climbing(count: int, every_ms: int) -> list[Commit]:
    return [Commit(number, 1_000_000 + number * every_ms, None) for number in range(count)]


def test_the_first_commit_of_each_part_of_a_window_is_a_mark() -> None:
    """A window has 128 parts; the last mark before it is the position at its beginning."""
    window_ms = 64_000
    rare = Trail(window_ms, climbing(200, 500))
    assert list(rare.marks) == climbing(200, 500)[-129:]
    often = climbing(2_000, 100)
    trail = Trail(window_ms, often)
    assert list(trail.marks) == often[1_355::5]
    assert trail.window(0) == [*often[1_355::5], often[-1]]


def test_a_clock_that_goes_to_and_fro_leaves_a_bounded_number_of_marks() -> None:
    trail = Trail(64_000, [Commit(number, 1_000_000 + number % 2 * 1_000, None) for number in range(5_000)])
    assert len(trail.marks) == 256
    assert trail.window(0)[-1] == trail.last


def test_the_last_steps_back_are_kept() -> None:
    """Sixteen of them, and ten silences, whatever the log has."""
    back = [Commit(1_000 - number, 1_000_000 + number * 500, None) for number in range(30)]
    trail = Trail(1_000, back)
    assert trail.falls == [(commit.offset + 1, commit.time_ms) for commit in back[-16:]]
    assert list(trail.silences) == [(commit.time_ms - 500, commit.time_ms) for commit in back[-10:]]

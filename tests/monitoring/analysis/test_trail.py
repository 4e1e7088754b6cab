"""Many commits at once leave the same trail as one by one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinatord.monitoring.analysis.burrow import Commit
from coordinatord.monitoring.analysis.commit_window import Trail

STEPS = st.tuples(st.sampled_from([0, 0, 1, 1, 1, 5, -3, -100]), st.sampled_from([0, 1, 1, 10, 40, 400, -5]))
"""How far the offset and the time move: on, back, or not at all."""


@settings(deadline=None)
@given(st.lists(st.tuples(STEPS, st.integers(1, 60)), max_size=20), st.lists(st.integers(1, 40), max_size=5))
def test_the_same_as_one_by_one(steps: list[tuple[tuple[int, int], int]], pieces: list[int]) -> None:
    commits: list[Commit] = []
    offset, time_ms = 1_000, 1_000_000
    for (moves, waits), times in steps:
        for _ in range(times):
            offset, time_ms = max(0, offset + moves), time_ms + waits
            commits.append(Commit(offset, time_ms, None))
    one, many = Trail(1_000, commits), Trail(1_000)
    left = list(commits)
    for size in pieces:
        many.add_all(left[:size])
        left = left[size:]
    many.add_all(left)
    for name in Trail.__slots__:
        assert getattr(one, name) == getattr(many, name), name


def climbing(count: int, every_ms: int) -> list[Commit]:
    return [Commit(number, 1_000_000 + number * every_ms, None) for number in range(count)]


def test_a_window_of_many_commits_is_thinned() -> None:
    """Up to 128 commits of a window are kept; of more, those that are a 64th of the window apart, and the last one."""
    window_ms = 64_000
    full = climbing(128, 250)
    assert list(Trail(window_ms, full).marks) == full
    more = climbing(129, 250)
    assert list(Trail(window_ms, more).marks) == more[::4]
    odd = climbing(130, 250)
    trail = Trail(window_ms, odd[:129])
    trail.add(odd[129])
    assert list(trail.marks) == [*odd[:129:4], odd[129]]
    for count in range(1, 2_000, 97):
        assert len(Trail(window_ms, climbing(count, 1)).marks) <= 128


def test_the_last_steps_back_are_kept() -> None:
    """Sixteen of them, and ten silences, whatever the log has."""
    back = [Commit(1_000 - number, 1_000_000 + number * 500, None) for number in range(30)]
    trail = Trail(1_000, back)
    assert trail.falls == [(commit.offset + 1, commit.time_ms) for commit in back[-16:]]
    assert list(trail.silences) == [(commit.time_ms - 500, commit.time_ms) for commit in back[-10:]]

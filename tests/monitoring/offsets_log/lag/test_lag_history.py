"""Lag over time from arrays: at each moment as analysis.lag.Lags says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinatord.monitoring.analysis.burrow import Commit
from coordinatord.monitoring.analysis.lag import Lags
from coordinatord.monitoring.analysis.offset_timeline import Point, curve
from coordinatord.monitoring.offsets_log.lag.lag_history import MAX_STEPS, lag_history

TIMES_MS = st.integers(0, 400).map(lambda number: number * 1_000)


def history(commits: Sequence[Commit], points: Sequence[Point], step_ms: int) -> list[tuple[int, int, int, int]]:
    """The moments: time, committed offset, least and greatest lag."""
    offsets, times_ms = (np.array([each[at] for each in commits], np.int64) for at in (0, 1))
    found = lag_history(offsets, times_ms, points, step_ms)
    return list(zip(*(array.tolist() for array in found), strict=True))


def one_by_one(commits: Sequence[Commit], points: Sequence[Point], step_ms: int) -> list[tuple[int, int, int, int]]:
    """The same, with one look at all commits for each moment."""
    found = []
    for at_ms in range(0, points[-1].time_ms + 1, step_ms):
        reached = [number for number in range(len(commits)) if max(each[1] for each in commits[: number + 1]) <= at_ms]
        lag = Lags(commits, points).at(at_ms, reached[-1]) if reached else None
        if lag is not None:
            found.append((at_ms, commits[reached[-1]].offset, *lag))
    return found


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), TIMES_MS), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 60), TIMES_MS), min_size=1, max_size=12),
)
def test_the_same_as_one_by_one(commits: list[tuple[int, int]], ends: list[tuple[int, int]]) -> None:
    points = curve([Point(*each) for each in ends])
    made = [Commit(offset, time_ms, None) for offset, time_ms in commits]
    assert history(made, points, 10_000) == one_by_one(made, points, 10_000)


def test_times_at_the_limit_of_an_int64() -> None:
    latest_ms = (1 << 63) - 1
    found = history([Commit(3, 0, None)], [Point(5, 0), Point(9, latest_ms)], 60_000)
    assert len(found) == MAX_STEPS
    assert found[-1][1:] == (3, 2, 6)
    assert latest_ms - found[-1][0] < latest_ms // MAX_STEPS


def test_a_curve_that_ends_before_the_first_moment() -> None:
    assert history([Commit(3, 10_500, None)], [Point(5, 0), Point(9, 11_000)], 60_000) == []

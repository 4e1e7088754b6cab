"""Many commits at once leave the same trail as one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinatord.monitoring.analysis.burrow import Commit
from coordinatord.monitoring.analysis.commit_window import Trail
from coordinatord.monitoring.offsets_log.lag.commit_arrays import FEW, add_all

STEPS = st.tuples(st.sampled_from([0, 0, 1, 1, 1, 5, -3, -100]), st.sampled_from([0, 1, 1, 10, 40, 400, -5]))
"""How far the offset and the time move: on, back, or not at all."""
ON = st.tuples(st.sampled_from([0, 0, 1, 5]), st.sampled_from([0, 1, 1, 10, 40, 400]))


@settings(deadline=None)
@given(
    st.lists(st.tuples(STEPS, st.integers(1, 60)), max_size=10),
    st.lists(st.tuples(ON, st.integers(1, 60)), max_size=10),
    st.lists(st.integers(1, 4 * FEW), max_size=5),
)
def test_the_same_as_one_by_one(
    steps: list[tuple[tuple[int, int], int]], on: list[tuple[tuple[int, int], int]], pieces: list[int]
) -> None:
    offsets, times_ms = [1_000], [1_000_000]
    for (moves, waits), times in [*steps, *on]:
        for _ in range(times):
            offsets.append(max(0, offsets[-1] + moves))
            times_ms.append(times_ms[-1] + waits)
    commits = [Commit(offset, time_ms, None) for offset, time_ms in zip(offsets, times_ms, strict=True)]
    one, many = Trail(1_000, commits), Trail(1_000)
    begin = 0
    for size in [*pieces, len(commits)]:
        add_all(many, np.array(offsets[begin : begin + size]), np.array(times_ms[begin : begin + size]))
        begin += size
    for name in Trail.__slots__:
        assert getattr(one, name) == getattr(many, name), name
    assert [type(each) for each in many.last or ()] == [int, int, type(None)]


def test_times_that_overflow_an_int64_are_added_one_by_one() -> None:
    times_ms = [1, *[2**62] * 50]
    trail = Trail(1_000)
    add_all(trail, np.arange(51), np.array(times_ms))
    assert trail.silences == Trail(1_000, [Commit(0, at_ms, None) for at_ms in times_ms]).silences

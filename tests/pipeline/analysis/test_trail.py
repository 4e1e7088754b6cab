"""Many commits at once leave the same trail as one by one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinatord.pipeline.analysis.burrow import Commit
from coordinatord.pipeline.analysis.trail import Trail

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

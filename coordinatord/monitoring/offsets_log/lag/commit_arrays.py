"""Many commits, given as arrays: in the order of the log, at once to a trail, as `Trail.add` would add each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

import numpy as np
import numpy.typing as npt

from coordinatord.monitoring.analysis.burrow import WINDOW, Commit
from coordinatord.monitoring.analysis.commit_window import MARKS, SILENCES, STANDS, Trail

Ints = npt.NDArray[np.int64]

FEW = 32
"""Number of commits up to which adding them one by one takes less time."""
MAX_TIME_MS = 1 << 50
"""Limit of times, with which no product here overflows."""


def add_all(trail: Trail, offsets: Ints, times_ms: Ints) -> None:
    """Add commits to a trail, in the order of the log."""
    if trail.last is None and len(offsets):
        trail.add(Commit(int(offsets[0]), int(times_ms[0]), None))
        offsets, times_ms = offsets[1:], times_ms[1:]
    if len(offsets) <= FEW or not _go_on(trail, offsets, times_ms):
        for commit in commits_of(offsets, times_ms):
            trail.add(commit)
        return
    last = trail.last
    assert last is not None
    offsets, times_ms = np.append(last.offset, offsets), np.append(last.time_ms, times_ms)
    for at in np.flatnonzero(3 * np.diff(times_ms) > trail.window_ms)[-SILENCES:].tolist():
        trail.silences.append((int(times_ms[at]), int(times_ms[at + 1])))
    moves = np.flatnonzero(np.diff(offsets))
    reached_ms = np.append(trail.moved_ms, times_ms[moves + 1])
    stands = np.flatnonzero(STANDS * np.diff(reached_ms) >= trail.window_ms)
    if len(stands):
        at = stands[-1]
        trail.stood = int(offsets[moves[at]]), int(reached_ms[at]), int(reached_ms[at + 1])
    trail.moved_ms = int(reached_ms[-1])
    trail.count_here = len(offsets) - 1 - int(moves[-1]) if len(moves) else trail.count_here + len(offsets) - 1
    marks = np.flatnonzero(np.diff(times_ms * MARKS // trail.window_ms))[-MARKS - 2 :] + 1
    trail.marks.extend(commits_of(offsets[marks], times_ms[marks]))
    trail.drop_marks(int(times_ms[-1]) - trail.window_ms)
    trail.recent.extend(commits_of(offsets[-WINDOW:], times_ms[-WINDOW:]))
    trail.last = trail.recent[-1]


def _go_on(trail: Trail, offsets: Ints, times_ms: Ints) -> bool:
    """Return whether these offsets and times do not go back, from the last and the highest of the trail on."""
    last = trail.last
    assert last is not None
    return bool(
        not trail.falls
        and last.offset <= offsets[0]
        and min(trail.moved_ms, last.time_ms) >= 0
        and max(trail.moved_ms, last.time_ms) <= times_ms[0]
        and times_ms[-1] < MAX_TIME_MS
        and (offsets[:-1] <= offsets[1:]).all()
        and (times_ms[:-1] <= times_ms[1:]).all()
    )


def commits_of(offsets: Ints, times_ms: Ints) -> Iterator[Commit]:
    """Yield commits from their offsets and times."""
    return map(Commit, offsets.tolist(), times_ms.tolist(), repeat(None))

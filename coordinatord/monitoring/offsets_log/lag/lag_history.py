"""The lag of a group in a partition over time, from arrays: there may be millions of moments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coordinatord.monitoring.analysis.lag import Lags
from coordinatord.monitoring.analysis.offset_timeline import Point
from coordinatord.monitoring.offsets_log.lag.commit_arrays import Ints, commits_of

MAX_STEPS = 500
"""Maximum number of steps of one history, more than a plot shows. With more, the step grows instead."""


class LagHistory(NamedTuple):
    """Arrays of one length: moments, the committed offset at each, and the bounds of the lag."""

    times_ms: Ints
    committed: Ints
    least: Ints
    most: Ints


NO_HISTORY = LagHistory(*(np.empty(0, np.int64) for _ in LagHistory._fields))


def lag_history(offsets: Ints, times_ms: Ints, points: Sequence[Point], step_ms: int) -> LagHistory:
    """Return the lag every `step_ms`, or less often if that gave more than MAX_STEPS steps: from the first commit to
    the end of the curve, at the moments at which the lag is known. `offsets` and `times_ms` are the group's commits, in
    the order of the log; `points` as returned by offset_timeline.curve. Each lag is that of analysis.lag.Lags.
    """
    if not len(offsets) or not points:
        return NO_HISTORY
    first_ms = max(int(times_ms[0]), points[0].time_ms)
    last_ms = points[-1].time_ms
    step_ms = max(step_ms, -(-(last_ms - first_ms) // MAX_STEPS))
    begin_ms = -(-first_ms // step_ms) * step_ms
    if begin_ms > last_ms:
        return NO_HISTORY
    at_ms = begin_ms + step_ms * np.arange((last_ms - begin_ms) // step_ms + 1)
    # if the coordinator's clock went back, the later time
    number = np.searchsorted(np.maximum.accumulate(times_ms), at_ms, "right") - 1
    committed = offsets[number]
    ends, known_ms = (np.array(each, np.int64) for each in zip(*points, strict=True))
    before = ends[np.searchsorted(known_ms, at_ms, "right") - 1]
    after = ends[np.searchsorted(known_ms, at_ms, "left")]
    least, most = np.minimum(before, after), np.maximum(before, after)
    known = np.ones(len(at_ms), bool)
    beyond = number[most < committed]
    if len(beyond):
        lags = Lags(list(commits_of(offsets, times_ms)), points)
        others = [each for each in np.unique(beyond).tolist() if lags.is_of_another_log(each)]
        known = ~((most < committed) & np.isin(number, others))
    bounds = (np.maximum(0, each - committed) for each in (least, most))
    return LagHistory(*(each[known] for each in (at_ms, committed, *bounds)))

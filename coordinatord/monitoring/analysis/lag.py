"""The lag of one group in one partition: at present, and at the times of its commits.

Lag is never negative: a commit beyond an end offset read a moment earlier has caught up. A commit beyond an end offset
read later belongs to another log than the present one: then the lag is unknown.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from coordinatord.monitoring.analysis.burrow import Commit
from coordinatord.monitoring.analysis.ends import CLOCKS_MS, Ends
from coordinatord.monitoring.analysis.offset_timeline import UNKNOWN as NOT_KNOWN
from coordinatord.monitoring.analysis.offset_timeline import (
    Bounds,
    Point,
    TimeLag,
    end_offsets_at,
    rate_per_s,
    time_lag,
)


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag of a group in a partition, at `now_ms`. None stands for unknown values."""

    lag: int | None
    time_lag_ms: int | None
    time_lag_method: str
    time_lag_error_ms: int | None
    lost_records: int | None
    """Records that were deleted before the group read them; they do not count as lag any more."""
    retention_margin: int | None
    """Number of records that may still be deleted before the group loses one; 0 if it already loses some."""
    retention_left_ms: int | None
    """Longest time until retention may delete the oldest unread record; None if unknown, or if nothing is unread."""
    consumed_per_s: float | None
    produced_per_s: float | None
    zero_in_s: float | None
    """Seconds until nothing is unread, if both rates stay as in the window; None if the lag does not fall."""
    producer_idle: bool | None
    """True if nothing was written during the window: then a constant lag is due to the consumer alone."""

    @property
    def waited_ms(self) -> int:
        """Return the least time in milliseconds that the oldest unread record has waited."""
        return TimeLag(self.time_lag_ms, self.time_lag_method, self.time_lag_error_ms).least_ms


def lag_now(
    commits: Sequence[Commit],
    ends: Ends | None,
    points: Sequence[Point],
    now_ms: int,
    window_ms: int,
    record_ms: int | None = None,
    moved_ms: int | None = None,
) -> Lag:
    """Return the lag. `commits` are the group's last ones, oldest first, at least one; `points` as returned by
    offset_timeline.curve. `moved_ms` is the time at which the group reached its offset, if that was before its last
    commit.
    """
    committed = commits[-1].offset
    moved_ms = commits[-1].time_ms if moved_ms is None else moved_ms
    produced = rate_per_s(points, now_ms - window_ms)
    consumed = _consumed_per_s(commits, now_ms - window_ms)
    if ends is None or ends.is_of_another_log(committed, moved_ms):
        method = NOT_KNOWN
        if ends is None:
            method = time_lag(committed, committed + 1, now_ms, points, record_ms).method
        return Lag(None, None, method, None, None, None, None, consumed, produced, None, _is_idle(produced))
    start = ends.log_start_offset
    lost = None if start is None else max(0, start - committed)
    oldest_unread = max(committed, start or 0)
    lag = max(0, ends.last_end - oldest_unread)
    told = time_lag(oldest_unread, ends.last_end, now_ms, points, None if lost else record_ms)
    left_ms = None if ends.retention_ms is None or not lag else max(0, ends.retention_ms - told.least_ms)
    gain = None if consumed is None or produced is None else consumed - produced
    return Lag(
        lag=lag,
        time_lag_ms=told.lag_ms,
        time_lag_method=told.method,
        time_lag_error_ms=told.error_ms,
        lost_records=lost,
        retention_margin=None if start is None else max(0, committed - start),
        retention_left_ms=left_ms,
        consumed_per_s=consumed,
        produced_per_s=produced,
        zero_in_s=0.0 if lag == 0 else lag / gain if gain is not None and gain > 0 else None,
        producer_idle=_is_idle(produced),
    )


def _is_idle(produced: float | None) -> bool | None:
    return None if produced is None else produced == 0


def _consumed_per_s(commits: Sequence[Commit], since_ms: int) -> float | None:
    recent = [commit for commit in commits if commit.time_ms >= since_ms]
    if len(recent) < 2 or recent[-1].time_ms <= recent[0].time_ms:
        return None
    return max(0, recent[-1].offset - recent[0].offset) * 1000 / (recent[-1].time_ms - recent[0].time_ms)


class Mark(NamedTuple):
    """A commit, and the bounds of the lag at its time; None if the lag is unknown."""

    offset: int
    time_ms: int
    lag: Bounds | None


class Lags:
    """The lags of a group's commits, oldest first, at times that the curve of the partition's ends covers."""

    def __init__(self, commits: Sequence[Commit], points: Sequence[Point]) -> None:
        self._commits = commits
        self._points = points
        self._moved_ms: list[int] = []
        """Time at which the group reached the offset of each commit; empty until it is needed."""

    def at(self, time_ms: int, number: int) -> Bounds | None:
        """Return the lag at a time at which the commit with index `number` was the last one; None if it is unknown."""
        end = end_offsets_at(time_ms, self._points)
        if end is None:
            return None
        committed = self._commits[number].offset
        if end.most < committed and self.is_of_another_log(number):
            return None
        return Bounds(max(0, end.least - committed), max(0, end.most - committed))

    def is_of_another_log(self, number: int) -> bool:
        """Return whether the commit with index `number` is beyond an end offset that was read later."""
        if not self._moved_ms:
            before: Commit | None = None
            for commit in self._commits:
                stays = before is not None and before.offset == commit.offset
                self._moved_ms.append(self._moved_ms[-1] if stays else commit.time_ms)
                before = commit
        moved_ms = self._moved_ms[number]
        later = bisect_right(self._points, moved_ms + CLOCKS_MS, key=attrgetter("time_ms"))
        if later == len(self._points):
            return False
        end_offset, sampled_ms = self._points[later]
        return Ends(None, end_offset, sampled_ms).is_of_another_log(self._commits[number].offset, moved_ms)


def marks(commits: Sequence[Commit], points: Sequence[Point]) -> list[Mark]:
    """Return the commits, each with the bounds of the lag at its time."""
    lags = Lags(commits, points)
    return [Mark(offset, at_ms, lags.at(at_ms, number)) for number, (offset, at_ms, _) in enumerate(commits)]


def with_lags(commits: Sequence[Commit], points: Sequence[Point]) -> list[Commit]:
    """Return the commits, each with the lag by the last end offset known at its time, as Burrow counts it."""
    return [
        Commit(mark.offset, mark.time_ms, None if mark.lag is None else mark.lag.least)
        for mark in marks(commits, points)
    ]

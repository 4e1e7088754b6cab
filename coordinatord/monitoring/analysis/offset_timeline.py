"""The age of the oldest record that a group has not read. Commits contain offsets, but the age needs the time at which
an offset was appended, and that is stored for few of them. The known data are points of the partition's end-offset
curve: the end offset at a time. Between two points only bounds are known: the records may have been appended right
after the first point or right before the second.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

CAUGHT_UP = "caught up"
"""No record is unread."""
RECORD = "record"
"""The record's own timestamp was read: exact, if the producers' clocks are exact."""
AT_LEAST = "at least"
"""The offset is older than the first point: the record has waited at least this long."""
AT_MOST = "at most"
"""The offset is newer than a point: the record has waited at most this long."""
UNKNOWN = "unknown"
"""No earlier point of the partition is known."""


class Point(NamedTuple):
    """At `time_ms` the partition's end offset was `offset`: exactly the records below it had been appended."""

    offset: int
    time_ms: int


class Bounds(NamedTuple):
    """The least and the greatest possible value of a count."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class TimeLag:
    """Milliseconds, at `now_ms`, since the oldest unread record was appended; None if unknown. With AT_MOST the true
    value is less by `error_ms` at most.
    """

    lag_ms: int | None
    method: str
    error_ms: int | None = None

    @property
    def least_ms(self) -> int:
        """Return the least time in milliseconds that the record has waited."""
        return max(0, (self.lag_ms or 0) - (self.error_ms or 0))


def curve(points: Sequence[Point]) -> list[Point]:
    """Sort points for `time_lag`, so that neither time nor offset ever falls.

    A topic that was deleted and recreated starts again: points of the former topic are dropped.
    """
    ordered: list[Point] = []
    for point in sorted(points, key=attrgetter("time_ms", "offset")):
        while ordered and ordered[-1].offset > point.offset:
            ordered.pop()
        ordered.append(point)
    return ordered


def time_lag(committed: int, end: int, now_ms: int, points: Sequence[Point], record_ms: int | None = None) -> TimeLag:
    """Return the lag of a group whose next record is `committed`, in a partition that ends at `end`.

    `points` are as returned by `curve`; `record_ms` is the timestamp of the record at `committed`, if it was read.
    """
    if committed >= end:
        return TimeLag(0, CAUGHT_UP, 0)
    if record_ms is not None:
        return TimeLag(max(0, now_ms - record_ms), RECORD, 0)
    # The record at `committed` was appended after the last point at or below it, and before the first above it.
    at = bisect_right(points, committed, key=attrgetter("offset"))
    least_ms = max(0, now_ms - points[at].time_ms) if at < len(points) else 0
    if at == 0:
        # The single point of a first sample only shows that the record exists at that time.
        return TimeLag(least_ms, AT_LEAST) if least_ms else TimeLag(None, UNKNOWN)
    most_ms = max(0, now_ms - points[at - 1].time_ms)
    return TimeLag(most_ms, AT_MOST, most_ms - least_ms)


def end_offsets_at(time_ms: int, points: Sequence[Point]) -> Bounds | None:
    """Return the bounds of the partition's end offset at a time: the last known one before, and the next known one.
    None before the first point and after the last.
    """
    after = bisect_left(points, time_ms, key=attrgetter("time_ms"))
    before = bisect_right(points, time_ms, lo=after, key=attrgetter("time_ms")) - 1
    if before < 0 or after == len(points):
        return None
    least, most = points[before].offset, points[after].offset
    return Bounds(min(least, most), max(least, most))


def rate_per_s(points: Sequence[Point], since_ms: int) -> float | None:
    """Return the records per second appended since then, up to the last point; None without two points."""
    recent = [point for point in points if point.time_ms >= since_ms]
    if len(recent) < 2 or recent[-1].time_ms == recent[0].time_ms:
        return None
    return (recent[-1].offset - recent[0].offset) * 1000 / (recent[-1].time_ms - recent[0].time_ms)

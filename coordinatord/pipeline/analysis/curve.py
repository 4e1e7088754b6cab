"""The age of the oldest record that a group has not read. Commits give offsets, but the age needs the time at which an
offset was appended, and that is stored for few of them. What is known are points of the partition's end-offset curve:
the end offset at a time. A time between two points is interpolated, with a bound of its error; a time outside all
points is bounded on one side, and marked so. Nothing is guessed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

CAUGHT_UP = "caught up"
"""Nothing is unread."""
RECORD = "record"
"""The record's own timestamp was read: exact, if the producers' clocks are."""
INTERPOLATED = "interpolated"
AT_LEAST = "at least"
"""The offset is older than the first point: the record has waited at least this long."""
AT_MOST = "at most"
"""The offset is newer than the last point: the record has waited at most this long."""
UNKNOWN = "unknown"
"""No earlier point of the partition is known."""


class Point(NamedTuple):
    """At `time_ms` the partition's end offset was `offset`: exactly the records below it had been appended."""

    offset: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class TimeLag:
    """Milliseconds, at `now_ms`, since the oldest unread record was appended; None if unknown. The true value differs
    by at most `error_ms`, if that is known.
    """

    lag_ms: int | None
    method: str
    error_ms: int | None = None


def curve(points: Sequence[Point]) -> list[Point]:
    """Sort points for `time_lag`: neither time nor offset ever falls.

    A topic that was deleted and recreated starts again: points of the former one are dropped.
    """
    ordered: list[Point] = []
    for point in sorted(points, key=attrgetter("time_ms", "offset")):
        while ordered and ordered[-1].offset > point.offset:
            ordered.pop()
        ordered.append(point)
    return ordered


def time_lag(committed: int, end: int, now_ms: int, points: Sequence[Point], record_ms: int | None = None) -> TimeLag:
    """The lag of a group whose next record is `committed`, in a partition that ends at `end`.

    `points` as returned by `curve`; `record_ms` is the timestamp of the record at `committed`, if it was read.
    """
    if committed >= end:
        return TimeLag(0, CAUGHT_UP, 0)
    if record_ms is not None:
        return TimeLag(max(0, now_ms - record_ms), RECORD, 0)
    # The record at `committed` was appended after the last point at or below it, and before the first above it.
    at = bisect_right(points, committed, key=attrgetter("offset"))
    before = points[at - 1] if at else None
    after = points[at] if at < len(points) else None
    if before is None and after is None:
        return TimeLag(None, UNKNOWN)
    if before is None:
        assert after is not None
        # Of a first look's one point nothing follows but that the record is there now.
        return TimeLag(now_ms - after.time_ms, AT_LEAST) if after.time_ms < now_ms else TimeLag(None, UNKNOWN)
    if after is None:
        return TimeLag(max(0, now_ms - before.time_ms), AT_MOST, max(0, now_ms - before.time_ms))
    share = (committed - before.offset) / (after.offset - before.offset)
    appended_ms = before.time_ms + share * (after.time_ms - before.time_ms)
    error_ms = max(appended_ms - before.time_ms, after.time_ms - appended_ms)
    return TimeLag(max(0, round(now_ms - appended_ms)), INTERPOLATED, round(error_ms))


def end_offset_at(time_ms: int, points: Sequence[Point]) -> float | None:
    """The partition's end offset at a time, interpolated; None before the first point and after the last."""
    at = bisect_left(points, time_ms, key=attrgetter("time_ms"))
    if at < len(points) and points[at].time_ms == time_ms:
        return points[at].offset
    if at in (0, len(points)):
        return None
    before, after = points[at - 1], points[at]
    share = (time_ms - before.time_ms) / (after.time_ms - before.time_ms)
    return before.offset + share * (after.offset - before.offset)


def rate_per_s(points: Sequence[Point], since_ms: int) -> float | None:
    """Records a second appended since then, up to the last point; None where there are no two points."""
    recent = [point for point in points if point.time_ms >= since_ms]
    if len(recent) < 2 or recent[-1].time_ms == recent[0].time_ms:
        return None
    return (recent[-1].offset - recent[0].offset) * 1000 / (recent[-1].time_ms - recent[0].time_ms)

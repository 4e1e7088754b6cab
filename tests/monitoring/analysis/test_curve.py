"""Lag as time: what is known exactly, between what it lies otherwise, and never a guess."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coordinatord.monitoring.analysis.offset_timeline import Point, TimeLag, curve, end_offsets_at, rate_per_s, time_lag

POINTS = [Point(0, 1_000), Point(100, 2_000), Point(100, 3_000), Point(300, 5_000)]


def test_rows() -> None:
    now_ms = 10_000
    assert time_lag(300, 300, now_ms, POINTS) == TimeLag(0, "caught up", 0)
    assert time_lag(310, 300, now_ms, POINTS) == TimeLag(0, "caught up", 0), "a commit beyond a stale end offset"
    assert time_lag(50, 300, now_ms, POINTS, record_ms=1_700) == TimeLag(8_300, "record", 0)
    assert time_lag(50, 300, now_ms, POINTS, record_ms=99_000) == TimeLag(0, "record", 0), "a producer's clock is ahead"
    assert time_lag(50, 300, now_ms, POINTS) == TimeLag(9_000, "at most", 1_000)
    # Nothing was written between 2,000 and 3,000: record 100 came after that, and before 5,000.
    assert time_lag(100, 300, now_ms, POINTS) == TimeLag(7_000, "at most", 2_000)
    assert time_lag(300, 400, now_ms, POINTS) == TimeLag(5_000, "at most", 5_000)
    assert time_lag(5, 400, now_ms, [Point(10, 4_000)]) == TimeLag(6_000, "at least")
    assert time_lag(5, 400, now_ms, []) == TimeLag(None, "unknown")


def test_a_topic_that_was_made_anew() -> None:
    assert curve([Point(500, 1_000), Point(900, 2_000), Point(3, 3_000), Point(10, 4_000)]) == [
        Point(3, 3_000),
        Point(10, 4_000),
    ]
    assert curve([Point(10, 4_000), Point(5, 1_000)]) == [Point(5, 1_000), Point(10, 4_000)]


def test_the_end_offset_at_a_time_and_the_rate() -> None:
    assert end_offsets_at(2_500, POINTS) == (100, 100), "nothing was written"
    assert end_offsets_at(4_000, POINTS) == (100, 300), "no line is drawn between two looks"
    assert end_offsets_at(5_000, POINTS) == (300, 300)
    assert end_offsets_at(999, POINTS) is None
    assert end_offsets_at(5_001, POINTS) is None
    assert end_offsets_at(1, [Point(1, 1), Point(4, 1)]) == (1, 4), "two looks in one millisecond"
    assert rate_per_s(POINTS, 2_000) == 200 / 3
    assert rate_per_s(POINTS, 5_000) is None


@given(
    steps=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5_000)), min_size=2, max_size=60),
    every=st.integers(1, 10),
    data=st.data(),
)
def test_the_truth_is_within_the_bound(steps: list[tuple[int, int]], every: int, data: st.DataObject) -> None:
    """Records are appended at random times, and the end offset is looked at now and then."""
    appended: list[int] = []
    points = [Point(0, 0)]
    now_ms = 0
    for number, (records, pause_ms) in enumerate(steps):
        now_ms += pause_ms
        appended += [now_ms] * records
        if number % every == 0:
            points.append(Point(len(appended), now_ms))
    committed = data.draw(st.integers(0, len(appended)))
    told = time_lag(committed, len(appended), now_ms, curve(points))
    if committed == len(appended):
        assert told == TimeLag(0, "caught up", 0)
        return
    truth_ms = now_ms - appended[committed]
    assert told.lag_ms is not None
    assert told.error_ms is not None
    assert told.lag_ms >= 0
    assert told.method == "at most"
    assert told.least_ms <= truth_ms <= told.lag_ms == told.least_ms + told.error_ms

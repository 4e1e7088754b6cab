"""Lag now and in the course of time, of one group in one partition."""

from __future__ import annotations

from coordinatord.monitoring.analysis.burrow import Commit
from coordinatord.monitoring.analysis.ends import CLOCKS_MS, Ends
from coordinatord.monitoring.analysis.lag import lag_now, marks, with_lags
from coordinatord.monitoring.analysis.offset_timeline import Point
from coordinatord.monitoring.offsets_log.lag.lag_history import MAX_STEPS
from tests.monitoring.offsets_log.lag.test_lag_history import history

NOW_MS = 100_000
POINTS = [Point(0, 0), Point(1_000, 50_000), Point(2_000, 100_000)]  # twenty records a second
COMMITS = [Commit(500, 60_000, None), Commit(1_000, 80_000, None), Commit(1_500, 100_000, None)]


def test_a_group_that_gains() -> None:
    lag = lag_now(COMMITS, Ends(100, 2_000, NOW_MS), POINTS, NOW_MS, 60_000)
    assert lag.lag == 500
    assert (lag.time_lag_ms, lag.time_lag_method, lag.time_lag_error_ms) == (50_000, "at most", 50_000)
    assert lag.waited_ms == 0, "the record may have come a moment ago"
    assert (lag.lost_records, lag.retention_margin) == (0, 1_400)
    assert (lag.consumed_per_s, lag.produced_per_s) == (25, 20)
    assert lag.zero_in_s == 100
    assert lag.producer_idle is False


def test_a_commit_beyond_a_stale_end_offset_is_no_negative_lag() -> None:
    lag = lag_now(COMMITS, Ends(0, 1_200, NOW_MS), POINTS, NOW_MS, 60_000)
    assert (lag.lag, lag.time_lag_ms, lag.zero_in_s) == (0, 0, 0)


def test_an_offset_that_the_partition_never_reached_again_is_not_called_caught_up() -> None:
    """The topic was deleted and made again: all that is there may be unread."""
    later = Ends(0, 40, COMMITS[-1].time_ms + CLOCKS_MS + 1)
    lag = lag_now(COMMITS, later, [], later.sampled_ms, 60_000)
    assert (lag.lag, lag.time_lag_ms, lag.time_lag_method) == (None, None, "unknown")
    at_once = Ends(0, 40, COMMITS[-1].time_ms + CLOCKS_MS)
    assert lag_now(COMMITS, at_once, [], at_once.sampled_ms, 60_000).lag == 0


def test_history_does_not_call_it_caught_up_either() -> None:
    """The topic was made anew at 300 s: of its former log the curve has nothing, and nobody knows how far behind the
    group was. From its first commit in the new one on its lag is known.
    """
    points = [Point(0, 0), Point(0, 300_000), Point(40, 400_000), Point(80, 500_000)]
    offsets = [(900, 20_000), (1_000, 80_000), (1_000, 200_000), (1_000, 350_000), (10, 410_000), (60, 480_000)]
    commits = [Commit(offset, time_ms, None) for offset, time_ms in offsets]
    assert history(commits, points, 50_000) == [(450_000, 10, 30, 70), (500_000, 60, 20, 20)]
    assert [mark.lag for mark in marks(commits, points)] == [None, None, None, None, (30, 70), (0, 20)]
    assert [commit.lag for commit in with_lags(commits, points)] == [None, None, None, None, 30, 0]


def test_history_of_one_that_reads_nothing_and_commits_the_former_offset_again_and_again() -> None:
    """Looks and commits are closer together than clocks may differ."""
    points = [Point(0, 0), *(Point((at_ms - 100_000) // 20_000, at_ms) for at_ms in range(100_000, 500_001, 20_000))]
    commits = [Commit(1_000, at_ms, None) for at_ms in range(90_000, 500_001, 20_000)]
    assert history(commits, points, 20_000) == []
    assert {commit.lag for commit in with_lags(commits, points)} == {None}


def test_history_of_a_group_that_is_ahead_of_a_rare_look() -> None:
    """All records came right after the first look: between two looks the group is beyond the straight line."""
    points = [Point(0, 0), Point(1_000, 600_000), Point(1_000, 1_200_000)]
    commits = [Commit(1_000, 10_000, None), Commit(1_000, 700_000, None)]
    assert {lag[2:] for lag in history(commits, points, 100_000)} == {(0, 0)}
    ahead = [Commit(1_040, 1_190_000, None)]  # of clocks, or since the last look
    assert [commit.lag for commit in with_lags(ahead, points)] == [0]


def test_history_where_the_coordinators_clock_went_back() -> None:
    """Another broker took the group over at 60 s, and its clock is half a minute behind: its commits are later ones."""
    told = [(500, 20_000), (900, 60_000), (1_000, 30_000), (1_100, 50_000), (1_500, 90_000)]
    commits = [Commit(offset, time_ms, None) for offset, time_ms in told]
    found = {at_ms: offset for at_ms, offset, *_ in history(commits, POINTS, 20_000)}
    assert lag_now(commits[1:3], None, [], 100_000, 90_000).consumed_per_s is None, "in no time at all"
    assert found == {20_000: 500, 40_000: 500, 60_000: 1_100, 80_000: 1_100, 100_000: 1_500}


def test_what_retention_took_is_lost_and_no_lag() -> None:
    lag = lag_now(COMMITS[:1], Ends(800, 2_000, NOW_MS), POINTS, NOW_MS, 60_000, record_ms=1)
    assert (lag.lag, lag.lost_records, lag.retention_margin) == (1_200, 300, 0)
    assert lag.time_lag_method == "at most", "the timestamp was another record's"
    assert (lag.consumed_per_s, lag.zero_in_s) == (None, None)


def test_without_the_end_offset_nothing_is_guessed() -> None:
    lag = lag_now(COMMITS, None, [], NOW_MS, 60_000)
    assert (lag.lag, lag.time_lag_ms, lag.time_lag_method, lag.zero_in_s) == (None, None, "unknown", None)
    assert lag.consumed_per_s == 25


def test_an_idle_producer_is_told_from_a_stuck_consumer() -> None:
    idle = [*POINTS, Point(2_000, 200_000), Point(2_000, 260_000)]
    lag = lag_now([Commit(1_500, 250_000, None)], Ends(0, 2_000, 260_000), idle, 260_000, 60_000)
    assert lag.producer_idle is True
    assert lag.lag == 500


def test_lags_of_commits_and_history() -> None:
    assert [mark.lag for mark in marks(COMMITS, POINTS)] == [(500, 1_500), (0, 1_000), (500, 500)]
    assert [commit.lag for commit in with_lags(COMMITS, POINTS)] == [500, 0, 500]
    assert with_lags([Commit(5, 200_000, None)], POINTS)[0].lag is None
    assert history(COMMITS, POINTS, 20_000) == [
        (60_000, 500, 500, 1_500),
        (80_000, 1_000, 0, 1_000),
        (100_000, 1_500, 500, 500),
    ]
    assert history(COMMITS, [], 20_000) == []
    assert len(history([Commit(0, 0, None)], POINTS, 1)) <= MAX_STEPS + 1

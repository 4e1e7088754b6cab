"""The status of a group in a partition: each row of the table, and what Burrow's users complain of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from coordinatord.monitoring.analysis.burrow import Commit
from coordinatord.monitoring.analysis.commit_window import Trail
from coordinatord.monitoring.analysis.current_lag import Now, Partition, standing
from coordinatord.monitoring.analysis.ends import Ends, Open, Tail
from coordinatord.monitoring.analysis.lag import Lag, Mark
from coordinatord.monitoring.analysis.offset_timeline import AT_LEAST, UNKNOWN, Bounds, Point
from coordinatord.monitoring.analysis.status import Members, Rules, Status, partition_status

RULES = Rules(window_ms=60_000, min_lag=10)
NOW_MS = 1_000_000
HOUR_MS = 3_600_000


def commits(*each: tuple[int, int, int | None]) -> list[Commit]:
    """(seconds ago, offset, lag)"""
    return [Commit(offset, NOW_MS - ago_s * 1000, lag) for ago_s, offset, lag in each]


def told(
    each: list[Commit],
    lag: int | None,
    members: Members,
    rules: Rules = RULES,
    waited_ms: int | None = None,
) -> Status:
    """`waited_ms` is for how long records have waited at least; ten hours if it is not given."""
    trail = Trail(rules.window_ms, each)
    marks = [
        Mark(offset, time_ms, None if lag is None else Bounds(lag, lag))
        for offset, time_ms, lag in trail.window(NOW_MS - rules.window_ms)
    ]
    seen = of_lag(lag, 10 * HOUR_MS if waited_ms is None else waited_ms)
    return partition_status(trail, marks, seen, NOW_MS, members=members, rules=rules)


def of_lag(lag: int | None, waited_ms: int, lost: int = 0) -> Lag:
    method = AT_LEAST if waited_ms else UNKNOWN
    return Lag(lag, waited_ms or None, method, None, lost, None, None, None, None, None, None)


STEADY = [(ago_s, 1_000 - ago_s, 50) for ago_s in range(70, 0, -5)]

CASES: dict[str, tuple[list[tuple[int, int, int | None]], int | None, bool | None, str]] = {
    "end offset unknown": (STEADY, None, True, "unknown"),
    "caught up": (STEADY, 0, True, "ok"),
    "fewer than count": (STEADY, 9, True, "ok"),
    "about the same lag": (STEADY, 51, True, "behind"),
    "what has come since the last commit": (
        [(ago_s, 1_000 - ago_s, 20) for ago_s in range(79, 0, -20)],
        39,
        True,
        "behind",
    ),
    "growing": ([(ago_s, 1_000 - ago_s, 200 - ago_s) for ago_s in range(70, 0, -5)], 210, True, "falling"),
    "shrinking": ([(ago_s, 1_000 - ago_s, 200 + ago_s) for ago_s in range(70, 0, -5)], 200, True, "catching"),
    "shrank, and has been silent since": (
        [(ago_s, 1_000 - ago_s, 200 + ago_s) for ago_s in range(70, 45, -1)],
        900,
        True,
        "falling",
    ),
    "commits and does not move": ([(ago_s, 1_000, 50) for ago_s in range(70, 0, -5)], 50, True, "stuck"),
    "one commit a window ago is no standstill": ([(70, 500, 50), (60, 900, 50)], 50, True, "behind"),
    "two commits a window ago are one": ([(70, 500, 50), (60, 900, 50), (60, 900, 50)], 50, True, "stuck"),
    "a short pause is no standstill": ([(ago_s, 1_000, 50) for ago_s in range(20, 0, -5)], 50, True, "behind"),
    "went back": ([(70, 500, 50), (40, 900, 50), (10, 200, 800)], 800, True, "rewound"),
    "went back and is there again": ([(70, 500, 50), (40, 200, 400), (10, 900, 50)], 50, True, "behind"),
    "went back and is just there again": ([(70, 500, 50), (40, 200, 400), (10, 500, 50)], 50, True, "behind"),
    "no commit any more": ([(ago_s, 1_000 - ago_s, 50) for ago_s in range(170, 100, -5)], 500, True, "stopped"),
    "the same without members": ([(ago_s, 1_000 - ago_s, 50) for ago_s in range(170, 100, -5)], 500, False, "ended"),
    "the same, never a member": ([(ago_s, 1_000 - ago_s, 50) for ago_s in range(170, 100, -5)], 500, None, "stopped"),
    "one commit long ago, never a member": ([(170, 100, 50)], 500, None, "ended"),
    "without members it catches nothing up": (
        [(ago_s, 1_000 - ago_s, 200 + ago_s) for ago_s in range(70, 30, -5)],
        200,
        False,
        "ended",
    ),
    "commits once an hour": ([(8_000, 100, 50), (4_400, 200, 50), (800, 300, 50)], 500, True, "behind"),
    "did once an hour, not any more": ([(22_400, 100, 50), (18_800, 200, 50), (15_200, 300, 50)], 500, True, "stopped"),
    "one commit": ([(5, 100, 50)], 50, True, "behind"),
    "lags unknown": ([(70, 100, None), (5, 200, None)], 50, True, "behind"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_row(name: str) -> None:
    each, lag, has_members, expected = CASES[name]
    found = told(commits(*each), lag, Members(has_members))
    assert found.status == expected, found
    assert found.why


@pytest.mark.parametrize(
    ("quiet_s", "words"), [(7_199, "7199 s"), (7_200, "2 h"), (172_799, "47 h"), (45_901_901, "531 d")]
)
def test_long_durations_are_in_hours_and_days(quiet_s: int, words: str) -> None:
    found = told(
        commits((quiet_s + 5, 100, 50), (quiet_s, 200, 50)), 500, Members(True), waited_ms=100 * quiet_s * 1000
    )
    assert found.why == f"no commit for {words}, 500 unread"


def test_figures_of_two_moments_are_told_with_their_moments() -> None:
    growing = [(ago_s, 1_000 - ago_s, 200 - ago_s) for ago_s in range(70, 0, -5)]
    found = told(commits(*growing), 999, Members(True))
    assert found.why == "999 unread: 145 (median) at its commits 65 to 40 s ago, 180 at those 30 to 5 s ago"
    more = told(commits(*((ago_s, 1_000 - ago_s, 50) for ago_s in range(70, 0, -5))), 50, Members(True))
    assert (more.status, more.why) == ("behind", "50 unread, and it is not certain that this grows or shrinks")
    silent = told(commits((58, 90, 40), (50, 100, 20), (40, 200, 30)), 95, Members(True))
    assert (silent.status, silent.why) == ("falling", "95 unread: 30 (median) at its commits 58 to 40 s ago")


def test_a_trend_needs_looks_a_span_and_a_size() -> None:
    """A healthy group is between two commits whenever it is looked at."""
    two = told(commits((3, 100, 0), (1, 140, 1)), 1, Members(True), Rules(window_ms=60_000))
    assert (two.status, two.why) == ("behind", "1 unread")
    assert told(commits((40, 100, 20), (10, 200, 900)), 950, Members(True)).status == "behind", "two commits"
    soon = [(ago_s, 1_000 - ago_s, 200 - 10 * ago_s) for ago_s in range(12, 0, -1)]
    assert told(commits(*soon), 200, Members(True)).status == "behind", "twelve seconds of a window of sixty"
    small = [(ago_s, 1_000 - ago_s, 1 + (ago_s < 30)) for ago_s in range(58, 0, -4)]
    assert told(commits(*small), 2, Members(True), Rules(window_ms=60_000)).status == "behind", "one record more"


def test_a_trend_is_certain_or_it_is_none() -> None:
    """Of the end offset two looks are known, 11 minutes apart: all 20,000 records may have come at any time between."""
    looks = [(660, 0), (0, 20_000)]
    for each in ([(ago_s, 30 * (660 - ago_s)) for ago_s in range(600, 0, -10)], [(ago_s, 0) for ago_s in (600, 500)]):
        row = row_of_commits(each, looks)
        assert (row.status, row.alarming) == ("behind", False), row


@pytest.mark.parametrize("every_s", [1, 5, 30, 60])
def test_the_lag_of_a_healthy_group_swings(every_s: int) -> None:
    """Whatever it happens to be at the first commit of a window and at the last: looked at 200 times."""
    random = Random(every_s)
    rules = Rules()

    def looked(lag_at: Callable[[float], float]) -> Counter[str]:
        """`lag_at` is called with 0 at the begin of the window, to 1 at its end."""
        statuses: Counter[str] = Counter()
        for _ in range(200):
            ago = range(600, 0, -every_s)
            each = [(ago_s, 10_000 - ago_s, round(lag_at(1 - ago_s / 600) + random.uniform(-25, 25))) for ago_s in ago]
            statuses[told(commits(*each), each[-1][2], Members(True), rules).status] += 1
        return statuses

    assert looked(lambda _at: 30)["behind"] >= 190
    assert looked(lambda _at: 1_000)["behind"] == 200
    assert looked(lambda at: 100 + 200 * at)["falling"] >= 190
    assert looked(lambda at: 1_000 - 200 * at)["catching"] >= 190


def test_a_simple_consumer_needs_no_members() -> None:
    """It commits after the group has lost its members: somebody reads, without being one."""
    gone_ms = NOW_MS - 50_000
    assert told(commits(*STEADY), 50, Members(False, gone_ms), waited_ms=5_000).status == "behind"
    assert told(commits(*STEADY), 50, Members(False, NOW_MS)).status == "ended"


@pytest.mark.parametrize("every_s", [1, 5, 10, 60, 300])
def test_stuck_however_often_it_commits(every_s: int) -> None:
    """The same offset for an hour, at a lag of 7,100, with records coming in: a window is a time."""
    rules = Rules()
    points = [Point(10_000 + 7_100 - ago_s // 600, NOW_MS - ago_s * 1000) for ago_s in range(7_200, -1, -60)]
    partition = Partition.of("t", 0, Ends(0, 17_100, NOW_MS), points)
    began = [Commit(9_000 + ago_s, NOW_MS - (7_200 - ago_s) * 1000, None) for ago_s in range(0, 1_000, every_s)]
    same = [Commit(10_000, NOW_MS - ago_s * 1000, None) for ago_s in range(3_600, 0, -every_s)]
    trail = Trail(rules.window_ms, [*began, *same])
    row = standing("g", trail, partition, NOW_MS, members=Members(True), rules=rules)
    assert (row.status, row.lag, row.moved_ms) == ("stuck", 7_100, NOW_MS - HOUR_MS)
    assert row.why == "it has committed offset 10000 for 3600 s, 7100 unread"


@pytest.mark.parametrize("every_s", [1, 5, 10])
def test_a_step_back_is_seen_for_a_window(every_s: int) -> None:
    rules = Rules()

    def after(back_s: int) -> str:
        up = [Commit(50_000 - ago_s, NOW_MS - ago_s * 1000, 10) for ago_s in range(3_600, back_s, -every_s)]
        down = [Commit(20_000 - ago_s, NOW_MS - ago_s * 1000, 10) for ago_s in range(back_s, 0, -every_s)]
        return told([*up, *down], 30_000, Members(True), rules).status

    assert (after(550), after(610)) == ("rewound", "behind")


def row_of_commits(
    each: list[tuple[int, int]], end_points: list[tuple[int, int]], members: Members | None = None, **ends: Any
) -> Now:
    """(seconds ago, committed offset), and (seconds ago, end offset) of the partition."""
    points = [Point(offset, NOW_MS - ago_s * 1000) for ago_s, offset in end_points]
    trail = Trail(600_000, [Commit(offset, NOW_MS - ago_s * 1000, None) for ago_s, offset in each])
    tail = Tail(**{name: ends.pop(name) for name in Tail._fields if name in ends})
    known = Ends(**{"log_start_offset": 0, "end_offset": points[-1].offset, "sampled_ms": NOW_MS, "tail": tail} | ends)
    partition = Partition.of("t", 0, known, points)
    return standing("g", trail, partition, NOW_MS, members=members or Members(True), rules=Rules())


def row_of(offset_since_s: int, end_points: list[tuple[int, int]], every_s: int = 5) -> Now:
    """A group that has committed offset 100 since then; (seconds ago, end offset) of the partition."""
    return row_of_commits([(ago_s, 100) for ago_s in range(offset_since_s, 0, -every_s)], end_points)


def test_an_idle_consumer_has_time_to_read_what_comes() -> None:
    """It had read everything for an hour. A record has come three seconds ago."""
    idle = [(ago_s, 100) for ago_s in range(3_600, 3, -60)]
    assert row_of(3_600, [*idle, (3, 100), (0, 101)]).status == "behind"
    assert row_of(3_600, [*idle, (3, 100), (0, 101)], every_s=3_600).status == "behind", "it commits what is new only"
    earlier = [(ago_s, 100 if ago_s > 700 else 101) for ago_s in range(3_600, -1, -60)]
    assert row_of(3_600, earlier).status == "stuck"
    assert row_of(3_600, earlier, every_s=3_600).status == "stopped"


def test_a_record_that_came_between_two_looks_has_not_waited_since_the_first() -> None:
    """An idle topic, two looks 11 minutes apart, and one record 4 s before the second."""
    for every_s in (5, 3_600):
        row = row_of(3_600, [(660, 100), (0, 101)], every_s)
        assert (row.status, row.alarming) == ("behind", False)
        assert (row.time_lag_ms, row.time_lag_method, row.time_lag_error_ms) == (660_000, "at most", 660_000)
    assert "the oldest for 660 s at most, 0 s at least" in row_of(3_600, [(660, 100), (0, 101)], 3_600).why
    assert row_of(3_600, [(660, 101), (0, 101)]).status == "stuck", "it was there at the first look"


def test_members_that_expired_and_records_that_come_alarm_first() -> None:
    growing = [(ago_s, 1_000 - ago_s) for ago_s in range(900, -1, -5)]
    read_all = [(ago_s, 1_000 - ago_s) for ago_s in range(900, 300, -5)]

    def lost_members(how: str | None, end_points: list[tuple[int, int]] = growing, ago_s: int = 250) -> Now:
        return row_of_commits(read_all, end_points, Members(False, NOW_MS - ago_s * 1000, how))

    row = lost_members("expired")
    assert (row.status, row.alarming) == ("members expired", True)
    assert row.why == "the session of its last member expired 250 s ago; 305 unread, 250 of them have come since"
    left = lost_members("left")
    assert (left.status, left.alarming) == ("ended", False)
    assert left.why == "its last member left 250 s ago; it committed last 305 s ago; 305 unread"
    assert lost_members(None).status == "ended"
    idle = [(ago_s, min(1_000 - ago_s, 720)) for ago_s in range(900, -1, -5)]
    assert lost_members("expired", idle).status == "ended", "nothing has come since"
    assert lost_members("expired", [(900, 100), (0, 1_000)]).status == "ended", "it may all have come before"
    assert lost_members("expired", [(100, 900), (0, 1_000)]).why.endswith("305 unread, 100 of them have come since")


def test_a_topic_that_no_member_subscribes_to_any_more_alarms_nobody() -> None:
    commits_of = [(ago_s, 10_000 - ago_s) for ago_s in range(9_000, 3_600, -5)]
    ends = [(ago_s, 10_000 - ago_s) for ago_s in range(9_000, -1, -60)]
    for topics, expected in ((frozenset({"u"}), "unsubscribed"), (frozenset({"t"}), "stopped"), (None, "stopped")):
        row = row_of_commits(commits_of, ends, Members(True, topics=topics))
        assert (row.status, row.alarming) == (expected, expected == "stopped")
    gone = row_of_commits(commits_of, ends, Members(True, topics=frozenset({"u"})), log_start_offset=7_000)
    assert (gone.status, gone.alarming, gone.lost_records) == ("unsubscribed", False, 605)


def test_records_that_were_deleted_unread_are_lost() -> None:
    """20 of 100 are read; DeleteRecords has removed all of them."""
    ends = [(ago_s, 100) for ago_s in range(900, -1, -5)]
    for members in (Members(True), Members(), Members(False, NOW_MS - 60_000, "left")):
        row = row_of_commits([(300, 20)], ends, members, log_start_offset=100)
        assert (row.status, row.alarming, row.lag, row.lost_records) == ("records lost", True, 0, 80)
        assert row.why == "lost 80 records, deleted at offset 20 before they were read; 0 unread"
    for members in (Members(), Members(False, NOW_MS - 100_000_000, "left")):
        away = row_of_commits([(100_000, 20)], ends, members, log_start_offset=60)
        assert (away.status, away.alarming, away.lost_records) == ("ended", False, 40)
        assert "40 unread, and 40 deleted before they were read" in away.why
    assert row_of_commits([(300, 100)], ends, log_start_offset=100).status == "ok"


def test_a_warning_before_retention_passes_the_committed_offset() -> None:
    """It is slow: the record at its offset was written an hour ago, and is kept for 70 minutes."""
    ends = [(ago_s, 10_000 - ago_s) for ago_s in range(7_200, -1, -10)]
    slow = [(ago_s, 6_400 - ago_s // 10) for ago_s in range(600, -1, -10)]
    row = row_of_commits(slow, ends, retention_ms=4_200_000)
    assert (row.status, row.alarming, row.retention_left_ms) == ("near loss", True, 610_000)
    assert row.why == "3600 unread, the oldest for at least 3590 s: retention.ms is 4200 s"
    assert row_of_commits(slow, ends, retention_ms=7_200_000).status == "falling"
    assert row_of_commits(slow, ends).retention_left_ms is None


def test_the_tail_of_markers_is_no_lag() -> None:
    """A transaction's 9 records end at 99, its marker at 100; later came aborted records and their marker."""
    ends = [(ago_s, 103) for ago_s in range(3_600, -1, -60)]
    same = [(ago_s, 99) for ago_s in range(3_600, 0, -5)]
    assert row_of_commits(same, ends).status == "stuck"
    row = row_of_commits(same, ends, readable_end=99)
    assert (row.status, row.lag, row.time_lag_ms, row.end_offset) == ("ok", 0, 0, 103)
    assert row.why == "nothing is unread: 4 markers and aborted records come behind"
    before = [(ago_s, 102) for ago_s in range(3_600, 0, -5)]
    row = row_of_commits(before, ends, readable_end=102)
    assert row.why == "nothing is unread: 1 marker or aborted record comes behind"
    assert row_of_commits([(ago_s, 98) for ago_s in range(3_600, 0, -5)], ends, readable_end=99).status == "stuck"


def test_a_group_that_reads_committed_records_waits_for_an_open_transaction() -> None:
    ends = [(ago_s, 150) for ago_s in range(3_600, -1, -60)]
    same = [(ago_s, 100) for ago_s in range(3_600, 0, -5)]
    opened = Open(4_000, NOW_MS - 1_000_000, "payments-0")
    row = row_of_commits(same, ends, stable_offset=100, open=opened)
    assert (row.status, row.alarming, row.lag) == ("waiting", False, 50)
    assert row.why == "50 unread: it waits for an open transaction of producer 4000 (payments-0), open for 1000 s"
    unnamed = row_of_commits(same, ends, stable_offset=101, stable_end=100)
    assert unnamed.status == "waiting"
    assert unnamed.why == "50 unread: it waits for an open transaction that begins at offset 101"
    assert row_of_commits(same, ends, stable_offset=101).status == "stuck", "the record at 100 can be read"
    assert row_of_commits(same, ends, stable_offset=90).status == "stuck", "it reads uncommitted records, too"
    assert row_of_commits(same, ends, stable_offset=150).status == "stuck", "no transaction is open"


def test_the_rhythm_is_what_fills_the_time() -> None:
    minute = Trail(600_000, [Commit(0, at_s * 1000, 0) for at_s in (*range(0, 100, 5), *range(1_000, 1_100, 5))])
    assert minute.rhythm_ms == 0, "one long pause is no rhythm"
    assert Trail(600_000, [Commit(0, 0, 0)]).rhythm_ms == 0
    bursts = [hour * HOUR_MS + at_s * 1000 for hour in range(4) for at_s in range(150)]
    assert Trail(600_000, [Commit(0, at_ms, 0) for at_ms in bursts]).rhythm_ms == HOUR_MS - 149_000
    assert Trail(600_000, [Commit(0, at_s * 1000, 0) for at_s in range(0, 3_000, 250)]).rhythm_ms == 250_000
    outages = [at_s * 1000 for at_s in range(100_000) if not 30_000 < at_s < 40_000 and not 70_000 < at_s < 80_000]
    assert Trail(600_000, [Commit(0, at_ms, 0) for at_ms in outages]).rhythm_ms == 0


def test_a_first_look_does_not_say_how_long_records_have_waited() -> None:
    row = row_of(3_600, [(0, 19_473)])
    assert (row.lag, row.time_lag_ms, row.time_lag_method) == (19_373, None, "unknown")

"""The status of a group in a partition: each row of the table, and what Burrow's users complain of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from coordinatord.pipeline.analysis.burrow import Commit
from coordinatord.pipeline.analysis.curve import Point
from coordinatord.pipeline.analysis.lag import Ends
from coordinatord.pipeline.analysis.now import Now, Partition, standing
from coordinatord.pipeline.analysis.status import Members, Rules, Status, partition_status
from coordinatord.pipeline.analysis.trail import Trail

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
    trail = Trail(rules.window_ms, each)
    marks = trail.window(NOW_MS - rules.window_ms)
    return partition_status(trail, marks, lag, waited_ms, NOW_MS, members=members, rules=rules)


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
    "the same, members unknown": ([(ago_s, 1_000 - ago_s, 50) for ago_s in range(170, 100, -5)], 500, None, "stopped"),
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


def test_figures_of_two_moments_are_told_with_their_moments() -> None:
    growing = [(ago_s, 1_000 - ago_s, 200 - ago_s) for ago_s in range(70, 0, -5)]
    found = told(commits(*growing), 999, Members(True))
    assert found.why == "999 unread: 145 (median) at its commits 65 to 40 s ago, 180 at those 30 to 5 s ago"
    few = told(commits((40, 100, 20), (10, 200, 90)), 95, Members(True))
    assert (few.status, few.why) == ("falling", "95 unread: 20 at its commit 40 s ago, 90 at that 10 s ago")
    more = told(commits((40, 100, 20), (10, 200, 35)), 35, Members(True))
    assert (more.status, more.why.partition(":")[0]) == ("behind", "35 unread, neither growing nor shrinking")
    silent = told(commits((58, 90, 40), (50, 100, 20), (40, 200, 30)), 95, Members(True))
    assert (silent.status, silent.why) == ("falling", "95 unread: 30 (median) at its commits 58 to 40 s ago")


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
    assert told(commits(*STEADY), 50, Members(False, gone_ms)).status == "behind"
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


def row_of(offset_since_s: int, end_points: list[tuple[int, int]], every_s: int = 5) -> Now:
    """A group that has committed offset 100 since then; (seconds ago, end offset) of the partition."""
    points = [Point(offset, NOW_MS - ago_s * 1000) for ago_s, offset in end_points]
    same = [Commit(100, NOW_MS - ago_s * 1000, None) for ago_s in range(offset_since_s, 0, -every_s)]
    partition = Partition.of("t", 0, Ends(0, points[-1].offset, NOW_MS), points)
    return standing("g", Trail(600_000, same), partition, NOW_MS, members=Members(True), rules=Rules())


def test_an_idle_consumer_has_time_to_read_what_comes() -> None:
    """It had read everything for an hour. A record has come three seconds ago."""
    idle = [(ago_s, 100) for ago_s in range(3_600, 3, -60)]
    assert row_of(3_600, [*idle, (3, 100), (0, 101)]).status == "behind"
    assert row_of(3_600, [*idle, (3, 100), (0, 101)], every_s=3_600).status == "behind", "it commits what is new only"
    earlier = [(ago_s, 100 if ago_s > 700 else 101) for ago_s in range(3_600, -1, -60)]
    assert row_of(3_600, earlier).status == "stuck"
    assert row_of(3_600, earlier, every_s=3_600).status == "stopped"


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

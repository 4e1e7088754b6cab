"""The rows of lag and status of one group: what stood still, and what was never committed."""

from __future__ import annotations

from coordinatord.monitoring.analysis.burrow import Commit
from coordinatord.monitoring.analysis.commit_window import MARKS, Trail
from coordinatord.monitoring.analysis.current_lag import Now, Partition, standing
from coordinatord.monitoring.analysis.ends import Ends
from coordinatord.monitoring.analysis.groups import group_now
from coordinatord.monitoring.analysis.offset_timeline import Point
from coordinatord.monitoring.analysis.status import Members, Rules

NOW_MS = 10_000_000
RULES = Rules()


def row(commits: list[tuple[int, int]], ends: list[tuple[int, int]], start: int = 0) -> Now:
    """(seconds ago, committed offset) and (seconds ago, end offset)."""
    points = [Point(offset, NOW_MS - ago_s * 1000) for ago_s, offset in ends]
    partition = Partition.of("t", 0, Ends(start, points[-1].offset, NOW_MS), points)
    trail = Trail(RULES.window_ms, [Commit(offset, NOW_MS - ago_s * 1000, None) for ago_s, offset in commits])
    return standing("g", trail, partition, NOW_MS, members=Members(True), rules=RULES)


def ago(ms: int | None) -> float | None:
    return None if ms is None else (NOW_MS - ms) / 1000


def test_the_last_standstill() -> None:
    """It stood at 100 from 300 s to 150 s ago; there was something to read from 250 s ago on."""
    commits = [
        (310, 90),
        *((each, 100) for each in range(300, 150, -5)),
        *((each, 400 - each) for each in range(150, 0, -5)),
    ]
    ends = [(400, 100), (251, 100), (250, 101), *((each, 400 - each) for each in range(240, -1, -10))]
    found = row(commits, ends)
    assert (ago(found.stood_since_ms), ago(found.stood_until_ms), ago(found.moved_ms)) == (250, 150, 5)
    nothing = row(commits, [(400, 100), (151, 100), (150, 250), (0, 400)])
    assert (nothing.stood_since_ms, nothing.stood_until_ms) == (None, None), "it had read everything"
    long_ago = row([(each + 700, offset) for each, offset in commits], [(each + 700, end) for each, end in ends])
    assert long_ago.stood_since_ms is None


def test_an_assigned_partition_without_a_committed_offset_is_a_row() -> None:
    full = row([], [(100, 5), (0, 9)])
    assert (full.committed_offset, full.lag, full.end_offset, full.status) == (None, None, 9, "unknown")
    empty = row([], [(100, 9), (0, 9)], start=9)
    assert (empty.status, empty.producer_idle, empty.alarming) == ("ok", True, False)
    group = group_now([full, empty])
    assert (group.partitions, group.lag, group.status, group.last_commit_ms) == (0, None, "unknown", None)
    assert (group.max_time_lag_ms, group.max_time_lag_method, group.burrow) == (None, "unknown", None)


def test_a_topic_that_was_made_anew_while_its_member_commits_the_old_offset() -> None:
    """Its member reads nothing, and commits its position each second, as if it had read everything."""
    commits = [(90, 40), *((each, 50) for each in range(61, -1, -1))]
    found = row(commits, [(80, 3), (0, 12)])
    assert (found.committed_ms, ago(found.moved_ms)) == (NOW_MS, 61)
    assert (found.lag, found.time_lag_ms, found.time_lag_method, found.lost_records) == (None, None, "unknown", None)
    assert (found.status, found.alarming) == ("unknown", False)
    assert found.why == "offset 50 is beyond the end, 12: the topic was made anew, or lost records"
    just_now = row([*commits[:1], *commits[2:]], [(80, 3), (0, 12)])
    assert (just_now.lag, just_now.status) == (0, "ok"), "the end may have been read before the commit"


def test_a_groups_longest_time_lag_says_what_it_is() -> None:
    ends = [(100, 5), (90, 10), (0, 20)]
    exact, caught_up = row([(50, 7)], ends), row([(50, 20)], ends)
    first = row([(50, 7)], [(0, 20)])
    assert (first.lag, first.time_lag_ms) == (13, None)
    assert group_now([caught_up])[7:9] == (0, "caught up")
    assert group_now([exact, caught_up])[7:9] == (100_000, "at most")
    assert group_now([exact, first])[7:9] == (100_000, "at least"), "the other's may be older"
    assert group_now([first, caught_up])[7:9] == (None, "unknown")


def test_a_trail_is_bounded_whatever_a_group_commits() -> None:
    trail = Trail(RULES.window_ms)
    for number in range(20_000):
        offset = 10_000 - number if number % 3 else number  # it goes back all the time, and comes again
        trail.add(Commit(offset, number * 50, None))
        assert len(trail.marks) <= MARKS + 2
    assert len(trail.falls) <= 16
    since_ms = 20_000 * 50 - RULES.window_ms
    marks = trail.window(since_ms)
    assert marks[-1] == trail.last
    assert since_ms - RULES.window_ms / 32 <= marks[0].time_ms <= since_ms


def test_a_group_tells_apart_what_no_member_reads() -> None:
    read, left = row([(0, 9)], [(100, 9), (0, 9)]), row([(90, 4)], [(100, 4), (0, 9)])._replace(status="unsubscribed")
    group = group_now([read, left])
    assert (group.status, group.lag) == ("ok", 5)
    assert group.why == "nothing is unread; 5 unread in topics that no member subscribes to"
    assert group_now([left]).why == left.why

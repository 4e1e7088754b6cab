"""A group's status in a partition, by rules that say what operators want to know.

What users of Burrow complain about, and what these rules do about it:

- its window is a number of commits, so the same rule means seconds for one group and days for another: here the window
  is a time (`window_ms`), the same for all;
- one unread record for a moment is a warning like a million for an hour: below `min_lag` the status is ok;
- a group that commits once an hour is "stopped" between two commits: these rules first wait for the group's rhythm, the
  longest usual time between two of its commits;
- a group that has read everything is "stopped" or "stalled" when the next record comes: here it has a window's time to
  read it;
- a group that was stopped on purpose is an error forever: a group without members has its own status;
- a topic without writes looks like a consumer that does not read: these rules look at the producer, too.

| status    | when, the first that applies                                                              |
|-----------|-------------------------------------------------------------------------------------------|
| unknown   | the partition's end offset is not known                                                   |
| ok        | less than `min_lag` records are unread                                                    |
| ended     | the group has no members, and has not committed since it lost them, or for a window        |
| stopped   | no commit for a window and for longer than its rhythm, although records are unread        |
| stuck     | it commits, but the same offset for a window, although records are unread                 |
| rewound   | within the window its offset went back, and has not returned since                        |
| falling   | over the window the lag has grown: it reads more slowly than producers write              |
| catching  | there is a lag, and it shrinks                                                            |
| behind    | there is a lag that neither grows nor shrinks                                             |

The lag of a healthy group swings: two moments of a window tell nothing. It has grown if the commits of the window's
second half have more unread than those of the first: in nine of ten pairs of one and the other (the statistic of Mann
and Whitney), and in their medians by more than `tolerance`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from coordinatord.pipeline.analysis.burrow import Commit
from coordinatord.pipeline.analysis.trail import Trail

UNKNOWN, OK, ENDED, STOPPED, STUCK, REWOUND, FALLING, CATCHING, BEHIND = (
    "unknown", "ok", "ended", "stopped", "stuck", "rewound", "falling", "catching", "behind",
)  # fmt: skip

ALARMING = frozenset({STOPPED, STUCK, REWOUND, FALLING})
"""Statuses that need attention."""

FEW, FEW_TOLERANCE = 3, 0.5
"""Fewer commits than this in half a window agree by chance: then a lag has grown only if it has doubled."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The thresholds of the rules."""

    window_ms: int = 10 * 60_000
    min_lag: int = 1
    """Fewer unread records than this are ignored."""
    rhythm_factor: float = 3.0
    """How many times its rhythm, the longest usual gap between its commits, a group may be silent."""
    tolerance: float = 0.05
    """A lag that changes by a smaller share neither grows nor shrinks."""
    sure: float = 0.9
    """The share of pairs of an earlier and a later commit that have to agree that it grows, or shrinks."""


@dataclass(frozen=True, slots=True)
class Status:
    """`status` is one of the table above; `why` a sentence with the figures that decided."""

    status: str
    why: str


@dataclass(frozen=True, slots=True)
class Members:
    """Whether the group has members, and since when it has none; None if that is not known."""

    has_any: bool | None = None
    empty_ms: int | None = None


def partition_status(
    trail: Trail,
    marks: Sequence[Commit],
    lag: int | None,
    waited_ms: int | None,
    now_ms: int,
    *,
    members: Members,
    rules: Rules,
) -> Status:
    """The status from one group's commits for one partition, at least one. `marks` are those of the window and the last
    one before, each with the lag at its time. `lag` is the present one, None if the end offset is unknown; `waited_ms`
    is the age of the oldest unread record, None if that is not known.
    """
    last = trail.last
    assert last is not None
    if lag is None:
        return Status(UNKNOWN, "the partition's end offset is not known")
    if lag < max(rules.min_lag, 1):
        return Status(OK, f"{lag} unread" if lag else "nothing is unread")
    quiet_ms = now_ms - last.time_ms
    is_over = members.empty_ms is None or last.time_ms <= members.empty_ms or quiet_ms > rules.window_ms
    if members.has_any is False and is_over:
        return Status(ENDED, f"it has no members, and committed last {_s(quiet_ms)} ago; {lag} unread")
    if quiet_ms > rules.window_ms:
        return _silent(trail, lag, waited_ms, quiet_ms, rules)
    stands_ms = now_ms - trail.moved_ms
    has_waited = waited_ms is None or waited_ms >= rules.window_ms
    if trail.count_here > 1 and stands_ms >= rules.window_ms and has_waited:
        return Status(STUCK, f"it has committed offset {last.offset} for {_s(stands_ms)}, {lag} unread")
    top = trail.fallen_from(now_ms - rules.window_ms)
    if top is not None:
        return Status(REWOUND, f"it was at {top} and is at {last.offset}, {lag} unread")
    return _course(marks, lag, now_ms, rules)


def _s(ms: int) -> str:
    return f"{ms // 1000} s"


def _silent(trail: Trail, lag: int, waited_ms: int | None, quiet_ms: int, rules: Rules) -> Status:
    """No commit for a window."""
    patience_ms = max(rules.window_ms, rules.rhythm_factor * trail.rhythm_ms)
    if waited_ms is not None and waited_ms <= patience_ms:
        why = f"{lag} unread, the oldest for {_s(waited_ms)}; it committed last {_s(quiet_ms)} ago"
        return Status(BEHIND, why)
    if quiet_ms > patience_ms:
        return Status(STOPPED, f"no commit for {_s(quiet_ms)}, {lag} unread")
    return Status(BEHIND, f"{lag} unread; it commits rarely, the last time {_s(quiet_ms)} ago")


def _course(marks: Sequence[Commit], lag: int, now_ms: int, rules: Rules) -> Status:
    """Whether the lag grows: from commit to commit, since between two of them any group's lag grows. Only if the last
    one is long ago, up to now.
    """
    known = [commit for commit in marks if commit.lag is not None]
    gaps = [after.time_ms - before.time_ms for before, after in pairwise(marks)]
    quiet_ms = now_ms - marks[-1].time_ms
    if gaps and quiet_ms > max(rules.window_ms / 4, rules.rhythm_factor * max(gaps)):
        early, late = known, [Commit(marks[-1].offset, now_ms, lag)]
    else:
        half = len(known) // 2
        early, late = known[:half], known[len(known) - half :]
    if not early:
        return Status(BEHIND, f"{lag} unread")
    before, after = _lags(early), _lags(late)
    usual, present = _median(before), _median(after)
    tolerance = rules.tolerance if len(early) >= FEW else FEW_TOLERANCE
    has_changed = abs(present - usual) > tolerance * max(present, usual, rules.min_lag)
    moments = _when(early, usual, now_ms)
    if late[-1].time_ms != now_ms:
        moments += f", {_when(late, present, now_ms, is_second=True)}"
    if has_changed and _share_above(before, after) >= rules.sure:
        return Status(FALLING, f"{lag} unread: {moments}")
    if has_changed and _share_above(after, before) >= rules.sure:
        return Status(CATCHING, f"{lag} unread: {moments}")
    return Status(BEHIND, f"{lag} unread, neither growing nor shrinking: {moments}")


def _lags(commits: Sequence[Commit]) -> list[int]:
    return sorted(commit.lag or 0 for commit in commits)


def _median(ordered: Sequence[int]) -> int:
    return ordered[(len(ordered) - 1) // 2]


def _share_above(low: Sequence[int], high: Sequence[int]) -> float:
    """Of all pairs of one from `low` and one from `high`, both in order, how many have the greater one from `high`."""
    return sum(len(high) - bisect_right(high, each) for each in low) / (len(low) * len(high))


def _when(commits: Sequence[Commit], lag: int, now_ms: int, *, is_second: bool = False) -> str:
    """The median of some commits, and when they were."""
    first_s, last_s = ((now_ms - each.time_ms) // 1000 for each in (commits[0], commits[-1]))
    if len(commits) == 1:
        return f"{lag} at {'that' if is_second else 'its commit'} {first_s} s ago"
    return f"{lag} {'at those' if is_second else '(median) at its commits'} {first_s} to {last_s} s ago"

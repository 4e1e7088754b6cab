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
"""

from __future__ import annotations

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
    if known and gaps and quiet_ms > max(rules.window_ms / 4, rules.rhythm_factor * max(gaps)):
        known.append(Commit(marks[-1].offset, now_ms, lag))
    if len(known) < 2:
        return Status(BEHIND, f"{lag} unread")
    first, last = known[0].lag or 0, known[-1].lag or 0
    moments = f"{first} at its commit {_s(now_ms - known[0].time_ms)} ago"
    if known[-1].time_ms != now_ms:
        moments += f", {last} at that {_s(now_ms - known[-1].time_ms)} ago"
    if abs(last - first) <= rules.tolerance * max(last, first, rules.min_lag):
        return Status(BEHIND, f"{lag} unread, about as many as before: {moments}")
    return Status(CATCHING if last < first else FALLING, f"{lag} unread: {moments}")

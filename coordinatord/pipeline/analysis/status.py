"""A group's status in a partition, by rules that say what operators want to know.

What users of Burrow complain about, and what these rules do about it:

- its window is a number of commits, so the same rule means seconds for one group and days for another: here the window
  is a time (`window_ms`), the same for all;
- one unread record for a moment is a warning like a million for an hour: below `min_lag` the status is ok;
- a group that commits once an hour is "stopped" between two commits: these rules first wait for the group's rhythm, the
  longest usual time between two of its commits;
- a group that was stopped on purpose is an error forever: a group without members has its own status;
- a topic without writes looks like a consumer that does not read: these rules look at the producer, too.

| status    | when, the first that applies                                                              |
|-----------|-------------------------------------------------------------------------------------------|
| unknown   | the partition's end offset is not known                                                   |
| ok        | less than `min_lag` records are unread                                                    |
| ended     | it has no members, and has not committed for a window: it has ended its reading           |
| stopped   | no commit for a window and for longer than its rhythm, although records are unread        |
| stuck     | it commits, but the same offset all through the window                                    |
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


def partition_status(
    commits: Sequence[Commit], lag: int | None, now_ms: int, *, has_members: bool | None, rules: Rules
) -> Status:
    """The status from one group's commits for one partition, oldest first: those of the window, and earlier ones, which
    give the rhythm. `lag` is the present one; None if the end offset is unknown. `has_members` is None if unknown.
    """
    if lag is None:
        return Status(UNKNOWN, "the partition's end offset is not known")
    if lag < max(rules.min_lag, 1):
        return Status(OK, f"{lag} unread" if lag else "nothing is unread")
    quiet_ms = now_ms - commits[-1].time_ms
    if quiet_ms > rules.window_ms:
        if has_members is False:
            return Status(ENDED, f"it has no members and has not committed for {quiet_ms // 1000} s")
        patience_ms = max(rules.window_ms, rules.rhythm_factor * rhythm_ms(commits))
        if quiet_ms > patience_ms:
            return Status(STOPPED, f"no commit for {quiet_ms // 1000} s, {lag} unread")
        return Status(BEHIND, f"{lag} unread; it commits rarely, the last time {quiet_ms // 1000} s ago")
    return _of_window(_window(commits, now_ms - rules.window_ms), lag, now_ms, rules)


def rhythm_ms(commits: Sequence[Commit]) -> float:
    """The longest usual time between two commits: nine of ten are shorter. 0 with fewer than three commits."""
    gaps = sorted(after.time_ms - before.time_ms for before, after in pairwise(commits))
    return gaps[int(0.9 * (len(gaps) - 1))] if len(gaps) >= 2 else 0.0


def _window(commits: Sequence[Commit], since_ms: int) -> Sequence[Commit]:
    """The commits since then, and the last one before: its position when the window began."""
    first = next(number for number, commit in enumerate(commits) if commit.time_ms >= since_ms)
    return commits[max(0, first - 1) :]


def _of_window(commits: Sequence[Commit], lag: int, now_ms: int, rules: Rules) -> Status:
    first, last = commits[0], commits[-1]
    spans_window = now_ms - first.time_ms >= rules.window_ms
    if len(commits) > 1 and spans_window and all(commit.offset == last.offset for commit in commits):
        return Status(STUCK, f"it has committed offset {last.offset} for {(now_ms - first.time_ms) // 1000} s")
    top = max(commit.offset for commit in commits)
    if last.offset < top:
        return Status(REWOUND, f"it was at {top} and is at {last.offset}")
    known = [commit.lag for commit in commits if commit.lag is not None]
    if len(known) < 2:
        return Status(BEHIND, f"{lag} unread")
    # From commit to commit: between two of them any group's lag grows.
    change = known[-1] - known[0]
    if abs(change) <= rules.tolerance * max(known[-1], known[0], rules.min_lag):
        return Status(BEHIND, f"{lag} unread, about as many as before")
    if change < 0:
        return Status(CATCHING, f"{lag} unread, {-change} fewer than before")
    return Status(FALLING, f"{lag} unread, {change} more than before")

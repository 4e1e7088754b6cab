"""A group's status in a partition, by rules for operators.

Common complaints of Burrow's users, and the solutions of these rules:

- its window is a number of commits, so the same rule means seconds for one group and days for another: here the window
  is a time (`window_ms`), equal for all groups;
- one unread record for a moment is a warning like a million for an hour: below `min_lag` the status is ok;
- a group that commits once an hour is "stopped" between two commits: these rules first wait for the group's rhythm, the
  longest usual time between two of its commits;
- a group that has read everything is "stopped" or "stalled" when the next record comes: here it has a window's time to
  read it;
- a group that was stopped on purpose is an error forever: a group without members has its own status;
- a topic without writes looks like a consumer that does not read: these rules use the producer's rate, too.

The end offset at a given time has bounds: the last known one before, and the next known one. So have a lag and the age
of a record. A rule that raises an alarm uses the bound that makes the alarm less likely.

| status          | when, the first that applies                                                             |
|-----------------|------------------------------------------------------------------------------------------|
| unknown         | the partition's end offset is not known                                                  |
| unsubscribed    | the group has members, and none of them subscribes to the topic                          |
| members expired | the sessions of the last members expired, and records have come since                    |
| records lost    | records were deleted before the group had read them                                      |
| ok              | less than `min_lag` records are unread                                                   |
| ended           | the group has lost its members otherwise, or never had any and does not commit regularly |
| waiting         | all before an open transaction is read; read_committed allows no more                    |
| stopped         | no commit for a window and for longer than its rhythm, and records have waited as long   |
| stuck           | it commits, but the same offset for a window, in which records were unread               |
| rewound         | within the window its offset went back, and has not returned since                       |
| near loss       | four fifths of retention.ms have passed for the oldest unread record                     |
| falling         | over the window the lag has grown: it reads more slowly than producers write             |
| catching        | there is a lag, and it shrinks                                                           |
| behind          | there is a lag that neither grows nor shrinks, as far as is known                        |

Share groups have rules of their own, and one further status, `poison record` (analysis/share_groups.py).

A group without members that commits all the same (assigned partitions: Flink, MirrorMaker) is judged by its commits.

The lag of a healthy group varies: a few samples of a window prove nothing. The lag has grown if the commits of the
window's second half have more unread records than those of the first: in nine of ten pairs of one and the other (the
statistic of Mann and Whitney), and in their medians by more than `tolerance` and `least_change`. Each half needs
`least_looks` commits, and both together must span `least_span` of the window.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from coordinatord.monitoring.analysis.commit_window import Trail
from coordinatord.monitoring.analysis.ends import WINDOW_MS, Ends
from coordinatord.monitoring.analysis.lag import Lag, Mark
from coordinatord.monitoring.analysis.offset_timeline import AT_LEAST, Bounds

UNKNOWN, UNSUBSCRIBED, EXPIRED, LOST, OK, ENDED, WAITING = (
    "unknown", "unsubscribed", "members expired", "records lost", "ok", "ended", "waiting",
)  # fmt: skip
STOPPED, STUCK, REWOUND, NEAR_LOSS, FALLING, CATCHING, BEHIND = (
    "stopped", "stuck", "rewound", "near loss", "falling", "catching", "behind",
)  # fmt: skip

POISON = "poison record"
"""Of share groups alone."""

ALARMING = frozenset({EXPIRED, LOST, STOPPED, STUCK, POISON, REWOUND, NEAR_LOSS, FALLING})
"""Statuses that need attention."""

LEFT, SESSION_EXPIRED = "left", "expired"
"""Ends of the last members of a group; analysis.members has more kinds for single members."""

AWAY_MS = 24 * 3_600_000
"""A group without members, or without commits, for longer than this misses no records that are deleted."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The thresholds of the rules."""

    window_ms: int = WINDOW_MS
    min_lag: int = 1
    """Fewer unread records than this are ignored."""
    rhythm_factor: float = 3.0
    """Multiple of its rhythm, the longest usual gap between its commits, for which a group may be silent."""
    tolerance: float = 0.05
    """A lag that changes by a smaller share neither grows nor shrinks."""
    least_change: int = 10
    """A lag that changes by fewer records neither grows nor shrinks."""
    least_looks: int = 3
    """Least number of commits in each half of the window: fewer agree by chance."""
    least_span: float = 0.25
    """The share of the window that the commits have to span before the lag counts as growing or shrinking."""
    sure: float = 0.9
    """The share of pairs of an earlier and a later commit in which the lag must have grown, or shrunk."""
    near_loss: float = 0.8
    """The share of retention.ms after which an unread record is near its deletion."""


@dataclass(frozen=True, slots=True)
class Status:
    """`status` is one of the table above; `why` is a sentence with the figures that determined it."""

    status: str
    why: str


@dataclass(frozen=True, slots=True)
class Members:
    """The members of a group. None stands for unknown values."""

    has_any: bool | None = None
    """None: no member is known, as in a group that only commits offsets."""
    empty_ms: int | None = None
    """Time since which the group has no members."""
    how: str | None = None
    """End of the last members: LEFT or SESSION_EXPIRED."""
    topics: frozenset[str] | None = None
    """All topics that a member subscribes to."""

    def subscribe_to(self, topic: str) -> bool:
        """Return whether a member subscribes to the topic, or may subscribe to it."""
        return not self.has_any or self.topics is None or topic in self.topics


def partition_status(
    trail: Trail,
    marks: Sequence[Mark],
    seen: Lag,
    now_ms: int,
    *,
    members: Members,
    rules: Rules,
    ends: Ends | None = None,
    is_subscribed: bool = True,
    appended: int = 0,
) -> Status:
    """Return the status from one group's commits for one partition, at least one. `marks` are those of the window and
    the last one before. `seen` is the present lag; `appended` is the least number of records that were appended since
    the group lost its members.
    """
    last, lag, lost = trail.last, seen.lag, seen.lost_records or 0
    assert last is not None
    if lag is None:
        return Status(UNKNOWN, "the partition's end offset is not known")
    is_behind = lag >= max(rules.min_lag, 1)
    if not is_subscribed and (is_behind or lost):
        return Status(UNSUBSCRIBED, f"no member subscribes to the topic any more; {_unread(lag, lost)}")
    quiet_ms = now_ms - last.time_ms
    is_over = members.empty_ms is None or last.time_ms <= members.empty_ms or quiet_ms > rules.window_ms
    has_ended = members.has_any is False and is_over
    if has_ended and members.how == SESSION_EXPIRED and is_behind and appended >= max(rules.min_lag, 1):
        why = f"{_gone(members, now_ms)}; {_unread(lag, lost)}, {appended} of them have come since"
        return Status(EXPIRED, why)
    away_ms = quiet_ms if members.empty_ms is None else now_ms - members.empty_ms
    if lost and not (members.has_any is not True and away_ms > AWAY_MS):
        return Status(LOST, f"lost {lost} records, deleted at offset {last.offset} before they were read; {lag} unread")
    if not is_behind:
        return Status(OK, _unread(lag, lost) if lag or lost else _nothing(last.offset, ends))
    if has_ended:
        return Status(ENDED, f"{_gone(members, now_ms)}; it committed last {_s(quiet_ms)} ago; {_unread(lag, lost)}")
    if ends is not None and ends.waits_for_transaction(last.offset):
        return Status(WAITING, f"{lag} unread: {_transaction(ends, now_ms)}")
    if quiet_ms > rules.window_ms:
        return _silent(trail, seen, lag, quiet_ms, members, rules)
    stands_ms = now_ms - trail.moved_ms
    if trail.count_here > 1 and min(stands_ms, seen.waited_ms) >= rules.window_ms:
        return Status(STUCK, f"it has committed offset {last.offset} for {_s(stands_ms)}, {lag} unread")
    top = trail.fallen_from(now_ms - rules.window_ms)
    if top is not None:
        return Status(REWOUND, f"it was at {top} and is at {last.offset}, {lag} unread")
    retention_ms = None if ends is None else ends.retention_ms
    if retention_ms is not None and seen.waited_ms >= rules.near_loss * retention_ms:
        waited = f"the oldest for at least {_s(seen.waited_ms)}"
        return Status(NEAR_LOSS, f"{lag} unread, {waited}: retention.ms is {retention_ms // 1000} s")
    return course(marks, lag, now_ms, rules)


def _s(ms: int) -> str:
    """Return a duration in seconds, a long one in hours or days."""
    seconds = max(0, ms) // 1000  # a commit may be later than the time at which its log began to be read
    if seconds < 7_200:
        return f"{seconds} s"
    return f"{seconds // 3_600} h" if seconds < 172_800 else f"{seconds // 86_400} d"


def _unread(lag: int, lost: int) -> str:
    return f"{lag} unread" + (f", and {lost} deleted before they were read" if lost else "")


def _nothing(committed: int, ends: Ends | None) -> str:
    behind = 0 if ends is None else ends.end_offset - committed
    if behind <= 0:
        return "nothing is unread"
    markers = "1 marker or aborted record comes" if behind == 1 else f"{behind} markers and aborted records come"
    return f"nothing is unread: {markers} behind"


def _gone(members: Members, now_ms: int) -> str:
    how = {LEFT: "its last member left", SESSION_EXPIRED: "the session of its last member expired"}
    if members.empty_ms is None:
        return "it has no members"
    return f"{how.get(members.how or '', 'its last member went')} {_s(now_ms - members.empty_ms)} ago"


def _transaction(ends: Ends, now_ms: int) -> str:
    """Describe the open transaction for which a group waits that has read all committed records before it."""
    found = ends.tail.open
    if found is None or found.producer_id is None:
        return f"it waits for an open transaction that begins at offset {ends.tail.stable_offset}"
    name = f" ({found.transactional_id})" if found.transactional_id else ""
    since = "" if found.since_ms is None else f", open for {_s(max(0, now_ms - found.since_ms))}"
    return f"it waits for an open transaction of producer {found.producer_id}{name}{since}"


def _silent(trail: Trail, seen: Lag, lag: int, quiet_ms: int, members: Members, rules: Rules) -> Status:
    """Return the status of a group without a commit for a window."""
    silence = f"it committed last {_s(quiet_ms)} ago"
    if members.has_any is None and not _is_regular(trail, rules):
        return Status(ENDED, f"{_unread(lag, seen.lost_records or 0)}; no member was ever seen, and {silence}")
    patience_ms = max(rules.window_ms, rules.rhythm_factor * trail.rhythm_ms)
    if quiet_ms <= patience_ms:
        return Status(BEHIND, f"{lag} unread; it commits rarely, the last time {_s(quiet_ms)} ago")
    if seen.waited_ms <= patience_ms:
        return Status(BEHIND, f"{lag} unread, {_age(seen)}; {silence}")
    who = "" if members.has_any else "; no member was ever seen"
    return Status(STOPPED, f"no commit for {_s(quiet_ms)}, {lag} unread{who}")


def _age(seen: Lag) -> str:
    """Describe the age of the oldest unread record, with its bounds."""
    least = _s(seen.waited_ms)
    if seen.time_lag_ms is None:
        return "for how long is not known"
    if seen.time_lag_method == AT_LEAST:
        return f"the oldest for {least} at least"
    most = _s(seen.time_lag_ms)
    return f"the oldest for {most}" + (f" at most, {least} at least" if least != most else "")


def _is_regular(trail: Trail, rules: Rules) -> bool:
    """Return whether the group has committed rising offsets on its own, so that it can stop doing so."""
    moved = [after for before, after in pairwise(trail.recent) if after.offset > before.offset]
    return len(moved) >= rules.least_looks


def course(marks: Sequence[Mark], lag: int, now_ms: int, rules: Rules) -> Status:
    """Return the status by the course of the lag, compared from commit to commit, since between two commits any group's
    lag grows. Only if the last commit is long ago, the comparison extends to the present.
    """
    known = [mark for mark in marks if mark.lag is not None]
    gaps = [after.time_ms - before.time_ms for before, after in pairwise(marks)]
    quiet_ms = now_ms - marks[-1].time_ms
    if gaps and quiet_ms > max(rules.window_ms / 4, rules.rhythm_factor * max(gaps)):
        early, late = known, [Mark(marks[-1].offset, now_ms, Bounds(lag, lag))]
        are_few = len(early) < rules.least_looks
    else:
        half = len(known) // 2
        early, late = known[:half], known[len(known) - half :]
        are_few = half < rules.least_looks
    if are_few or late[-1].time_ms - early[0].time_ms < rules.least_span * rules.window_ms:
        return Status(BEHIND, f"{lag} unread")
    if _has_grown(_most(early), _least(late), rules):
        return Status(FALLING, f"{lag} unread: {_moments(early, _most(early), late, _least(late), now_ms)}")
    if _has_grown(_most(late), _least(early), rules):
        return Status(CATCHING, f"{lag} unread: {_moments(early, _least(early), late, _most(late), now_ms)}")
    return Status(BEHIND, f"{lag} unread, and it is not certain that this grows or shrinks")


def _least(marks: Sequence[Mark]) -> list[int]:
    return sorted(mark.lag.least for mark in marks if mark.lag is not None)


def _most(marks: Sequence[Mark]) -> list[int]:
    return sorted(mark.lag.most for mark in marks if mark.lag is not None)


def _has_grown(low: Sequence[int], high: Sequence[int], rules: Rules) -> bool:
    """Return whether the second of two sorted lists of lags is greater by the thresholds of the rules."""
    change = _median(high) - _median(low)
    if change <= rules.tolerance * max(_median(high), rules.min_lag) or change < rules.least_change:
        return False
    return _share_above(low, high) >= rules.sure


def _median(ordered: Sequence[int]) -> int:
    return ordered[(len(ordered) - 1) // 2]


def _share_above(low: Sequence[int], high: Sequence[int]) -> float:
    """Return the share of pairs from `low` and `high`, both sorted, in which the one from `high` is greater."""
    return sum(len(high) - bisect_right(high, each) for each in low) / (len(low) * len(high))


def _moments(early: Sequence[Mark], before: list[int], late: Sequence[Mark], after: list[int], now_ms: int) -> str:
    """Describe the medians at earlier and at later commits, and the times of these commits."""
    text = _when(early, _median(before), now_ms)
    if late[-1].time_ms != now_ms:
        text += f", {_when(late, _median(after), now_ms, is_second=True)}"
    return text


def _when(marks: Sequence[Mark], lag: int, now_ms: int, *, is_second: bool = False) -> str:
    first_s, last_s = (max(0, now_ms - each.time_ms) // 1000 for each in (marks[0], marks[-1]))
    if len(marks) == 1:
        return f"{lag} at {'that' if is_second else 'its commit'} {first_s} s ago"
    return f"{lag} {'at those' if is_second else '(median) at its commits'} {first_s} to {last_s} s ago"

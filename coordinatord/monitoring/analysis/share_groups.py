"""The present state of a share group (KIP-932) in one partition, as a row of the tables lag and status.

A share group commits nothing. Its lag (KIP-1226: the records from the start offset on that are neither acknowledged nor
archived) is counted by the cluster, or from the records of `__share_group_state` and the partition's end. So its course
is that of looks at the cluster, or at the log, with the rules for consumer groups as far as they apply:

| status        | when, the first that applies                                                           |
|---------------|----------------------------------------------------------------------------------------|
| unknown       | the lag is not known: no start offset, no end, or the cluster does not count (Kafka 4.1) |
| ok            | less than `min_lag` records are unread                                                 |
| stopped       | it has no members, and records have come since                                         |
| ended         | it has no members                                                                      |
| poison record | a record is available whose delivery count is near the limit, by the stored state      |
| stuck         | the start offset has not moved for a window, in which records were unread at each look |
| falling, catching, behind | the course of the lag over the window                                      |
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from coordinatord.monitoring.analysis import status
from coordinatord.monitoring.analysis.current_lag import Now
from coordinatord.monitoring.analysis.lag import Mark
from coordinatord.monitoring.analysis.offset_timeline import UNKNOWN as UNKNOWN_AGE
from coordinatord.monitoring.analysis.offset_timeline import Bounds, Point, TimeLag, end_offsets_at
from coordinatord.monitoring.analysis.share_state import UNKNOWN, Deliveries, Step
from coordinatord.monitoring.analysis.status import Rules, Status

STANDSTILL = 0.75
"""The share of the window for which looks have to show the same start offset."""


NO_AGE = TimeLag(None, UNKNOWN_AGE)


LOOKS = 120
"""Maximum number of looks that are kept of a share partition: further ones replace every second one of the older."""


class Look(NamedTuple):
    """A share partition at one time. `lag` is None where it is not counted; `members` are the group's. `start_offset`
    is -1 before the group has started to read. `deliveries` is None where its stored state is not known.
    """

    time_ms: int
    start_offset: int
    end_offset: int | None
    lag: int | None
    members: int
    deliveries: Deliveries | None = None


def lag_of(start_offset: int, done: int, end_offset: int | None) -> int | None:
    """Return the lag of KIP-1226: the records up to the end that are not done; None if one of these is not known."""
    if end_offset is None or UNKNOWN in (start_offset, done):
        return None
    return max(0, end_offset - start_offset - done)


def looks_of(
    steps: Sequence[Step], members: Sequence[tuple[int, int]], points: Sequence[Point], last: Look, window_ms: int
) -> list[Look]:
    """Return the looks that a log gives of a share partition: at the begin of the window, at each of its records within
    the window, and `last`, the present one. `members` are the numbers of members with the times since which there were
    so many, `points` those of the partition's end offset (offset_timeline.curve), all oldest first. Of an end offset
    that is not known exactly the lower bound counts: it makes an alarm less likely.
    """
    since_ms = last.time_ms - window_ms
    before = [step for step in steps if step.time_ms <= since_ms]
    within = [step for step in steps if since_ms < step.time_ms < last.time_ms]
    looks = []
    for step in [*(step._replace(time_ms=since_ms) for step in before[-1:]), *within]:
        end = end_offsets_at(step.time_ms, points)
        end_offset = None if end is None else end.least
        at = bisect_right(members, step.time_ms, key=lambda each: each[0])
        count = members[at - 1][1] if at else 0
        if step.start_offset != UNKNOWN:
            lag = lag_of(step.start_offset, step.done, end_offset)
            looks.append(Look(step.time_ms, step.start_offset, end_offset, lag, count))
    return [*looks, last]


def with_look(looks: Sequence[Look], look: Look, window_ms: int) -> list[Look]:
    """Return the looks at a share partition that are within the window, and this one. They begin anew when the start
    offset was set back.
    """
    kept = [each for each in looks if each.time_ms >= look.time_ms - window_ms]
    if kept and look.start_offset < kept[-1].start_offset:
        kept = []
    if len(kept) >= LOOKS:
        kept = [*kept[: LOOKS // 2 : 2], *kept[LOOKS // 2 :]]
    return [*kept, look]


def standing(
    group_id: str,
    topic: str,
    partition: int,
    looks: Sequence[Look],
    now_ms: int,
    *,
    rules: Rules,
    age: TimeLag = NO_AGE,
) -> Now:
    """Return the row of a share group for a partition; the start offset is in the column of committed offsets. `looks`,
    at least one, are in order; the last one is the present. `age` is that of the oldest unacknowledged record.
    """
    last, found = looks[-1], share_status(looks, now_ms, rules)
    moved = [after.time_ms for before, after in pairwise(looks) if before[1] != after[1]]
    consumed = _rate(looks, [each.start_offset for each in looks])
    ends = [each for each in looks if each.end_offset is not None]
    produced = _rate(ends, [each.end_offset or 0 for each in ends])
    return Now(
        group_id=group_id,
        topic=topic,
        partition=partition,
        committed_offset=None if last.start_offset == UNKNOWN else last.start_offset,
        moved_ms=moved[-1] if moved else None,
        end_offset=last.end_offset,
        end_offset_ms=None if last.end_offset is None else last.time_ms,
        lag=last.lag,
        time_lag_ms=age.lag_ms,
        time_lag_method=age.method,
        time_lag_error_ms=age.error_ms,
        consumed_per_s=consumed,
        produced_per_s=produced,
        producer_idle=None if produced is None else produced == 0,
        status=found.status,
        why=found.why,
        alarming=found.status in status.ALARMING,
    )


def share_status(looks: Sequence[Look], now_ms: int, rules: Rules) -> Status:
    """Return the status by the looks of the window; the module's table has the rules."""
    last = looks[-1]
    if last.lag is None:
        why = "the cluster does not count the lag of this share partition"
        if last.start_offset == UNKNOWN:
            why = "the group has no start offset yet: no member has acknowledged a record"
        elif last.end_offset is None:
            why = "the end of the partition is not known"
        return Status(status.UNKNOWN, why)
    if last.lag < rules.min_lag:
        return Status(status.OK, "nothing is unread" if not last.lag else f"{last.lag} unread")
    recent = [each for each in looks if each.time_ms >= now_ms - rules.window_ms]
    if not last.members:
        return _without_members(recent, last.lag)
    if last.deliveries is not None and last.deliveries.suspected:
        return Status(status.POISON, f"{last.lag} unread: {last.deliveries.why}")
    stands = recent[::-1]
    same = next((at for at, each in enumerate(stands) if each.start_offset != last.start_offset), len(stands))
    since_ms = stands[same - 1].time_ms
    if now_ms - since_ms >= STANDSTILL * rules.window_ms and all(each.lag and each.members for each in stands[:same]):
        waited_s = (now_ms - since_ms) // 1_000
        why = f"{last.lag} unread: the start offset has been {last.start_offset} for {waited_s} s at least"
        return Status(status.STUCK, f"{why}: the record there is not acknowledged")
    known = [
        Mark(each.start_offset, each.time_ms, Bounds(each.lag, each.lag)) for each in recent if each.lag is not None
    ]
    return status.course(known, last.lag, now_ms, rules)


def _without_members(recent: Sequence[Look], lag: int) -> Status:
    """Return the status of a group without members; only looks since it lost them count."""
    empty = 0
    while empty < len(recent) and not recent[-1 - empty].members:
        empty += 1
    first, last = recent[len(recent) - empty], recent[-1]
    come = (last.end_offset or 0) - (first.end_offset or 0) if first.end_offset is not None else 0
    if come >= 1:
        return Status(status.STOPPED, f"{lag} unread, {come} of them new: it has no members")
    return Status(status.ENDED, f"{lag} unread: it has no members")


def _rate(looks: Sequence[Look], offsets: Sequence[int]) -> float | None:
    """Return records per second between the first and the last look; None for less than two."""
    took_ms = looks[-1].time_ms - looks[0].time_ms if looks else 0
    return max(0, offsets[-1] - offsets[0]) * 1_000 / took_ms if took_ms else None

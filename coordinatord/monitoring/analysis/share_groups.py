"""The present state of a share group (KIP-932) in one partition, as a row of the tables lag and status.

A share group commits nothing, and its log has no lag: the cluster counts it (KIP-1226: the records from the start
offset on that are neither acknowledged nor archived). So its course is that of looks at the cluster, with the rules for
consumer groups as far as they apply:

| status        | when, the first that applies                                                           |
|---------------|----------------------------------------------------------------------------------------|
| unknown       | the cluster does not count the lag (Kafka 4.2), or not now                             |
| ok            | less than `min_lag` records are unread                                                 |
| stopped       | it has no members, and records have come since                                         |
| ended         | it has no members                                                                      |
| poison record | a record is available whose delivery count is near the limit, by the stored state      |
| stuck         | the start offset has not moved for a window, in which records were unread at each look |
| falling, catching, behind | the course of the lag over the window                                      |
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from coordinatord.monitoring.analysis import status
from coordinatord.monitoring.analysis.current_lag import Now
from coordinatord.monitoring.analysis.lag import Mark
from coordinatord.monitoring.analysis.offset_timeline import UNKNOWN, Bounds
from coordinatord.monitoring.analysis.share_state import Deliveries
from coordinatord.monitoring.analysis.status import Rules, Status

STANDSTILL = 0.75
"""The share of the window for which looks have to show the same start offset."""


class Look(NamedTuple):
    """A share partition at one time. `lag` is None where the cluster does not count it; `members` are the group's.
    `deliveries` is None where its stored state is not known.
    """

    time_ms: int
    start_offset: int
    end_offset: int | None
    lag: int | None
    members: int
    deliveries: Deliveries | None = None


def standing(group_id: str, topic: str, partition: int, looks: Sequence[Look], now_ms: int, *, rules: Rules) -> Now:
    """Return the row of a share group for a partition; the start offset is in the column of committed offsets. `looks`,
    at least one, are in order; the last one is the present.
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
        committed_offset=last.start_offset,
        committed_ms=None,
        moved_ms=moved[-1] if moved else None,
        stood_since_ms=None,
        stood_until_ms=None,
        end_offset=last.end_offset,
        end_offset_ms=None if last.end_offset is None else last.time_ms,
        log_start_offset=None,
        lag=last.lag,
        time_lag_ms=None,
        time_lag_method=UNKNOWN,
        time_lag_error_ms=None,
        lost_records=None,
        retention_margin=None,
        retention_left_ms=None,
        consumed_per_s=consumed,
        produced_per_s=produced,
        zero_in_s=None,
        producer_idle=None if produced is None else produced == 0,
        status=found.status,
        why=found.why,
        alarming=found.status in status.ALARMING,
        burrow=None,
    )


def share_status(looks: Sequence[Look], now_ms: int, rules: Rules) -> Status:
    """Return the status by the looks of the window; the module's table has the rules."""
    last = looks[-1]
    if last.lag is None:
        return Status(status.UNKNOWN, "the cluster does not count the lag of this share partition")
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

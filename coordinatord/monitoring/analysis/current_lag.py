"""The present state of one group in one partition: the row of the tables lag and status, from plain values."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from coordinatord.monitoring.analysis import burrow, status
from coordinatord.monitoring.analysis.burrow import Commit
from coordinatord.monitoring.analysis.commit_window import Trail
from coordinatord.monitoring.analysis.ends import Ends
from coordinatord.monitoring.analysis.lag import Lag, lag_now, marks, with_lags
from coordinatord.monitoring.analysis.offset_timeline import UNKNOWN, Point, curve, end_offsets_at, rate_per_s, time_lag
from coordinatord.monitoring.analysis.status import Members, Rules

RecordTime = Callable[[str, int, int], int | None]
"""The timestamp of a topic's record, by topic, partition and offset; None if it cannot be read."""


def no_record_time(_topic: str, _partition: int, _offset: int) -> int | None:
    """Return None: for a source without records."""
    return None


@dataclass(slots=True)
class Partition:
    """A topic's partition: its present ends, and the curve of its end offset (offset_timeline.curve)."""

    topic: str
    number: int
    ends: Ends | None = None
    points: list[Point] = field(default_factory=list)

    @classmethod
    def of(cls, topic: str, number: int, ends: Ends, points: Sequence[Point]) -> Partition:
        return cls(topic, number, ends, curve(points))


class Now(NamedTuple):
    """A row of lag and status; tables/lag.py describes the columns. None stands for unknown values."""

    group_id: str
    topic: str
    partition: int
    committed_offset: int | None = None
    committed_ms: int | None = None
    moved_ms: int | None = None
    stood_since_ms: int | None = None
    stood_until_ms: int | None = None
    end_offset: int | None = None
    end_offset_ms: int | None = None
    log_start_offset: int | None = None
    lag: int | None = None
    time_lag_ms: int | None = None
    time_lag_method: str = UNKNOWN
    time_lag_error_ms: int | None = None
    lost_records: int | None = None
    retention_margin: int | None = None
    retention_left_ms: int | None = None
    consumed_per_s: float | None = None
    produced_per_s: float | None = None
    zero_in_s: float | None = None
    producer_idle: bool | None = None
    status: str = ""
    why: str = ""
    alarming: bool = False
    burrow: str | None = None


def standing(
    group_id: str,
    trail: Trail,
    partition: Partition,
    now_ms: int,
    *,
    members: Members,
    rules: Rules,
    record_time: RecordTime = no_record_time,
) -> Now:
    """Return the row of a group with a trail of commits for the partition. An empty trail stands for a group without
    commits, to whose member the partition is assigned.
    """
    if trail.last is None:
        return _never_committed(group_id, partition, now_ms, rules)
    ends, points, last = partition.ends, partition.points, trail.last
    window = trail.window(now_ms - rules.window_ms)
    record_ms = None
    if ends is not None and ends.log_start_offset is not None and last.offset < ends.last_end:
        record_ms = record_time(partition.topic, partition.number, max(last.offset, ends.log_start_offset))
    lag = lag_now(window, ends, points, now_ms, rules.window_ms, record_ms, trail.moved_ms)
    found = _status(trail, partition, window, lag, now_ms, members, rules)
    since_ms, until_ms = _stood(trail, partition, now_ms, rules)
    return Now(
        group_id=group_id,
        topic=partition.topic,
        partition=partition.number,
        committed_offset=last.offset,
        committed_ms=last.time_ms,
        moved_ms=trail.moved_ms,
        stood_since_ms=since_ms,
        stood_until_ms=until_ms,
        end_offset=None if ends is None else ends.end_offset,
        end_offset_ms=None if ends is None else ends.sampled_ms,
        log_start_offset=None if ends is None else ends.log_start_offset,
        lag=lag.lag,
        time_lag_ms=lag.time_lag_ms,
        time_lag_method=lag.time_lag_method,
        time_lag_error_ms=lag.time_lag_error_ms,
        lost_records=lag.lost_records,
        retention_margin=lag.retention_margin,
        retention_left_ms=lag.retention_left_ms,
        consumed_per_s=lag.consumed_per_s,
        produced_per_s=lag.produced_per_s,
        zero_in_s=lag.zero_in_s,
        producer_idle=lag.producer_idle,
        status=found.status,
        why=found.why,
        alarming=found.status in status.ALARMING,
        burrow=_burrow(trail, partition, lag.lag, now_ms),
    )


def _status(
    trail: Trail,
    partition: Partition,
    window: Sequence[Commit],
    lag: Lag,
    now_ms: int,
    members: Members,
    rules: Rules,
) -> status.Status:
    ends, last = partition.ends, window[-1]
    if ends is not None and ends.is_of_another_log(last.offset, trail.moved_ms):
        why = f"offset {last.offset} is beyond the end, {ends.end_offset}: the topic was made anew, or lost records"
        return status.Status(status.UNKNOWN, why)
    return status.partition_status(
        trail,
        marks(window, partition.points) if lag.lag else (),  # no rule needs earlier lags if there is none at present
        lag,
        now_ms,
        members=members,
        rules=rules,
        ends=ends,
        is_subscribed=members.subscribe_to(partition.topic),
        appended=_appended(partition, members.empty_ms, lag.lag or 0),
    )


def _burrow(trail: Trail, partition: Partition, lag: int | None, now_ms: int) -> str | None:
    if partition.ends is None:
        return None
    earlier = bisect_right(partition.points, now_ms - burrow.RECENT_MS, key=attrgetter("time_ms")) - 1
    seen = [point.offset for point in partition.points[max(0, earlier) :]]
    recent = with_lags(trail.recent, partition.points) if lag else trail.recent
    return burrow.partition_status(recent, seen, lag or 0, now_ms // 1000)


def _stood(trail: Trail, partition: Partition, now_ms: int, rules: Rules) -> tuple[int | None, int | None]:
    """Return the last standstill that is over, within the window, as far as records were unread during it."""
    if trail.stood is None or trail.stood[2] < now_ms - rules.window_ms:
        return None, None
    offset, since_ms, until_ms = trail.stood
    waited = time_lag(offset, offset + 1, until_ms, partition.points)
    since_ms = max(since_ms, until_ms - waited.least_ms)  # not longer than is certain
    return (since_ms, until_ms) if since_ms < until_ms else (None, None)


def _appended(partition: Partition, since_ms: int | None, lag: int) -> int:
    """Return the least number of the unread records that were appended since a time."""
    if since_ms is None or partition.ends is None or not partition.points:
        return 0
    end = end_offsets_at(since_ms, partition.points)
    if end is not None:
        known = end.most
    else:  # before the first known end, or after the last
        known = partition.points[0 if since_ms < partition.points[0].time_ms else -1].offset
    return max(0, min(lag, partition.ends.last_end - known))


def _never_committed(group_id: str, partition: Partition, now_ms: int, rules: Rules) -> Now:
    ends = partition.ends
    produced = rate_per_s(partition.points, now_ms - rules.window_ms)
    found = status.Status(status.UNKNOWN, "it is assigned to a member, and has no committed offset")
    if ends is not None and ends.log_start_offset == ends.end_offset:
        found = status.Status(status.OK, "it has no records, and no committed offset")
    return Now(
        group_id=group_id,
        topic=partition.topic,
        partition=partition.number,
        end_offset=None if ends is None else ends.end_offset,
        end_offset_ms=None if ends is None else ends.sampled_ms,
        log_start_offset=None if ends is None else ends.log_start_offset,
        produced_per_s=produced,
        producer_idle=None if produced is None else produced == 0,
        status=found.status,
        why=found.why,
    )

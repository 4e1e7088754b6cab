"""The present state of a group: the row of the table group_status, from its partitions' rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coordinatord.monitoring.analysis import burrow
from coordinatord.monitoring.analysis.current_lag import Now
from coordinatord.monitoring.analysis.offset_timeline import AT_LEAST, CAUGHT_UP, UNKNOWN
from coordinatord.monitoring.analysis.status import (
    BEHIND,
    CATCHING,
    ENDED,
    EXPIRED,
    FALLING,
    LOST,
    NEAR_LOSS,
    OK,
    POISON,
    REWOUND,
    STOPPED,
    STUCK,
    UNSUBSCRIBED,
    WAITING,
)
from coordinatord.monitoring.analysis.status import UNKNOWN as NOT_KNOWN

SEVERITY = (
    EXPIRED, LOST, STOPPED, STUCK, POISON, NEAR_LOSS, REWOUND, FALLING, BEHIND, WAITING, CATCHING, NOT_KNOWN, ENDED,
    OK, UNSUBSCRIBED,
)  # fmt: skip
"""Statuses, the worst first. A topic without a subscription has the least weight for its group."""


class GroupNow(NamedTuple):
    """A row of group_status; tables/lag.py describes the columns."""

    group_id: str
    status: str
    why: str
    alarming_partitions: int
    partitions: int
    lag: int | None
    max_lag: int | None
    max_time_lag_ms: int | None
    max_time_lag_method: str
    last_commit_ms: int | None
    burrow: str | None


def group_now(rows: Sequence[Now]) -> GroupNow:
    """Return the row of the group with these partitions' rows, of which there is at least one."""
    # The worst partition determines the status; of several equally bad ones, that with the most unread records.
    worst = min(rows, key=lambda row: (SEVERITY.index(row.status), -(row.lag or 0), row.topic, row.partition))
    lags = [row.lag for row in rows if row.lag is not None]
    time_lag_ms, method = _time_lag(rows)
    return GroupNow(
        group_id=worst.group_id,
        status=worst.status,
        why=worst.why if worst.status == UNSUBSCRIBED else worst.why + _unsubscribed(rows),
        alarming_partitions=sum(row.alarming for row in rows),
        partitions=sum(row.committed_offset is not None for row in rows),
        lag=sum(lags) if lags else None,
        max_lag=max(lags, default=None),
        max_time_lag_ms=time_lag_ms,
        max_time_lag_method=method,
        last_commit_ms=max((row.committed_ms for row in rows if row.committed_ms is not None), default=None),
        burrow=_burrow(row.burrow for row in rows),
    )


def _unsubscribed(rows: Sequence[Now]) -> str:
    """Return a clause on the part of the group's lag that no member reads."""
    lag = sum(row.lag or 0 for row in rows if row.status == UNSUBSCRIBED)
    return f"; {lag} unread in topics that no member subscribes to" if lag else ""


def _time_lag(rows: Sequence[Now]) -> tuple[int | None, str]:
    """Return the longest time lag and its method: an unknown one, or a lower bound, may be longer."""
    rows = [row for row in rows if row.status != UNSUBSCRIBED]  # no member reads these partitions, so no record waits
    known = [row for row in rows if row.time_lag_ms is not None and row.committed_offset is not None]
    is_open = any(row.lag and row.time_lag_method in (UNKNOWN, AT_LEAST) for row in rows)
    behind = [row for row in known if row.time_lag_method != CAUGHT_UP]
    if not behind:
        return (None, UNKNOWN) if is_open or not known else (0, CAUGHT_UP)
    longest = max(behind, key=lambda row: row.time_lag_ms or 0)
    return longest.time_lag_ms, AT_LEAST if is_open else longest.time_lag_method


def _burrow(statuses: Iterable[str | None]) -> str | None:
    known = [each for each in statuses if each is not None]
    return burrow.group_status(known) if known else None

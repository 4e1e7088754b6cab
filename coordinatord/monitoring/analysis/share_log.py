"""The present state of a share partition from the records of `__share_group_state`, the partition's end and the members
in the offsets log: for a source that counts no lag. The rules are those for looks at a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from coordinatord.monitoring.analysis.current_lag import Now, Partition, RecordTime, no_record_time
from coordinatord.monitoring.analysis.offset_timeline import time_lag
from coordinatord.monitoring.analysis.share_groups import NO_AGE, Look, lag_of, looks_of, standing
from coordinatord.monitoring.analysis.share_state import DELIVERY_COUNT_LIMIT, UNKNOWN, Deliveries, Replayed, deliveries
from coordinatord.monitoring.analysis.status import Rules

MEMBERS = "share_group_member_metadata"
"""Records of the offsets log: a member of a share group, or, as a tombstone, that it is gone."""


def member_counts(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[int, int]]]:
    """Return the numbers of members of each group, with the times since which there were so many, from the rows of
    MEMBERS: those of a group in the order of the log.
    """
    present: dict[str, set[str]] = {}
    found: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        there = present.setdefault(row["group_id"], set())
        (there.discard if row["tombstone"] else there.add)(row["member_id"])
        found.setdefault(row["group_id"], []).append((row["timestamp_ms"], len(there)))
    return found


class Logged(NamedTuple):
    """A share partition at present. `changed_ms` is when its stored state changed last, `members` the number of the
    group's members, `limit` its share.delivery.count.limit.
    """

    now: Now
    deliveries: Deliveries
    changed_ms: int | None
    members: int
    limit: int

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of the table share_partitions, and others."""
        found = self.deliveries
        return {
            **found._asdict(),
            **self.now._asdict(),
            "members": self.members,
            "start_offset": found.start_offset,
            "delivery_complete": found.done,
            "most_deliveries_offset": found.at_offset,
            "delivery_limit": self.limit,
            "suspected_offset": found.suspected_at,
            "oldest_offset": found.oldest,
            "changed_ms": self.changed_ms,
        }


def now_of(row: Mapping[str, Any]) -> Now:
    """Return the row of lag and status of a share partition from its row of the table."""
    known: dict[str, Any] = {name: row.get(name) for name in Now._fields}
    return Now(**known | {"committed_offset": row["start_offset"]})


def deliveries_of(row: Mapping[str, Any]) -> Deliveries:
    """Return the progress of a share partition from its row of the table; `why` is the reason of its status."""
    renamed: dict[str, Any] = {
        "done": row["delivery_complete"],
        "oldest": row["oldest_offset"],
        "at_offset": row["most_deliveries_offset"],
        "suspected_at": row["suspected_offset"],
    }
    return Deliveries(**{name: row[name] for name in Deliveries._fields if name not in renamed} | renamed)


def logged(
    group_id: str,
    partition: Partition,
    replayed: Replayed,
    members: Sequence[tuple[int, int]],
    now_ms: int,
    *,
    rules: Rules,
    limit: int = DELIVERY_COUNT_LIMIT,
    record_time: RecordTime = no_record_time,
) -> Logged | None:
    """Return the row of a share partition; None if its state was deleted. `members` are the numbers of the group's
    members with the times since which there were so many, oldest first; `limit` is the group's
    share.delivery.count.limit.
    """
    state = replayed.state()
    if state is None:
        return None
    found = deliveries(state, limit)
    ends = partition.ends
    end_offset = None if ends is None else ends.end_offset
    lag = lag_of(state.start_offset, found.done, end_offset)
    count = members[-1][1] if members else 0
    last = Look(now_ms, state.start_offset, end_offset, lag, count, found)
    age = NO_AGE
    if found.oldest is not None and ends is not None and end_offset is not None:
        oldest = max(found.oldest, ends.log_start_offset or 0)
        record_ms = record_time(partition.topic, partition.number, oldest) if oldest < end_offset else None
        age = time_lag(oldest, end_offset, now_ms, partition.points, record_ms)
    looks = looks_of(replayed.steps, members, partition.points, last, rules.window_ms)
    if state.start_offset == UNKNOWN:
        looks = [last]
    row = standing(group_id, partition.topic, partition.number, looks, now_ms, rules=rules, age=age)
    return Logged(row, found, replayed.changed_ms, count, limit)

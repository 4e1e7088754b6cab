"""The groups at a moment: plain values, replaced as a whole at each look, so that any thread may read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from coordinatord.monitoring.analysis import severity
from coordinatord.monitoring.analysis.current_lag import Now
from coordinatord.monitoring.analysis.groups import GroupNow
from coordinatord.monitoring.analysis.members import STORM, Event, Life
from coordinatord.monitoring.analysis.offset_timeline import Point
from coordinatord.monitoring.analysis.rebalances import Rebalance

MAX_GROUPS = 10_000
MAX_PARTITIONS = 20_000
"""Partitions of all groups together; each costs up to 20 KB of memory in the exporter, and five series."""


class Ending(NamedTuple):
    """Where a topic's partition begins and ends."""

    topic: str
    partition: int
    log_start_offset: int | None
    end_offset: int


class Deadline(NamedTuple):
    """What happens at a time unless somebody acts: a session that expires, a rebalance that waits no longer."""

    what: str
    who: str
    at_ms: int
    lasts_ms: int
    """How long it is, each time that it begins anew."""


KEEP_POINTS = 128
"""The known ends of a partition that are kept; of older ones, ever fewer."""


def add_point(points: list[Point], point: Point) -> None:
    """Note where a partition ends now. Points of a topic that was made anew, or cut, are dropped."""
    if points and point.offset < points[-1].offset:
        points.clear()
    if len(points) > 1 and points[-1].offset == points[-2].offset == point.offset:
        points.pop()
    points.append(point)
    if len(points) > KEEP_POINTS:
        half = KEEP_POINTS // 2
        points[:half] = points[:half:2]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is watched, at most; what is beyond is counted and left out."""

    groups: int = MAX_GROUPS
    partitions: int = MAX_PARTITIONS


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group. `now` is None if it has no offsets, `members` if nothing is known of any."""

    group_id: str
    group_type: str | None
    now: GroupNow | None
    rows: Sequence[Now]
    members: int | None
    commits: int | None
    """Since the watcher started; None if it does not count them."""
    causes: Mapping[str, int]
    """Rebalances by what triggered them, since the watcher started."""
    trouble: Sequence[Event] = ()
    """Crash loops and storms that are not over."""
    rebalances: Sequence[Rebalance] = ()
    """The last ones, oldest first."""
    lives: Sequence[Life] = ()
    waiting: Mapping[str, Any] | None = None
    """A rebalance under way: `began_ms`, and the names that it `waits_for`."""
    deadlines: Sequence[Deadline] = ()

    @property
    def verdict(self) -> severity.Verdict:
        """The worst that is to be said of it, and why."""
        return severity.verdict(self.now, self.trouble)

    @property
    def has_storm(self) -> bool:
        return any(each.kind == STORM for each in self.trouble)


@dataclass(frozen=True)
class View:
    """All groups at `at_ms`, and what there was no room for."""

    at_ms: int
    groups: Mapping[str, GroupView] = field(default_factory=dict)
    endings: Sequence[Ending] = ()
    left_out_groups: int = 0
    left_out_partitions: int = 0

    @cached_property
    def by_urgency(self) -> list[tuple[GroupView, str, str]]:
        """Each group with its verdict and why; the most urgent first."""
        told = [(group, *group.verdict) for group in self.groups.values()]
        return sorted(told, key=_urgency)


def _urgency(told: tuple[GroupView, str, str]) -> tuple[int, int, str]:
    group, word, _why = told
    return severity.severity(word), -((group.now.lag if group.now else None) or 0), group.group_id

"""The groups at a given time: plain values, replaced as a whole by each sample, so that any thread may read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from coordinatord.monitoring.analysis import severity
from coordinatord.monitoring.analysis.commit_window import Rewinds
from coordinatord.monitoring.analysis.current_lag import Now
from coordinatord.monitoring.analysis.expiry import Expiry
from coordinatord.monitoring.analysis.groups import GroupNow
from coordinatord.monitoring.analysis.members import STORM, Event, Life
from coordinatord.monitoring.analysis.offset_timeline import Point
from coordinatord.monitoring.analysis.rebalances import Rebalance
from coordinatord.monitoring.analysis.share_state import Deliveries

MAX_GROUPS = 10_000
MAX_PARTITIONS = 20_000
"""Maximum number of partitions of all groups. Each costs up to 20 KB of memory in the exporter, and five series."""


class Ending(NamedTuple):
    """The first offset and the end offset of a topic's partition."""

    topic: str
    partition: int
    log_start_offset: int | None
    end_offset: int


class Deadline(NamedTuple):
    """An event that happens at `at_ms` unless a member acts: a session expires, a rebalance stops waiting."""

    what: str
    who: str
    at_ms: int
    lasts_ms: int
    """Length of the whole period, which begins again after each action of the member."""


KEEP_POINTS = 128
"""Maximum number of known ends that are kept of a partition; the older they are, the fewer are kept."""


def add_point(points: list[Point], point: Point) -> None:
    """Add the present end of a partition. Points of a topic that was recreated, or truncated, are dropped."""
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
    """Limits of the groups and partitions that are watched; those beyond are counted and left out."""

    groups: int = MAX_GROUPS
    partitions: int = MAX_PARTITIONS


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group. `now` is None if it has no offsets, `members` if no member is known."""

    group_id: str
    group_type: str | None
    now: GroupNow | None
    rows: Sequence[Now]
    members: int | None
    commits: int | None
    """Number of commits since the watcher started; None if it does not count them."""
    causes: Mapping[str, int]
    """Number of rebalances by trigger, since the watcher started."""
    trouble: Sequence[Event] = ()
    """Crash loops and storms that are not over."""
    events: Sequence[Event] = ()
    """All known crash loops, storms, deployments and zombies, also those that are over."""
    rebalances: Sequence[Rebalance] = ()
    """The last rebalances, oldest first."""
    lives: Sequence[Life] = ()
    waiting: Mapping[str, Any] | None = None
    """A rebalance under way: `began_ms`, and the names of the members for which it waits (`waits_for`)."""
    deadlines: Sequence[Deadline] = ()
    owners: Mapping[tuple[str, int], tuple[str, str]] = field(default_factory=dict)
    """Client id and host of the member that each partition is assigned to."""
    rewinds: Mapping[tuple[str, int], Rewinds] = field(default_factory=dict)
    """Commits that went back, by partition."""
    expiries: Sequence[Expiry] = ()
    """Committed offsets that expire unless a member reads them."""
    deliveries: Mapping[tuple[str, int], Deliveries] = field(default_factory=dict)
    """Of a share group: the deliveries of the share partitions whose stored state is known."""
    acquired: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Of a share group: the records that its members have acquired, of the share partitions of which this is known."""
    state_changes_ms: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Of a share group: when the stored state of its share partitions changed last."""
    redelivered: int | None = None
    """Of a share group: deliveries of records that had been delivered before, since the watcher started."""
    archived: int | None = None
    """Of a share group: records that were archived, since the watcher started."""

    @property
    def verdict(self) -> severity.Verdict:
        """Return the worst verdict on the group, and its reason."""
        return severity.verdict(self.now, self.trouble)

    @property
    def has_storm(self) -> bool:
        return any(each.kind == STORM for each in self.trouble)


@dataclass(frozen=True)
class View:
    """All groups at `at_ms`, and the numbers of groups and partitions beyond the limits."""

    at_ms: int
    groups: Mapping[str, GroupView] = field(default_factory=dict)
    endings: Sequence[Ending] = ()
    left_out_groups: int = 0
    left_out_partitions: int = 0

    @cached_property
    def by_urgency(self) -> list[tuple[GroupView, str, str]]:
        """Return each group with its verdict and the reason; the most urgent first."""
        told = [(group, *group.verdict) for group in self.groups.values()]
        return sorted(told, key=_urgency)


def _urgency(told: tuple[GroupView, str, str]) -> tuple[int, int, str]:
    group, word, _why = told
    return severity.severity(word), -((group.now.lag if group.now else None) or 0), group.group_id

"""The lag of each group and of its partitions over the last hour, a point a minute, for the plots of the live page."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import Protocol

from coordinatord.monitoring.analysis.generations import TopicPartition
from coordinatord.monitoring.dashboard.view import GroupView, View

STEP_MS = 60_000
POINTS = 61
UNKNOWN = -1
Point = tuple[int, int]
"""Time in ms, and lag."""


class Points(Protocol):
    """The lag of groups over time."""

    def points(self, group_id: str) -> list[Point]:
        """Return the lag of the group, oldest first."""

    def curves(self, group_id: str) -> Mapping[TopicPartition, list[Point]]:
        """Return the lag of each of the group's partitions, oldest first."""


class Trends:
    """Lags by group. `add` is called by one thread, the others by any: they see whole points only."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._lags: dict[str, dict[TopicPartition | None, array[int]]] = {}
        """By group and partition; None stands for all partitions together."""

    def add(self, view: View) -> None:
        """Add a point, unless the last one is younger than a minute. Drops the groups that are gone."""
        times = self._times
        if times and 0 <= view.at_ms - times[-1] < STEP_MS:
            return
        if times and view.at_ms < times[-1]:  # the clock went back
            times, self._lags = [], {}
        kept = times[-(POINTS - 1) :]
        unknown = array("q", [UNKNOWN]) * len(kept)
        lags: dict[str, dict[TopicPartition | None, array[int]]] = {}
        for name, group in view.groups.items():
            before = self._lags.get(name, {})
            lags[name] = {
                place: (before[place][-len(kept) :] if place in before and kept else unknown) + array("q", [lag])
                for place, lag in _lags(group)
            }
        self._times, self._lags = [*kept, view.at_ms], lags

    def points(self, group_id: str) -> list[Point]:
        """Return the lag of the group, oldest first, without unknown lags."""
        lags = self._lags.get(group_id, {})
        return self._known(lags[None]) if None in lags else []

    def curves(self, group_id: str) -> dict[TopicPartition, list[Point]]:
        """Return the lag of each of the group's partitions, oldest first, without unknown lags."""
        found = {place: self._known(lags) for place, lags in self._lags.get(group_id, {}).items() if place is not None}
        return {place: points for place, points in found.items() if points}

    def _known(self, lags: array[int]) -> list[Point]:
        return [(at_ms, lag) for at_ms, lag in zip(self._times, lags, strict=False) if lag != UNKNOWN]


def _lags(group: GroupView) -> Iterator[tuple[TopicPartition | None, int]]:
    yield None, UNKNOWN if group.now is None or group.now.lag is None else group.now.lag
    for row in group.rows:
        yield (row.topic, row.partition), UNKNOWN if row.lag is None else row.lag

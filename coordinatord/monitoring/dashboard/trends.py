"""The lag of each group over the last hour, one point a minute, for the plots of the live page."""

from __future__ import annotations

from array import array
from typing import Protocol

from coordinatord.monitoring.dashboard.view import View

STEP_MS = 60_000
POINTS = 61
UNKNOWN = -1


class Points(Protocol):
    """The lag of groups over time."""

    def points(self, group_id: str) -> list[tuple[int, int]]:
        """Return (time in ms, lag) of the group, oldest first."""


class Trends:
    """Lags by group. `add` is called by one thread, the others by any: they see whole points only."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._lags: dict[str, array[int]] = {}

    def add(self, view: View) -> None:
        """Add a point, unless the last one is younger than a minute. Drops the groups that are gone."""
        times = self._times
        if times and 0 <= view.at_ms - times[-1] < STEP_MS:
            return
        if times and view.at_ms < times[-1]:  # the clock went back
            times, self._lags = [], {}
        kept = times[-(POINTS - 1) :]
        unknown = array("q", [UNKNOWN])
        lags: dict[str, array[int]] = {}
        for name, group in view.groups.items():
            before = self._lags.get(name)
            before = unknown * len(kept) if before is None else before[-len(kept) :] if kept else array("q")
            lag = UNKNOWN if group.now is None or group.now.lag is None else group.now.lag
            lags[name] = before + array("q", [lag])
        self._times, self._lags = [*kept, view.at_ms], lags

    def points(self, group_id: str) -> list[tuple[int, int]]:
        """Return (time in ms, lag) of the group, oldest first, without unknown lags."""
        lags, times = self._lags.get(group_id, ()), self._times
        return [(at_ms, lag) for at_ms, lag in zip(times, lags, strict=False) if lag != UNKNOWN]

"""Which groups need somebody: the status of their partitions, and what their members do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from coordinatord.pipeline.analysis.changes import Thresholds
from coordinatord.pipeline.analysis.groups import SEVERITY
from coordinatord.pipeline.analysis.members import CRASH_LOOP, LOOP_GAP_MS, STORM, Event
from coordinatord.pipeline.analysis.status import ALARMING, REWOUND

NO_OFFSETS = "no offsets"

ORDER = (*SEVERITY[: SEVERITY.index(REWOUND)], CRASH_LOOP, STORM, *SEVERITY[SEVERITY.index(REWOUND) :], NO_OFFSETS)
"""What may be said of a group, the worst first."""

_PLACES = {word: place for place, word in enumerate(ORDER)}

URGENT = ALARMING | {CRASH_LOOP, STORM}
"""Of these, what needs somebody."""

LASTS_MS = {CRASH_LOOP: LOOP_GAP_MS, STORM: Thresholds().storm_ms}
"""An event of these kinds is over when nothing more has belonged to it for so long."""


def under_way(events: Iterable[Event], now_ms: int) -> list[Event]:
    """Crash loops and storms that are not over."""
    return [each for each in events if each.kind in LASTS_MS and now_ms - each.ended_ms <= LASTS_MS[each.kind]]


def verdict(status: str | None, why: str, trouble: Sequence[Event]) -> tuple[str, str]:
    """The worst that is to be said of a group, and why: its status (None: it has no offsets), or an event under way."""
    told = [(NO_OFFSETS if status is None else status, why), *((each.kind, each.text) for each in trouble)]
    return min(told, key=lambda each: severity(each[0]))


def severity(word: str) -> int:
    """Sorts what is said of groups, the worst first."""
    return _PLACES.get(word, len(ORDER))

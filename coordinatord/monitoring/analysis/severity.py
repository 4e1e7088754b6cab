"""Which groups need somebody: the status of their partitions, and what their members do. Whatever shows groups asks
`verdict` for what to say, and `is_urgent` for who is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coordinatord.monitoring.analysis.changes import Thresholds
from coordinatord.monitoring.analysis.groups import SEVERITY, GroupNow
from coordinatord.monitoring.analysis.members import CRASH_LOOP, LOOP_GAP_MS, STORM, Event
from coordinatord.monitoring.analysis.offset_timeline import UNKNOWN
from coordinatord.monitoring.analysis.status import ALARMING, LOST, NEAR_LOSS

NO_OFFSETS = "no offsets"

_CRASH_LOOP, _STORM = SEVERITY.index(LOST), SEVERITY.index(NEAR_LOSS)
ORDER = (
    *SEVERITY[:_CRASH_LOOP], CRASH_LOOP, *SEVERITY[_CRASH_LOOP:_STORM], STORM, *SEVERITY[_STORM:], NO_OFFSETS,
)  # fmt: skip
"""What may be said of a group, the worst first."""

_PLACES = {word: place for place, word in enumerate(ORDER)}

URGENT = ALARMING | {CRASH_LOOP, STORM}
"""Of these, what needs somebody."""

LASTS_MS = {CRASH_LOOP: LOOP_GAP_MS, STORM: Thresholds().storm_ms}
"""An event of these kinds is over when nothing more has belonged to it for so long."""


class Verdict(NamedTuple):
    """What is to be said of a group: one of ORDER, and why."""

    word: str
    why: str

    @property
    def is_urgent(self) -> bool:
        return is_urgent(self.word)


def is_urgent(word: str) -> bool:
    """Whether a group of which this is said needs somebody."""
    return word in URGENT


def under_way(events: Iterable[Event], now_ms: int) -> list[Event]:
    """Crash loops and storms that are not over."""
    return [each for each in events if each.kind in LASTS_MS and now_ms - each.ended_ms <= LASTS_MS[each.kind]]


def verdict(now: GroupNow | None, trouble: Sequence[Event]) -> Verdict:
    """The worst that is to be said of a group: its status (None: it has no offsets), or an event under way. A crash
    loop explains the others: while it lasts, members expire, offsets stand still and rebalances follow each other.
    """
    status = Verdict(NO_OFFSETS, "") if now is None else Verdict(now.status, now.why)
    loops = [Verdict(each.kind, each.text) for each in trouble if each.kind == CRASH_LOOP]
    if loops:
        return loops[0]
    return min([status, *(Verdict(each.kind, each.text) for each in trouble)], key=lambda each: severity(each.word))


def judged(group_id: str, now: GroupNow | None, trouble: Sequence[Event]) -> GroupNow:
    """The group's row with its verdict for its status; a row of nothing else for a group without offsets."""
    word, why = verdict(now, trouble)
    if now is None:
        return GroupNow(group_id, word, why, 0, 0, None, None, None, UNKNOWN, None, None)
    return now._replace(status=word, why=why)


def severity(word: str) -> int:
    """Sorts what is said of groups, the worst first."""
    return _PLACES.get(word, len(ORDER))


def urgency(group: GroupNow) -> tuple[int, int, str]:
    """Sorts groups, the most urgent first."""
    return severity(group.status), -(group.lag or 0), group.group_id

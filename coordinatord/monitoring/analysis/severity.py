"""The groups that need attention, by the status of their partitions and the events of their members. All views of
groups use `verdict` for the text, and `is_urgent` for the count of urgent groups.
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
"""All verdicts on a group, the worst first."""

_PLACES = {word: place for place, word in enumerate(ORDER)}

URGENT = ALARMING | {CRASH_LOOP, STORM}
"""The verdicts that need attention."""

LASTS_MS = {CRASH_LOOP: LOOP_GAP_MS, STORM: Thresholds().storm_ms}
"""Time in milliseconds without a further occurrence after which an event of this kind is over."""


class Verdict(NamedTuple):
    """The verdict on a group: one of ORDER, and its reason."""

    word: str
    why: str

    @property
    def is_urgent(self) -> bool:
        return is_urgent(self.word)


def is_urgent(word: str) -> bool:
    """Return whether a group with this verdict needs attention."""
    return word in URGENT


def under_way(events: Iterable[Event], now_ms: int) -> list[Event]:
    """Return the crash loops and storms that are not over."""
    return [each for each in events if each.kind in LASTS_MS and now_ms - each.ended_ms <= LASTS_MS[each.kind]]


def verdict(now: GroupNow | None, trouble: Sequence[Event]) -> Verdict:
    """Return the worst verdict on a group: its status (None: it has no offsets), or an event under way. A crash loop
    takes precedence, because it explains the others: while it lasts, members expire, offsets stand still and rebalances
    follow each other.
    """
    status = Verdict(NO_OFFSETS, "") if now is None else Verdict(now.status, now.why)
    loops = [Verdict(each.kind, each.text) for each in trouble if each.kind == CRASH_LOOP]
    if loops:
        return loops[0]
    return min([status, *(Verdict(each.kind, each.text) for each in trouble)], key=lambda each: severity(each.word))


def judged(group_id: str, now: GroupNow | None, trouble: Sequence[Event]) -> GroupNow:
    """Return the group's row with its verdict as its status; an otherwise empty row for a group without offsets."""
    word, why = verdict(now, trouble)
    if now is None:
        return GroupNow(group_id, word, why, 0, 0, None, None, None, UNKNOWN, None, None)
    return now._replace(status=word, why=why)


def severity(word: str) -> int:
    """Return the sort key of a verdict, the worst first."""
    return _PLACES.get(word, len(ORDER))


def urgency(group: GroupNow) -> tuple[int, int, str]:
    """Return the sort key of a group, the most urgent first."""
    return severity(group.status), -(group.lag or 0), group.group_id

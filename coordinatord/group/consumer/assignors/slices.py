"""What both assignors need: the order of members, and when to let others run."""

from __future__ import annotations

from coordinatord.group.consumer.assignors.spec import GroupSpec
from coordinatord.group.consumer.assignors.tables import SMALLEST_TABLE, STRINGS, collected, table_size

_SLICE = 1_000
"""Units of work, each a few microseconds, between two yields."""


class Work:
    """Counts what has been done since others ran."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _SLICE

    def done(self, units: int = 1) -> bool:
        """Add units of work: partitions, or what takes about as long. True: yield now."""
        self._left -= units
        if self._left > 0:
            return False
        self._left = _SLICE
        return True


def member_order(spec: GroupSpec) -> list[str]:
    """Member ids in the iteration order of the HashMap that TargetAssignmentBuilder makes."""
    capacity = SMALLEST_TABLE
    while spec.peak > capacity * 3 // 4:
        capacity = table_size(capacity * 2)
    return list(collected(STRINGS, spec.members, capacity))

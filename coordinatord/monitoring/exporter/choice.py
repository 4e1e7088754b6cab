"""The selection of groups and topics to watch: expressions that allow and deny, and a limit for the remaining ones."""

from __future__ import annotations

import re
from collections.abc import Sequence

from coordinatord.monitoring.offsets_log.decode.projection import Names

MAX_TOLD = 100_000
"""Largest number of counted names beyond the limit; the true number may be higher."""


class Choice(Names):
    """Names that match one of `allow` (none: all) as a whole, and none of `deny`. The first `room` of them are watched;
    the others are only counted.
    """

    def __init__(self, allow: Sequence[str] = (), deny: Sequence[str] = (), room: int | None = None) -> None:
        """Raises re.error for an invalid expression."""
        super().__init__(())
        self._allow = re.compile("|".join(f"(?:{each})" for each in allow)) if allow else None
        self._deny = re.compile("|".join(f"(?:{each})" for each in deny)) if deny else None
        self._room = room
        self.watched: set[str] = set()
        self._without_room: set[int] = set()

    @property
    def left_out(self) -> int:
        """The number of names beyond the limit."""
        return len(self._without_room)

    def __contains__(self, name: str) -> bool:
        if name in self.watched:
            return True
        if self._allow is not None and self._allow.fullmatch(name) is None:
            return False
        if self._deny is not None and self._deny.fullmatch(name) is not None:
            return False
        if self._room is None:
            return True
        if len(self.watched) >= self._room:
            if len(self._without_room) < MAX_TOLD:
                self._without_room.add(hash(name))
            return False
        self.watched.add(name)
        self._without_room.discard(hash(name))
        return True

    def keep(self, names: set[str]) -> None:
        """Keep only these of the watched names, which makes room for others."""
        if self.watched - names:
            self.watched &= names
            self._without_room.clear()  # names beyond the limit will occur again

    def __reduce__(self) -> tuple[type[Names], tuple[tuple[str, ...], bool]]:
        raise TypeError("it counts, and is for one process")

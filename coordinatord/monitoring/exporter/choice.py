"""Which groups and topics are watched: expressions that allow and deny, and a limit for what is left."""

from __future__ import annotations

import re
from collections.abc import Sequence

from coordinatord.monitoring.offsets_log.decode.projection import Names

MAX_TOLD = 100_000
"""The most names without room that are counted; of more, it is so many at least."""


class Choice(Names):
    """Names that match one of `allow` (none: all) as a whole, and none of `deny`. The first `room` of them are watched;
    of the others it is counted how many there are.
    """

    def __init__(self, allow: Sequence[str] = (), deny: Sequence[str] = (), room: int | None = None) -> None:
        """Raises re.error."""
        super().__init__(())
        self._allow = re.compile("|".join(f"(?:{each})" for each in allow)) if allow else None
        self._deny = re.compile("|".join(f"(?:{each})" for each in deny)) if deny else None
        self._room = room
        self.watched: set[str] = set()
        self._without_room: set[int] = set()

    @property
    def left_out(self) -> int:
        """How many names there is no room for."""
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
        """Of the watched ones only these are left; the others make room."""
        if self.watched - names:
            self.watched &= names
            self._without_room.clear()  # who there is no room for will be seen again

    def __reduce__(self) -> tuple[type[Names], tuple[tuple[str, ...], bool]]:
        raise TypeError("it counts, and is for one process")

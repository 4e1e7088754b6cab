"""A reader's selection: kinds, groups, topics, a range of offsets. Applied before decoding."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from coordinatord.monitoring.offsets_log.decode.row_types import KIND_OF_TYPE, KINDS


class Names:
    """A selection of names: exact ones, and patterns with `*` and `?`. Results are cached, because names repeat."""

    def __init__(self, names: Iterable[str], patterns: bool = True) -> None:
        self.names = tuple(names)
        self.patterns = patterns
        # Brackets are part of the name.
        translated = [
            fnmatch.translate(name.replace("[", "[[]")) for name in self.names if patterns and _is_pattern(name)
        ]
        self._exact = frozenset(name for name in self.names if not (patterns and _is_pattern(name)))
        self._pattern = re.compile("|".join(translated)) if translated else None
        self._known: dict[str, bool] = {}

    def __contains__(self, name: str) -> bool:
        if name in self._exact:
            return True
        if self._pattern is None:
            return False
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._pattern.match(name) is not None
        return known

    def __reduce__(self) -> tuple[type[Names], tuple[tuple[str, ...], bool]]:
        return type(self), (self.names, self.patterns)

    def __repr__(self) -> str:
        return f"Names({list(self.names)!r})"


def _is_pattern(name: str) -> bool:
    return "*" in name or "?" in name


@dataclass(frozen=True, slots=True)
class Wanted:
    """The selection. None in a field means all. Offsets are those of the log; `next_offset` is excluded. `source` names
    the input in rows of the quarantine.
    """

    kinds: frozenset[str] = frozenset(KINDS)
    groups: tuple[Names, ...] = ()  # all must hold: the option, and Spark's pushed filters
    topics: tuple[Names, ...] = ()
    log_partition: int | None = None
    first_offset: int | None = None
    next_offset: int | None = None
    source: str | None = None
    types: frozenset[int] = field(default=frozenset(), init=False)

    def __post_init__(self) -> None:
        types = frozenset(number for number, kind in KIND_OF_TYPE.items() if kind in self.kinds)
        object.__setattr__(self, "types", types)

    def has_group(self, group_id: str) -> bool:
        return all(group_id in names for names in self.groups)

    def has_topic(self, topic: str) -> bool:
        return all(topic in names for names in self.topics)

    def has_offset(self, offset: int) -> bool:
        return (self.first_offset is None or offset >= self.first_offset) and (
            self.next_offset is None or offset < self.next_offset
        )

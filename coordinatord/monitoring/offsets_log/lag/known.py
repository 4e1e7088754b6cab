"""The content of a log of groups: commits, and the known data of a group's members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinatord.monitoring.analysis.generations import TopicPartition
from coordinatord.monitoring.analysis.status import Members

Key = tuple[str, str, int]


class Written(NamedTuple):
    """A commit or a tombstone, which has no offset."""

    key: Key
    offset: int | None
    made_ms: int
    log_offset: int


@dataclass(slots=True)
class Known:
    """The known data of a group's members. `classic` has the topics and partitions of each; None if the log has no
    generation of the group, or the generation was deleted.
    """

    classic: dict[str, frozenset[TopicPartition]] | None = None
    classic_ms: int | None = None
    consumers: dict[str, tuple[bool, int | None]] = field(default_factory=dict)
    """True if the member exists, and the time of that record, by member id."""
    current: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    """Topic ids and partitions, by member id."""
    is_consumer_group: bool = False
    """True if the log has a group epoch of the group that was not deleted."""

    @property
    def exists(self) -> bool:
        """True if the group was not deleted. A group that only has committed offsets has no such record at all."""
        return self.classic is not None or self.is_consumer_group or self.count > 0

    @property
    def count(self) -> int:
        return len(self.classic or ()) + sum(is_there for is_there, _ in self.consumers.values())

    @property
    def members(self) -> Members:
        if self.classic is None and not self.consumers:
            return Members()
        if self.count:
            return Members(has_any=True)
        times = [time_ms for _, time_ms in self.consumers.values()]
        times += [self.classic_ms] if self.classic is not None else []
        return Members(has_any=False, empty_ms=max((each for each in times if each is not None), default=None))

    def assigned(self, names: Mapping[str, str]) -> Iterator[TopicPartition]:
        """Yield the members' partitions. `names` are topic names by id; a topic without one is left out."""
        for partitions in (self.classic or {}).values():
            yield from partitions
        for member_id, owned in self.current.items():
            if self.consumers.get(member_id, (False, None))[0]:
                yield from ((names[topic_id], number) for topic_id, number in owned if topic_id in names)

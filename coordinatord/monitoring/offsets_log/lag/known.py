"""What a log of groups has written down: commits, and what is known of a group's members."""

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
    """What is known of a group's members. `classic` has the topics and partitions of each; None if no generation of it
    is in the log, or it was deleted.
    """

    classic: dict[str, frozenset[TopicPartition]] | None = None
    classic_ms: int | None = None
    consumers: dict[str, tuple[bool, int | None]] = field(default_factory=dict)
    """Whether the member is there, and when that was written, by member id."""
    current: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    """Topic ids and partitions, by member id."""
    is_consumer_group: bool = False
    """Whether the log has an epoch of it that was not deleted."""

    @property
    def exists(self) -> bool:
        """Whether the group was not deleted. One that only has committed offsets has no such record at all."""
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
        """What the members have. `names` are topic names by id; a topic without one is left out."""
        for partitions in (self.classic or {}).values():
            yield from partitions
        for member_id, owned in self.current.items():
            if self.consumers.get(member_id, (False, None))[0]:
                yield from ((names[topic_id], number) for topic_id, number in owned if topic_id in names)

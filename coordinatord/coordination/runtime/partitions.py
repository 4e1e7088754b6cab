"""States of the partitions of a coordinator's topic on this node.

    unloaded            another node serves it
    loading ──▶ active  its actors are served
       └─────▶ failed   it cannot be read

The errors are those of Kafka's coordinators: clients retry at this node only while a partition is loading.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from coordinatord.transport.cluster.partitioner import partition_for
from kafka_wire.errors import ErrorCode

UNLOADED: Final = 0
LOADING: Final = 1
ACTIVE: Final = 2
FAILED: Final = 3


class Partitions:
    """The state of each partition of one topic: `states[partition]`."""

    __slots__ = ("_owns", "states")

    def __init__(self, count: int, owns: Callable[[int], bool] = lambda _partition: True) -> None:
        """Partitions that this node `owns` begin as LOADING. `count` is 0 while the topic does not exist."""
        self._owns = owns
        self.states = self._all(count, LOADING)

    def made(self, count: int) -> None:
        """Set all partitions of a newly created topic to ACTIVE: there is nothing to load."""
        self.states = self._all(count, ACTIVE)

    def _all(self, count: int, state: int) -> list[int]:
        return [state if self._owns(partition) else UNLOADED for partition in range(count)]

    def __len__(self) -> int:
        return len(self.states)

    def of(self, name: str) -> int:
        """Return the partition that a group id or transactional id belongs to. The topic must exist."""
        return partition_for(name, len(self.states))

    def availability(self, partition: int) -> ErrorCode:
        """Return NONE if this node serves the partition's actors; otherwise the error code for the response."""
        state = self.states[partition]
        if state == ACTIVE:
            return ErrorCode.NONE
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if state == LOADING else ErrorCode.NOT_COORDINATOR

    @property
    def is_loading(self) -> bool:
        """True while some partitions are not loaded yet."""
        return LOADING in self.states

    def to_load(self) -> list[int]:
        """Return the partitions that are not loaded yet."""
        return [partition for partition, state in enumerate(self.states) if state == LOADING]

    def loaded(self, partition: int) -> None:
        """Mark the partition as loaded."""
        self.states[partition] = ACTIVE

    def failed(self, partition: int) -> None:
        """Mark the partition as unreadable."""
        self.states[partition] = FAILED

    def counts(self) -> dict[str, float]:
        """Return the number of partitions in each state. Scrapes call this from another thread."""
        states = list(self.states)
        return {"loading": states.count(LOADING), "active": states.count(ACTIVE), "failed": states.count(FAILED)}

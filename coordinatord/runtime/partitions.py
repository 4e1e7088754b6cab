"""Which partitions of a coordinators' topic this node serves now.

    unloaded            another node's: nothing of it is here
    loading ──▶ active  what lives in it is served
       └─────▶ failed   it cannot be read

What a request hears is what Kafka's coordinators say: only a partition that is being loaded is worth waiting for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from coordinatord.cluster.placement import partition_for
from kafka_wire.errors import ErrorCode

UNLOADED: Final = 0
LOADING: Final = 1
ACTIVE: Final = 2
FAILED: Final = 3


class Partitions:
    """The states of a topic's partitions."""

    __slots__ = ("_owns", "states")

    def __init__(self, count: int, owns: Callable[[int], bool] = lambda _partition: True) -> None:
        """All that this node `owns` are to be loaded. A topic that is not made yet has none."""
        self._owns = owns
        self.states = self._all(count, LOADING)

    def made(self, count: int) -> None:
        """The topic has been made: there is nothing to load."""
        self.states = self._all(count, ACTIVE)

    def _all(self, count: int, state: int) -> list[int]:
        return [state if self._owns(partition) else UNLOADED for partition in range(count)]

    def __len__(self) -> int:
        return len(self.states)

    def of(self, name: str) -> int:
        """The partition in which what has this id lives; there must be the topic."""
        return partition_for(name, len(self.states))

    def availability(self, partition: int) -> ErrorCode:
        """NONE where what lives in the partition is served here; else what a request for that hears."""
        state = self.states[partition]
        if state == ACTIVE:
            return ErrorCode.NONE
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if state == LOADING else ErrorCode.NOT_COORDINATOR

    @property
    def is_loading(self) -> bool:
        """Not all that lives here is known yet."""
        return LOADING in self.states

    def to_load(self) -> list[int]:
        """Those that are not loaded yet."""
        return [partition for partition, state in enumerate(self.states) if state == LOADING]

    def loaded(self, partition: int) -> None:
        """All that lives in it is here."""
        self.states[partition] = ACTIVE

    def failed(self, partition: int) -> None:
        """It cannot be read."""
        self.states[partition] = FAILED

    def counts(self) -> dict[str, float]:
        """How many are in which state; read by scrapes, from another thread."""
        states = list(self.states)
        return {"loading": states.count(LOADING), "active": states.count(ACTIVE), "failed": states.count(FAILED)}

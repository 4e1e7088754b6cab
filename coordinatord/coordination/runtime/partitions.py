"""States of the partitions of a coordinator's topic on this node.

    unloaded            another node serves it
    loading ──▶ active  its actors are served
       └─────▶ failed   it cannot be read

The errors are those of Kafka's coordinators: clients retry at this node only while a partition is loading.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from coordinatord.base.observe.logger import get_logger
from coordinatord.broker.log.errors import LogFailed
from coordinatord.transport.cluster.partitioner import partition_for
from kafka_wire.errors import ErrorCode

log = get_logger("coordinatord.coordination.runtime")

UNLOADED: Final = 0
LOADING: Final = 1
ACTIVE: Final = 2
FAILED: Final = 3


class InternalTopic(Protocol):
    """The topic of a coordinator, as Kafka's AutoTopicCreationManager creates it."""

    name: str

    def count(self) -> int:
        """Return its number of partitions; 0 while it does not exist."""

    def create(self) -> int:
        """Create it durably if it does not exist; return its number of partitions. Raises OSError if that fails."""


class Partitions:
    """The state of each partition of one topic: `states[partition]`."""

    __slots__ = ("_owns", "_topic", "states")

    def __init__(
        self,
        count: int,
        owns: Callable[[int], bool] = lambda _partition: True,
        topic: InternalTopic | None = None,
    ) -> None:
        """Partitions that this node `owns` begin as LOADING. `count` is 0 while the topic does not exist; `topic` then
        finds or creates it.
        """
        self._owns = owns
        self._topic = topic
        self.states = self._all(count, LOADING)

    def ensure(self) -> ErrorCode:
        """Create the topic if it does not exist: a FindCoordinator has come. Return NONE, or the error."""
        if not self.states and self._topic is not None:
            try:
                self.made(self._topic.create())
            except (OSError, LogFailed) as error:
                log.error("a coordinator's topic cannot be created", topic=self._topic.name, error=str(error))
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NONE

    def exist(self) -> bool:
        """Return whether the topic exists; a client or another node may have created it a moment ago."""
        if not self.states and self._topic is not None:
            self.made(self._topic.count())
        return bool(self.states)

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
        if not self.exist():
            return ErrorCode.NOT_COORDINATOR
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

"""Moves of a group's coordinator away and back, and its loading state.

As in Kafka, the unit of a move is a partition of `__consumer_offsets` with all of its groups: requests get
NOT_COORDINATOR until a client has sent FindCoordinator; then the partition is loaded from the log, and state that was
only in memory is lost. With one node, FindCoordinator returns this node; with several workers, another worker
(partition_move.py).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from coordinatord.coordination.group.events import Unload
from coordinatord.coordination.runtime.partitions import ACTIVE, LOADING, UNLOADED
from coordinatord.server.control.node import Node
from coordinatord.server.control.problems import not_now
from kafka_wire.errors import ErrorCode

if TYPE_CHECKING:
    from coordinatord.server.control.partition_move import Elsewhere


class Moves:
    """The partitions that are away or being loaded. `tell` is called when one is back."""

    def __init__(self, node: Node, tell: Callable[[], object]) -> None:
        self._node = node
        self._tell = tell
        self._loading: Counter[int] = Counter()
        self._away: set[int] = set()
        self._coming: set[int] = set()
        self._elsewhere: Elsewhere | None = None
        part = node.part
        if part is not None and part.placed is not None:
            from coordinatord.server.control.partition_move import Elsewhere

            self._elsewhere = Elsewhere(node, part.placed, part.worker, self._load)

    @property
    def awaits_search(self) -> bool:
        """True if a FindCoordinator brings a partition back."""
        return bool(self._away)

    async def move(self, group_id: str) -> None:
        """Move the group's partition away: until a FindCoordinator names the group, or to another worker; then this
        returns when that worker has loaded it.
        """
        elsewhere = self._elsewhere
        target = None if elsewhere is None else elsewhere.target()
        partition = self._take(group_id)
        self._unload(partition, UNLOADED, ErrorCode.NOT_COORDINATOR)
        if elsewhere is None or target is None:
            self._away.add(partition)
        else:
            await elsewhere.give(partition, target)

    def follow(self) -> None:
        """Apply the moves of other workers."""
        if self._elsewhere is not None:
            self._elsewhere.follow()

    def begin_loading(self, group_id: str) -> None:
        """Keep the group's partition in the loading state from now on."""
        partition = self._partition_of(group_id)
        if not self._loading[partition]:
            self._take(group_id)
            self._unload(partition, LOADING, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self._loading[partition] += 1

    async def end_loading(self, group_id: str) -> None:
        """End the loading state; return when the partition is loaded. A restart in between has also ended the state."""
        partition = self._partition_of(group_id)
        if not self._loading[partition]:
            return
        self._loading[partition] -= 1
        if not self._loading[partition]:
            await self._load(partition)

    def searched(self, group_ids: list[str]) -> None:
        """Bring back the partitions of the groups that a FindCoordinator has named."""
        if not self._away:
            return
        partitions = self._node.coordinator.partitions
        for partition in {partitions.of(each) for each in group_ids} & self._away:
            self._away.discard(partition)
            self._come_back(partition)

    async def end_all(self) -> None:
        """Bring back all partitions that are away, and end all loading states."""
        for partition in list(self._away):
            self._away.discard(partition)
            self._come_back(partition)
        for partition in [each for each, count in self._loading.items() if count]:
            self._loading[partition] = 0
            await self._load(partition)
        while self._coming:  # noqa: ASYNC110  # a load takes a few turns
            await asyncio.sleep(0)

    def _partition_of(self, group_id: str) -> int:
        """Return the group's partition; creates `__consumer_offsets` as a FindCoordinator would."""
        partitions = self._node.coordinator.partitions
        if partitions.ensure() is not ErrorCode.NONE:
            raise not_now("__consumer_offsets cannot be created.")
        return partitions.of(group_id)

    def _take(self, group_id: str) -> int:
        """Return the group's partition. Raises ControlError unless it is here and loaded."""
        partition = self._partition_of(group_id)
        if self._node.coordinator.partitions.states[partition] != ACTIVE:
            raise not_now(f"The coordinator of group {group_id} is away or being loaded already.")
        return partition

    def _unload(self, partition: int, state: int, error: ErrorCode) -> None:
        coordinator = self._node.coordinator
        for actor in [each for each in coordinator.actors.values() if each.partition == partition]:
            actor.tell(Unload(error))
            coordinator.forget(actor)
        for pending in [each for each in coordinator.pending if each[0] == partition]:
            del coordinator.pending[pending]
        coordinator.partitions.states[partition] = state

    def _come_back(self, partition: int) -> None:
        self._node.coordinator.partitions.states[partition] = LOADING
        self._coming.add(partition)
        task = self._node.loop.create_task(self._load(partition))
        task.add_done_callback(lambda _: self._coming.discard(partition))

    async def _load(self, partition: int) -> None:
        """Load the partition once all earlier writes are durable, and so can be read."""
        coordinator, writer = self._node.coordinator, self._node.writer
        durable: asyncio.Future[None] = self._node.loop.create_future()
        writer.hold(writer.last_epoch, lambda: durable.set_result(None), lambda: durable.set_result(None))
        await durable
        for _ in coordinator.load(partition, coordinator.log.read(partition)):
            await asyncio.sleep(0)
        self._tell()

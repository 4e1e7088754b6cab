"""A group's coordinator moves away and comes back, or is being loaded.

As in Kafka, what moves is a partition of `__consumer_offsets` with all of its groups: requests are answered
NOT_COORDINATOR until a client has asked for the coordinator anew; then the partition is loaded from the log, and what
was only in memory is gone. Where there is one node, the coordinator that is found is this one; where there are several
workers, it is another one (partition_move.py).
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
    """Which partitions are away. `tell` is called when one is back."""

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
        """Whether a FindCoordinator brings a partition back."""
        return bool(self._away)

    async def move(self, group_id: str) -> None:
        """The group's partition is away until somebody asks where it is; or on another worker, which has loaded it."""
        elsewhere = self._elsewhere
        target = None if elsewhere is None else elsewhere.target()
        partition = self._take(group_id)
        self._unload(partition, UNLOADED, ErrorCode.NOT_COORDINATOR)
        if elsewhere is None or target is None:
            self._away.add(partition)
        else:
            await elsewhere.give(partition, target)

    def follow(self) -> None:
        """Another worker has moved something."""
        if self._elsewhere is not None:
            self._elsewhere.follow()

    def begin_loading(self, group_id: str) -> None:
        """The group's partition is being loaded from now on."""
        partition = self._node.coordinator.partitions.of(group_id)
        if not self._loading[partition]:
            self._take(group_id)
            self._unload(partition, LOADING, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self._loading[partition] += 1

    async def end_loading(self, group_id: str) -> None:
        """It is loaded; returns when it is. A restart in between has loaded it, too."""
        partition = self._node.coordinator.partitions.of(group_id)
        if not self._loading[partition]:
            return
        self._loading[partition] -= 1
        if not self._loading[partition]:
            await self._load(partition)

    def searched(self, group_ids: list[str]) -> None:
        """A FindCoordinator has named these groups."""
        partitions = self._node.coordinator.partitions
        for partition in {partitions.of(each) for each in group_ids} & self._away:
            self._away.discard(partition)
            self._come_back(partition)

    async def end_all(self) -> None:
        """Bring back what is away."""
        for partition in list(self._away):
            self._away.discard(partition)
            self._come_back(partition)
        for partition in [each for each, count in self._loading.items() if count]:
            self._loading[partition] = 0
            await self._load(partition)
        while self._coming:  # noqa: ASYNC110  # a load takes a few turns
            await asyncio.sleep(0)

    def _take(self, group_id: str) -> int:
        """The group's partition, if it is here and loaded."""
        partitions = self._node.coordinator.partitions
        partition = partitions.of(group_id)
        if partitions.states[partition] != ACTIVE:
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
        """Once all that was written is durable, and so can be read."""
        coordinator, writer = self._node.coordinator, self._node.writer
        durable: asyncio.Future[None] = self._node.loop.create_future()
        writer.hold(writer.last_epoch, lambda: durable.set_result(None), lambda: durable.set_result(None))
        await durable
        for _ in coordinator.load(partition, coordinator.log.read(partition)):
            await asyncio.sleep(0)
        self._tell()

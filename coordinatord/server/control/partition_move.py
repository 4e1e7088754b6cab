"""Moves of a partition of groups to another worker, with its groups: `move` if there are several workers.

As between Kafka's brokers, the old leader unloads the groups, so that requests get NOT_COORDINATOR, and the new one
loads them from the log: sessions begin anew there. Between the two steps the log is handed over
(broker/log/partition_transfer.py). All workers read the leader of each partition from shared memory
(transport/cluster/moved_partitions.py), so FindCoordinator returns the new leader at once; the supervisor's `changed`
wakes the workers that have something to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.partition_transfer import give_up
from coordinatord.broker.topics.catalogue import Topic
from coordinatord.coordination.runtime.partitions import LOADING, UNLOADED
from coordinatord.server.control.node import Node
from coordinatord.server.control.problems import not_now
from coordinatord.transport.cluster.moved_partitions import MovedPartitions
from coordinatord.transport.cluster.nodes import MOVABLE

TIMEOUT_S = 20.0
"""Longest time in seconds for another worker to load a partition."""


class Elsewhere:
    """Moves from and to one worker. `load` loads a partition of groups."""

    def __init__(
        self, node: Node, placed: MovedPartitions, worker: int, load: Callable[[int], Awaitable[None]]
    ) -> None:
        self._node = node
        self._placed = placed
        self._worker = worker
        self._load = load
        self._leaders = [placed.leader(partition) for partition in range(placed.partitions)]
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._loads: set[asyncio.Task[None]] = set()

    def target(self) -> int:
        """Return the worker that gets a partition of this one. Raises ControlError."""
        found = self._placed.next_alive(self._worker)
        if found is None:
            raise not_now("No other worker runs just now: there is no worker to move the coordinator to.")
        return found

    async def give(self, partition: int, worker: int) -> None:
        """Hand over an unloaded partition; return when the other worker has loaded it. Raises ControlError."""
        node = self._node
        node.ledger_writer.flush()
        for topic in MOVABLE:
            found = node.topics.catalogue.partition(topic, partition)
            if found is not None:
                found.is_here = False  # no marker is written there any more
        durable: asyncio.Future[None] = node.loop.create_future()
        node.writer.hold(node.writer.last_epoch, lambda: durable.set_result(None), lambda: durable.set_result(None))
        await durable
        logs = [log for topic in MOVABLE if (log := node.data.get(topic, partition)) is not None]
        give_up(node.data, node.writer, logs)
        taken = self._waiting[partition] = node.loop.create_future()
        self._placed.give(partition, worker)
        self._leaders[partition] = worker
        self._lead_anew(partition)
        try:
            await asyncio.wait_for(taken, TIMEOUT_S)
        except TimeoutError:
            raise not_now(f"Worker {worker} has not loaded the groups within {TIMEOUT_S:g} s.") from None
        finally:
            del self._waiting[partition]

    def follow(self) -> None:
        """Apply another worker's changes: take the partitions that this worker was given, and update the leaders of the
        rest.
        """
        placed = self._placed
        for partition, taken in self._waiting.items():
            if placed.is_taken(partition) and not taken.done():
                taken.set_result(None)
        for partition, known in enumerate(self._leaders):
            leader = placed.leader(partition)
            if leader == known:
                continue
            self._leaders[partition] = leader
            self._lead_anew(partition)
            if leader == self._worker and self._node.coordinator.partitions.states[partition] == UNLOADED:
                self._node.coordinator.partitions.states[partition] = LOADING
                loading = self._node.loop.create_task(self._take(partition))
                self._loads.add(loading)
                loading.add_done_callback(self._loads.discard)

    async def _take(self, partition: int) -> None:
        await self._load(partition)
        self._placed.taken(partition, self._worker)

    def _lead_anew(self, partition: int) -> None:
        node = self._node

        def open_log(topic: Topic) -> PartitionLog:
            return node.data.take(topic.name, partition, topic.topic_id, topic.configs.log_config)

        for topic in MOVABLE:
            node.topics.catalogue.led_anew(topic, partition, open_log)
        node.coordinator.log.forget(partition)

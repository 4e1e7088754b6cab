"""The share coordinator on a simulated disk, wired as the daemon wires it: its topic, its log, its persister, its APIs.
`restart` and `crash_and_restart` load everything anew.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from coordinatord.base.observe.metrics import Metrics
from coordinatord.broker.log.simulated_disk import CrashKind, SimulatedDisk
from coordinatord.broker.topics.names import SHARE_TOPIC
from coordinatord.coordination.runtime.runtime import Runtime
from coordinatord.coordination.runtime.topic_log import TopicLog, partitions_of
from coordinatord.coordination.share.apis.state import ShareStateApis
from coordinatord.coordination.share.coordinator.coordinator import ShareCoordinator
from coordinatord.coordination.share.coordinator.state import ShareCoordinatorSettings
from coordinatord.coordination.share.persister import (
    InitializePartition,
    PartitionError,
    PartitionState,
    PartitionSummary,
    ReadPartition,
    StateBatch,
    TopicIdPartition,
    WritePartition,
)
from coordinatord.coordination.share.state_persister import StatePersister
from kafka_wire.records.share_state import decode_key, decode_value
from tests.broker.topics.world import World as TopicsWorld
from tests.coordination.transactions.world import Alarms

GROUP = "g"


class World(TopicsWorld):
    """See the module's docstring. The topic `orders` has three partitions."""

    is_loaded = True

    def __init__(self, disk: SimulatedDisk | None = None, **settings: Any) -> None:
        settings.setdefault("share_coordinator_state_topic_num_partitions", 4)
        super().__init__(disk, **settings)
        self.topic_id = self.create("orders", 3)

    def open(self) -> None:
        super().open()
        settings, topics = self.settings, self.topics
        alarms = Alarms(self.schedule_at)
        runtime = Runtime(self.writer, alarms, lambda: self.time_ms, Metrics())
        self.share = ShareCoordinator(
            runtime,
            TopicLog(SHARE_TOPIC, topics.transactional, self.writer),
            partitions_of(SHARE_TOPIC, topics, self.nodes()),
            settings=ShareCoordinatorSettings(settings.share_coordinator_snapshot_update_records_per_snapshot),
            max_share_partitions=settings.max_share_partitions,
        )
        topics.on_deleted(self.share.topic_deleted)
        self.persister = StatePersister(self.share, topics, runtime, self.loop.call_soon)
        self.handlers |= ShareStateApis(self.share, topics).handlers()
        if self.is_loaded:
            self.load()

    def load(self, *partitions: int) -> None:
        """Load these partitions of the log; all without any."""
        for index in partitions or self.share.partitions.to_load():
            for _count in self.share.load(index, self.share.log.read(index)):
                pass

    def restart(self) -> None:
        """A clean stop and a start."""
        self.share.drain()
        self.stop()
        self.open()

    def crash_and_restart(self, kind: CrashKind = "kill") -> None:
        self.crash(kind)
        self.open()

    # The persister, until everything is durable

    def initialize(self, *partitions: int, state_epoch: int = 1, start_offset: int = -1) -> list[PartitionError]:
        found: list[PartitionError] = []
        wanted = [InitializePartition(self.topic_id, each, state_epoch, start_offset) for each in partitions or (0,)]
        self.persister.initialize(GROUP, wanted, found.extend)
        self.settle()
        return found

    def read(self, partition: int = 0, leader_epoch: int = 5) -> PartitionState:
        found: list[PartitionState] = []
        self.persister.read(GROUP, [ReadPartition(self.topic_id, partition, leader_epoch)], found.extend)
        self.settle()
        [state] = found
        return state

    def write(self, *batches: StateBatch, partition: int = 0, start_offset: int = -1, complete: int = 0) -> Any:
        """The result; None while the log has not written it (`settle`)."""
        found: list[PartitionError] = []
        wanted = WritePartition(self.topic_id, partition, 1, 5, start_offset, complete, batches)
        self.persister.write(GROUP, [wanted], found.extend)
        self.settle()
        [result] = found
        return result

    def delete(self, *partitions: int) -> list[PartitionError]:
        found: list[PartitionError] = []
        self.persister.delete(GROUP, self.parts(*partitions), found.extend)
        self.settle()
        return found

    def summary(self, partition: int = 0) -> PartitionSummary:
        found: list[PartitionSummary] = []
        self.persister.read_summary(GROUP, self.parts(partition), found.extend)
        self.settle()
        [result] = found
        return result

    def parts(self, *partitions: int) -> list[TopicIdPartition]:
        return [(self.topic_id, each) for each in partitions]

    # What is stored

    def states(self) -> dict[str, dict[str, Any]]:
        """The state of every share partition, by key."""
        return {key: dataclasses.asdict(actor.stored) for key, actor in self.share.actors.items()}

    def log_of(self, partition: int) -> Any:
        found = self.topics.catalogue.partition(SHARE_TOPIC, partition)
        assert found is not None
        return found.log

    def records(self) -> list[tuple[int, int, Any, Any]]:
        """Partition of the log, offset, key and value of each record."""
        found = []
        for partition in range(self.topics.internal(SHARE_TOPIC).count()):
            first = self.log_of(partition).log_start_offset
            for each in self.share.log.read(partition):
                for offset, _, key_bytes, value_bytes in each.records:
                    key = decode_key(key_bytes or b"")
                    value = None if value_bytes is None else decode_value(key.record_type, value_bytes)
                    if offset >= first:
                        found.append((partition, offset, key, value))
        return found

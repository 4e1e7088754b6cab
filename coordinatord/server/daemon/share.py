"""The share coordinator of a daemon, and the delivery of records to share groups: their assembly, their requests, their
periodic work.

Imported only if share groups are served. Of several nodes, the leader of a topic partition delivers its records to
share groups; their state is with the leader of the key's partition of `__share_group_state`, which may be another node
(coordination/share/state_persister.py).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coordinatord.base.budget import Budget
from coordinatord.broker.topics.names import SHARE_TOPIC
from coordinatord.coordination.service.apis.share_groups import ShareGroups
from coordinatord.coordination.service.apis.share_offsets import SHARE_OFFSETS_APIS, ShareOffsets
from coordinatord.coordination.service.share_states import ShareStates
from coordinatord.coordination.share.apis.state import APIS, ShareStateApis
from coordinatord.coordination.share.coordinator.coordinator import ShareCoordinator, coordinator_key, parse_key
from coordinatord.coordination.share.coordinator.state import ShareCoordinatorSettings, SharePartitionState
from coordinatord.coordination.share.delivery import ShareDelivery
from coordinatord.coordination.share.end_offsets import PartitionEnds
from coordinatord.coordination.share.leader import ShareKey
from coordinatord.coordination.share.persister import UNINITIALIZED_START_OFFSET
from coordinatord.coordination.share.redeliveries import Redeliveries
from coordinatord.coordination.share.state_persister import StatePersister
from coordinatord.transport.net.lazy_handlers import Handler, lazy_handlers
from kafka_wire.errors import ErrorCode

if TYPE_CHECKING:
    from coordinatord.coordination.group.consumer.state import GroupEnvironment
    from coordinatord.coordination.service.groups import Coordinator
    from coordinatord.server.daemon.assembled import Assembled


class ShareState:
    """The share coordinator, the persister on it, and the share partitions that the persister stores."""

    def __init__(self, daemon: Assembled) -> None:
        """`daemon`: a daemon.Daemon whose topics are assembled, and not yet its groups."""
        settings = daemon.settings
        self.settings = settings
        self.topics = daemon.topics
        others = None if daemon.peers is None else (daemon.nodes, daemon.peers)
        self.coordinator = ShareCoordinator(
            daemon.runtime,
            daemon.log_of(SHARE_TOPIC, settings.share_coordinator_load_buffer_size),
            daemon.partitions_of(SHARE_TOPIC, daemon.topics.share_partitions or 0),
            settings=ShareCoordinatorSettings(settings.share_coordinator_snapshot_update_records_per_snapshot),
            max_share_partitions=settings.max_share_partitions,
            topics=daemon.topics,
        )
        daemon.topics.made_elsewhere[SHARE_TOPIC] = self.coordinator.topic_made
        self.persister = StatePersister(self.coordinator, daemon.topics, daemon.runtime, daemon.loop.call_soon, others)
        self.ends = PartitionEnds(daemon.topics.catalogue, others)
        daemon.topics.on_deleted(self.coordinator.topic_deleted)
        self.delivery = ShareDelivery(
            settings,
            daemon.topics,
            daemon.nodes,
            daemon.runtime,
            self.persister,
            daemon.timers.wait_alarm,
            lambda: daemon.storage.leads,
            daemon.loop.call_soon,
            others,
        )
        self.redeliveries: Redeliveries | None = None
        if settings.rebalance_ledger_enable:
            self.redeliveries = Redeliveries(
                settings.node_id,
                lambda found, encode: daemon.ledger_writer.append(found, encode),  # assembled later
                daemon.topics.topic_name,
                daemon.now_ms,
            )
            self.delivery.partitions.observers.append(self.redeliveries)

    def handlers(self, groups: ShareStates, surroundings: GroupEnvironment) -> dict[int, Handler]:
        """Return the handlers by API key: of the share coordinator, and of the share groups that use it."""

        def offsets() -> ShareOffsets:
            return ShareOffsets(groups, surroundings.topics, self.ends, self.settings)

        return {
            **lazy_handlers(APIS, lambda: ShareStateApis(self.coordinator, self.topics)),
            **ShareGroups(groups, surroundings, self.settings).handlers(),
            **lazy_handlers(SHARE_OFFSETS_APIS, offsets),
            **self.delivery.handlers(),
        }

    def drain(self) -> None:
        """Respond to parked requests, because the daemon is stopping."""
        self.coordinator.drain()
        self.delivery.drain()

    def states(self, coordinator: Coordinator) -> ShareStates:
        """Return the state of share partitions, for groups."""
        return ShareStates(coordinator, self.persister)

    def start_offset(self, key: ShareKey) -> int:
        """Return the start offset of a share partition as it is stored, -1 if there is none."""
        stored = self.stored(key)
        return UNINITIALIZED_START_OFFSET if stored is None else stored.start_offset

    def stored(self, key: ShareKey) -> SharePartitionState | None:
        """Return the stored state of a share partition; None if this node does not have it."""
        actor = self.coordinator.actors.get(coordinator_key(*key))
        return None if actor is None else actor.stored

    # For FindCoordinator

    def ensure_topic(self) -> ErrorCode:
        """Create `__share_group_state` if it does not exist. Return NONE, or the error."""
        return self.coordinator.ensure_topic()

    def partition_for(self, key: str) -> int | None:
        """Return the partition of a key `group:topicId:partition`; None if it is not valid. The topic must exist."""
        try:
            group_id, topic_id, partition = parse_key(key)
        except ValueError:
            return None
        return self.coordinator.partitions.of(coordinator_key(group_id, topic_id, partition))

    # Periodic work

    def begin_periodic_work(self, daemon: Assembled) -> None:
        """Prune the topic from time to time, and repeat snapshots of cold share partitions."""
        daemon.every(self.settings.share_coordinator_state_topic_prune_interval_ms / 1000, self.coordinator.prune)
        daemon.spawn(self._repeat_snapshots())

    async def _repeat_snapshots(self) -> None:
        """Repeat the snapshots of cold share partitions, in slices; for ever."""
        interval_ms = self.settings.share_coordinator_cold_partition_snapshot_interval_ms
        while True:
            await asyncio.sleep(interval_ms / 1000)
            budget = Budget()
            for _ in self.coordinator.snapshot_cold(interval_ms):
                if budget.is_spent():
                    await asyncio.sleep(0)
                    budget = Budget()

"""The share coordinator of a daemon, and the delivery of records to share groups: their assembly, their requests, their
periodic work.

Imported only if share groups are served. They are not yet served by several workers or on PostgreSQL: another node
would have to persist their state.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coordinatord.base.budget import Budget
from coordinatord.broker.topics.names import SHARE_TOPIC
from coordinatord.coordination.share.apis.state import APIS, ShareStateApis
from coordinatord.coordination.share.coordinator.coordinator import ShareCoordinator
from coordinatord.coordination.share.coordinator.state import ShareCoordinatorSettings
from coordinatord.coordination.share.delivery import ShareDelivery
from coordinatord.coordination.share.local_persister import LocalPersister
from coordinatord.transport.net.lazy_handlers import Handler, lazy_handlers

if TYPE_CHECKING:
    from coordinatord.server.daemon.daemon import Daemon


class ShareState:
    """The share coordinator, the persister on it, and the share partitions that the persister stores."""

    def __init__(self, daemon: Daemon) -> None:
        settings = daemon.settings
        self.settings = settings
        self.topics = daemon.topics
        self.coordinator = ShareCoordinator(
            daemon.runtime,
            daemon.log_of(SHARE_TOPIC, settings.share_coordinator_load_buffer_size),
            daemon.partitions_of(SHARE_TOPIC, daemon.topics.share_partitions or 0),
            settings=ShareCoordinatorSettings(settings.share_coordinator_snapshot_update_records_per_snapshot),
            max_share_partitions=settings.max_share_partitions,
            topics=daemon.topics,
        )
        self.persister = LocalPersister(self.coordinator, daemon.topics, daemon.timers, daemon.loop.call_soon)
        daemon.topics.on_deleted(self.coordinator.topic_deleted)
        self.delivery = ShareDelivery(
            settings, daemon.topics, daemon.nodes, daemon.runtime, self.persister, daemon.timers.wait_alarm
        )

    def handlers(self) -> dict[int, Handler]:
        """Return the handlers by API key."""
        between_brokers = lazy_handlers(APIS, lambda: ShareStateApis(self.coordinator, self.topics))
        return {**between_brokers, **self.delivery.handlers()}

    def drain(self) -> None:
        """Respond to parked requests, because the daemon is stopping."""
        self.coordinator.drain()
        self.delivery.drain()

    async def repeat_snapshots(self) -> None:
        """Repeat the snapshots of cold share partitions, in slices; for ever."""
        interval_ms = self.settings.share_coordinator_cold_partition_snapshot_interval_ms
        while True:
            await asyncio.sleep(interval_ms / 1000)
            budget = Budget()
            for _ in self.coordinator.snapshot_cold(interval_ms):
                if budget.is_spent():
                    await asyncio.sleep(0)
                    budget = Budget()

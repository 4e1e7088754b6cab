"""The share coordinator of a daemon, and the delivery of records to share groups: their assembly, and their requests.

Imported by the first use of share groups. Of several nodes, the leader of a topic partition delivers its records to
share groups; their state is with the leader of the key's partition of `__share_group_state`, which may be another node
(coordination/share/state_persister.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinatord.broker.topics.names import SHARE_TOPIC
from coordinatord.coordination.service.apis.share_groups import ShareGroups
from coordinatord.coordination.service.apis.share_offsets import ShareOffsets
from coordinatord.coordination.service.share_states import ShareStates
from coordinatord.coordination.share.apis.state import ShareStateApis
from coordinatord.coordination.share.coordinator.coordinator import ShareCoordinator, coordinator_key, parse_key
from coordinatord.coordination.share.coordinator.state import ShareCoordinatorSettings, SharePartitionState
from coordinatord.coordination.share.delivery import ShareDelivery
from coordinatord.coordination.share.end_offsets import PartitionEnds
from coordinatord.coordination.share.leader import ShareKey
from coordinatord.coordination.share.persister import UNINITIALIZED_START_OFFSET
from coordinatord.coordination.share.redeliveries import Redeliveries
from coordinatord.coordination.share.state_persister import StatePersister
from kafka_wire.errors import ErrorCode

if TYPE_CHECKING:
    from coordinatord.server.daemon.assembled import Assembled


class ShareState:
    """The share coordinator, the persister on it, and the share partitions that the persister stores."""

    def __init__(self, daemon: Assembled) -> None:
        """`daemon`: a daemon.Daemon that is assembled, with what it loads, or that serves already. Then the topic did
        not exist at the start, and there is nothing to load.
        """
        settings = daemon.settings
        partitions = daemon.partitions_of(SHARE_TOPIC, is_new=daemon.loading.has_begun)
        self.settings = settings
        self.topics = daemon.topics
        others = None if daemon.peers is None else (daemon.nodes, daemon.peers)
        self.coordinator = ShareCoordinator(
            daemon.runtime,
            daemon.log_of(SHARE_TOPIC, settings.share_coordinator_load_buffer_size),
            partitions,
            settings=ShareCoordinatorSettings(settings.share_coordinator_snapshot_update_records_per_snapshot),
            max_share_partitions=settings.max_share_partitions,
        )
        self.persister = StatePersister(self.coordinator, daemon.topics, daemon.runtime, daemon.loop.call_soon, others)
        self.states = ShareStates(daemon.coordinator, self.persister)
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
                lambda found, encode: daemon.ledger_writer.append(found, encode),
                daemon.topics.topic_name,
                daemon.now_ms,
            )
            self.delivery.partitions.observers.append(self.redeliveries)
        self._surroundings = daemon.surroundings

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key: of the share coordinator, and of the share groups that use it."""
        return {
            **ShareStateApis(self.coordinator, self.topics).handlers(),
            **ShareGroups(self.states, self._surroundings, self.settings).handlers(),
            **ShareOffsets(self.states, self._surroundings.topics, self.ends, self.settings).handlers(),
            **self.delivery.handlers(),
        }

    def drain(self) -> None:
        """Respond to parked requests, because the daemon is stopping."""
        self.coordinator.drain()
        self.delivery.drain()

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
        return self.coordinator.partitions.ensure()

    def partition_for(self, key: str) -> int | None:
        """Return the partition of a key `group:topicId:partition`; None if it is not valid. The topic must exist."""
        try:
            group_id, topic_id, partition = parse_key(key)
        except ValueError:
            return None
        return self.coordinator.partitions.of(coordinator_key(group_id, topic_id, partition))

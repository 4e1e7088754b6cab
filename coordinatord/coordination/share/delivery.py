"""The delivery of records to share groups, as a node assembles it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from coordinatord.base.config import Settings
from coordinatord.broker.topics import Topics
from coordinatord.broker.topics.fetch import ScheduleAt
from coordinatord.coordination.runtime.runtime import Runtime
from coordinatord.coordination.share.apis.acknowledge import ShareAcknowledges
from coordinatord.coordination.share.apis.fetch import ShareFetches
from coordinatord.coordination.share.apis.leaders import Leaders
from coordinatord.coordination.share.dead_letters import DeadLetterQueue
from coordinatord.coordination.share.group_settings import GroupShareSettings
from coordinatord.coordination.share.leader import SharePartitions
from coordinatord.coordination.share.members import ShareMembers
from coordinatord.coordination.share.persister import Persister
from coordinatord.coordination.share.sessions import ShareSessions
from coordinatord.coordination.share.state_persister import Peers
from coordinatord.transport.cluster.nodes import Nodes
from kafka_wire.releases import share_version

DEAD_LETTERS_FROM: Final = 2
"""The level of share.version that has dead letters."""


class ShareDelivery:
    """The share partitions and share sessions of a node, and their handlers."""

    def __init__(
        self,
        settings: Settings,
        topics: Topics,
        nodes: Nodes,
        runtime: Runtime,
        persister: Persister,
        schedule_at: ScheduleAt,
        leads: Callable[[], bool],
        call_soon: Callable[[Callable[[], object]], object],
        others: tuple[Nodes, Peers] | None = None,
    ) -> None:
        """`leads` returns whether this node still leads its partitions. `others`: None if there is no other node."""
        has_letters = share_version(settings.advertised_kafka_version) >= DEAD_LETTERS_FROM
        groups = GroupShareSettings(topics.group_configs, dead_letters=has_letters)
        self.partitions = SharePartitions(groups, persister, runtime.timers, runtime.now_ms)
        self.partitions.dead_letters = DeadLetterQueue(
            topics, groups, runtime.timers, runtime.now_ms, call_soon, others
        )
        self.sessions = ShareSessions(settings.group_share_max_share_sessions)
        self.members = members = ShareMembers(self.sessions, self.partitions)
        leaders = Leaders(topics.catalogue, nodes)
        self.fetches = ShareFetches(settings, topics.catalogue, leaders, members, runtime.now_ms, schedule_at, leads)
        self._acknowledges = ShareAcknowledges(topics.catalogue, leaders, members)
        topics.on_deleted(self.partitions.remove_topic)

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key."""
        return {**self.fetches.handlers(), **self._acknowledges.handlers()}

    def drain(self) -> None:
        """Respond to waiting fetches, because the daemon is stopping."""
        self.fetches.drain()

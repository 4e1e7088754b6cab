"""The interface of an assembled daemon for the modules beside it. Only type checkers import it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from coordinatord.base.config import Settings
from coordinatord.base.observe.admin import AdminServer
from coordinatord.base.observe.metrics import Metrics
from coordinatord.coordination.group.consumer.state import GroupEnvironment
from coordinatord.coordination.runtime.loading import Loading
from coordinatord.coordination.runtime.partitions import Partitions
from coordinatord.coordination.runtime.runtime import Runtime
from coordinatord.coordination.runtime.topic_log import TopicLog
from coordinatord.coordination.share.coordinator.coordinator import ShareCoordinator
from coordinatord.coordination.share.coordinator.state import SharePartitionState
from coordinatord.coordination.share.leader import ShareKey
from coordinatord.server.control.node import Node, Share
from coordinatord.server.daemon.compaction import Compaction
from coordinatord.server.daemon.secured import Listening
from coordinatord.transport.cluster.peers import Peers, SeatPeers


class Standing(Protocol):
    """The store of a daemon (storage.Storage)."""

    @property
    def leads(self) -> bool:
        """True if this node may respond now: no other node can lead its partitions."""


class AssembledShare(Share, Protocol):
    """The share groups of a daemon (share.ShareState)."""

    @property
    def coordinator(self) -> ShareCoordinator: ...

    def stored(self, key: ShareKey) -> SharePartitionState | None: ...


class Assembled(Node, Protocol):
    """A daemon, as server/control uses it, with what its own package needs of it. See daemon.Daemon."""

    _servers: list[Listening]
    _tasks: list[asyncio.Task[Any]]

    @property
    def settings(self) -> Settings: ...

    @property
    def metrics(self) -> Metrics: ...

    @property
    def runtime(self) -> Runtime: ...

    @property
    def loading(self) -> Loading: ...

    @property
    def admin(self) -> AdminServer | None: ...

    @property
    def compaction(self) -> Compaction: ...

    @property
    def storage(self) -> Standing: ...

    @property
    def peers(self) -> Peers | SeatPeers | None: ...

    @property
    def used_share(self) -> AssembledShare | None:
        """The share groups, if they have been used or loaded."""

    @property
    def surroundings(self) -> GroupEnvironment: ...

    def log_of(self, topic: str, buffer_bytes: int) -> TopicLog:
        """Return the log of a coordinator, in a topic."""

    def partitions_of(self, name: str, *, is_new: bool = False) -> Partitions:
        """Return the states of the partitions of a coordinator's topic."""

    def spawn(self, work: Awaitable[None]) -> None:
        """Run work in a task; if it fails, the daemon stops."""

    def every(self, seconds: float, work: Callable[[], object]) -> None:
        """Call `work` every `seconds`."""

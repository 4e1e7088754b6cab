"""Where a daemon's records are: in its directory, or in PostgreSQL with a working copy in its directory.

Both give the daemon the same data directory and the same writer over it. What the other one has besides stands between
the parts where there is something to do: the flusher, the gate of responses, a door before the router.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from coordinatord.base.config import Settings
from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.log.report_foreign import tell_of_foreign
from coordinatord.broker.log.report_recovery import telling_how_far
from coordinatord.broker.log.worker_checkpoints import WorkerShare
from coordinatord.broker.log.writer import Flushing
from coordinatord.broker.metadata.log import Published, Read
from coordinatord.broker.topics import catalogue_file
from coordinatord.coordination.runtime.log import Gate
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.cluster.shared import Sharing
from coordinatord.transport.net.server_context import Serving
from kafka_wire.api_key import ApiKey

if TYPE_CHECKING:
    from coordinatord.server.daemon.embedded import EmbeddedOptions
    from coordinatord.server.daemon.worker import WorkerConfig


class Storage(Protocol):
    """What the daemon does with either. `flusher` is None for the data directory's own."""

    data: DataDirectory

    @property
    def shared(self) -> Sharing | None:
        """What the nodes of other machines that lead, too, share with this one."""

    @property
    def published(self) -> tuple[Published | None, Read | None]:
        """For the metadata log, where another of these nodes owns it."""

    @property
    def flusher(self) -> Flushing | None: ...

    def gate_of(self, gate: Gate) -> Gate:
        """The gate for responses, over the log's."""

    def before(self, router: Serving) -> Serving:
        """What requests meet before the router."""

    def begin(self, daemon: Any) -> None:
        """The daemon begins to serve."""

    def stopping(self, seconds: float) -> None:
        """It stops, and has this long."""

    def close(self) -> None:
        """Its log and its connections are closed."""


class DirectoryStorage:
    """The data directory alone."""

    def __init__(self, data: DataDirectory) -> None:
        self.data = data
        self.flusher = None
        self.shared = None
        self.published = (None, None)

    def gate_of(self, gate: Gate) -> Gate:
        """The log's own."""
        return gate

    def before(self, router: Serving) -> Serving:
        """Nothing else."""
        return router

    def begin(self, daemon: Any) -> None:
        """Nothing to do."""

    def stopping(self, seconds: float) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


def open_storage(settings: Settings, nodes: Nodes, part: WorkerConfig | None, guest: EmbeddedOptions | None) -> Storage:
    """Open what the setting `storage` names. Raises LogError. PostgreSQL's blocks until this node leads."""
    catalogued = catalogue_file.catalogued
    if settings.storage != "directory":
        from coordinatord.server.daemon.handlers import features, offered
        from coordinatord.server.postgresql.node import PostgresStorage
        from coordinatord.server.postgresql.standby_listener import Offer

        offer = Offer(frozenset(offered(ApiKey, settings)), features(settings))
        return PostgresStorage(settings, offer, catalogued, tell_of_foreign, nodes)
    path, node_id = str(settings.data_dir), settings.node_id
    if part is None:
        disk = None if guest is None else guest.disk
        data = DataDirectory.open(
            path,
            node_id=node_id,
            catalogued=catalogued,
            on_foreign=tell_of_foreign,
            on_opened=telling_how_far(),
            disk=disk,
        )
        return DirectoryStorage(data)
    return DirectoryStorage(
        DataDirectory.open_share(
            path,
            WorkerShare(part.worker, nodes.owns, part.is_recovered),
            cluster_id=part.cluster_id,
            node_id=node_id,
            catalogued=catalogued,
            on_foreign=tell_of_foreign,
        )
    )

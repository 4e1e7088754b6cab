"""The store of a daemon's records: its directory, or PostgreSQL with a working copy in its directory.

Both give the daemon the same data directory and the same writer over it. PostgreSQL's additions replace or wrap single
components: the flusher, the gate of responses, the router.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from coordinatord.base.config import Settings
from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.log.report_recovery import log_unknown_files, opening_progress
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
    from coordinatord.server.postgresql.serving_node import ServingNode


class Storage(Protocol):
    """The interface of both stores. `flusher` is None for the data directory's own."""

    data: DataDirectory

    @property
    def shared(self) -> Sharing | None:
        """State that this node shares with leading nodes on other machines."""

    @property
    def published(self) -> tuple[Published | None, Read | None]:
        """Publisher and reader of the metadata log, where another of these nodes owns it."""

    @property
    def flusher(self) -> Flushing | None: ...

    @property
    def leads(self) -> bool:
        """True if this node may respond now: no other node can lead its partitions."""

    def gate_of(self, gate: Gate) -> Gate:
        """Return the gate for responses, around the log's gate."""

    def before(self, router: Serving) -> Serving:
        """Return the handler of requests that replaces the router and calls it."""

    def begin(self, daemon: ServingNode) -> None:
        """Start the work of a serving node, when the daemon begins to serve."""

    def stopping(self, seconds: float) -> None:
        """Prepare for the stop of the daemon, which leaves `seconds` for it."""

    def close(self) -> None:
        """Close the store's connections, after its log was closed."""


class DirectoryStorage:
    """The data directory alone."""

    def __init__(self, data: DataDirectory) -> None:
        self.data = data
        self.flusher = None
        self.shared = None
        self.published = (None, None)
        self.leads = True

    def gate_of(self, gate: Gate) -> Gate:
        """Return the log's own gate."""
        return gate

    def before(self, router: Serving) -> Serving:
        """Return the router itself."""
        return router

    def begin(self, daemon: ServingNode) -> None:
        """Do nothing."""

    def stopping(self, seconds: float) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def open_storage(settings: Settings, nodes: Nodes, part: WorkerConfig | None, guest: EmbeddedOptions | None) -> Storage:
    """Open the store that the setting `storage` names. For PostgreSQL this blocks until this node leads. Raises
    LogError.
    """
    catalogued = catalogue_file.catalogued
    if settings.storage != "directory":
        from coordinatord.server.daemon.handlers import features, offered
        from coordinatord.server.postgresql.node import PostgresStorage
        from coordinatord.server.postgresql.standby_listener import Offer

        offer = Offer(frozenset(offered(ApiKey, settings)), features(settings))
        return PostgresStorage(settings, offer, catalogued, log_unknown_files, nodes)
    path, node_id = str(settings.data_dir), settings.node_id
    if part is None:
        disk = None if guest is None else guest.disk
        data = DataDirectory.open(
            path,
            node_id=node_id,
            catalogued=catalogued,
            on_foreign=log_unknown_files,
            on_opened=opening_progress(),
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
            on_foreign=log_unknown_files,
        )
    )

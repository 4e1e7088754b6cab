"""A node of a cluster on PostgreSQL: it takes the leadership, makes its working copy, keeps its lease, and releases it.

One node leads all partitions, or several nodes lead a share of the partitions each (`storage.leaders`). The others are
standby nodes: they wait until a lease ends or is given back, and name the leader in their responses to clients.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from coordinatord.base.config import Settings
from coordinatord.base.observe.logger import get_logger
from coordinatord.broker.log.data_dir import DataDirectory, random_id
from coordinatord.broker.log.names import METADATA_TOPIC_ID
from coordinatord.broker.log.ownership import Foreign, ReadCatalogued
from coordinatord.broker.log.report_recovery import copying_progress, opening_progress
from coordinatord.broker.metadata.log import Published, Read
from coordinatord.broker.topics import catalogue_file
from coordinatord.coordination.runtime.log import Gate
from coordinatord.server.postgresql import database, registry, schema, standby_listener, working_copy
from coordinatord.server.postgresql.contract import Away, Unusable
from coordinatord.server.postgresql.copy_disk import CopyDisk, UnflushedDisk
from coordinatord.server.postgresql.database import Link
from coordinatord.server.postgresql.leading import epoch_of_term_0, follow, share
from coordinatord.server.postgresql.lease import RELEASED, RENEWALS, Lease, standing, take
from coordinatord.server.postgresql.lease_guard import Leading, Requests, TimeoutGate
from coordinatord.server.postgresql.registry import Registration
from coordinatord.server.postgresql.serving_node import ServingNode
from coordinatord.server.postgresql.sharing import InTouch, SharedFiles
from coordinatord.server.postgresql.standby_copy import StandbyCopy
from coordinatord.server.postgresql.standby_listener import Offer, StandbyListener, View
from coordinatord.server.postgresql.store import PostgresStore
from coordinatord.server.postgresql.store_flusher import StoreFlusher
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.cluster.partition_slots import SeatedNodes
from coordinatord.transport.net.server_context import Serving

WAIT_S = 0.25
"""Longest time in seconds between two checks of the leader's lease."""
LATE_S = 0.002
"""Delay in seconds between the end of a lease and the next check of it."""
HESITATES_S = 0.1
"""Time in seconds for which a standby node whose copy is not ready does not take a leadership that was given back: the
others need less time for their take-over.
"""
TELL_S = 10.0

NOT_SUPPORTED = "0A"
"""Class of SQLSTATEs: other engines that speak PostgreSQL's protocol have no LISTEN."""

GIVE_UP_S = 0.25
"""Interval in seconds between two checks for responses that have waited too long."""

TOPICS = "SELECT version, content FROM coordinatord_file WHERE name = %s AND version > %s"

T = TypeVar("T")

log = get_logger("coordinatord.server.postgresql")


class PostgresStorage:
    """The daemon's storage (server/daemon/storage.py) on PostgreSQL. Opening it blocks until this node leads."""

    def __init__(
        self,
        settings: Settings,
        offer: Offer,
        catalogued: ReadCatalogued,
        on_foreign: Callable[[Foreign], object],
        nodes: Nodes,
    ) -> None:
        """`offer` is the content of ApiVersions responses, also those of a standby node. `nodes` receives the seat of
        this node.
        """
        self.shared: SharedFiles | None = None
        self._timeout_s = settings.offsets_commit_timeout_ms / 1000
        self._on_lost: Callable[[BaseException], object] | None = None
        self._stopping: threading.Timer | None = None
        directory = Path(settings.data_dir)
        path = directory / working_copy.NAME
        self._lock = working_copy.lock(directory)
        ahead = StandbyCopy(settings.storage, path, settings.node_id, catalogued)
        try:
            self.registration = registration_of(settings)
            working_copy.discard(path)
            self.lease, cluster_id = lead(settings, self.registration, offer, ahead)
            self.lease.begin(self._lost)
            ahead.close()
            seats = settings.storage_leaders
            self.store = PostgresStore(settings.storage, self.lease.term, self.lease.seat, is_alone=seats == 1)
            self._copy(path, cluster_id, settings.node_id)
            self._held = [held.key for held in self.store.partitions()]
            disk = CopyDisk(self.store, str(path))
            epoch_0 = epoch_of_term_0(self.store.files())
            self.data = DataDirectory.open(
                str(path),
                node_id=settings.node_id,
                catalogued=catalogued,
                on_foreign=on_foreign,
                disk=disk,
                on_opened=opening_progress(),
                leader_epoch=epoch_0 + self.lease.term,
            )
            if isinstance(nodes, SeatedNodes):
                nodes.take(self.lease.seat)
                self.shared = disk.sharing = SharedFiles(settings.storage, self.store, str(path), seats)
                nodes.epoch_of_term_0 = epoch_0
                share(self.shared, settings, self.data, lambda: self.lease.holds)
        except BaseException as error:
            ahead.close()
            self._lock.release()
            if isinstance(error, Away):
                raise Unusable(f"the database went away while the working copy was made: {error}") from None
            raise
        self.standing: Leading = self.lease if self.shared is None else InTouch(self.lease, self.shared)
        """The conditions under which this node may respond to clients."""
        self.flusher = StoreFlusher(self.store, self.data, disk)
        self.gate: TimeoutGate | None = None
        self.requests: Requests | None = None

    def _copy(self, path: Path, cluster_id: str, node_id: int) -> None:
        began_s = time.monotonic()
        disk, tell = UnflushedDisk(), copying_progress()
        size = working_copy.make(self.store, path, cluster_id=cluster_id, node_id=node_id, disk=disk, on_read=tell)
        log.info("working copy made", bytes=size, seconds=round(time.monotonic() - began_s, 3))

    # For the daemon

    @property
    def leads(self) -> bool:
        """True if this node may respond to clients now."""
        return self.standing.holds

    @property
    def published(self) -> tuple[Published | None, Read | None]:
        """Return the published records and the read function for the metadata log, (None, None) if this node leads
        the metadata partition.
        """
        records = None if self.shared is None else self.shared.cluster_records
        return (None, None) if records is None else (records, records.read)

    def gate_of(self, gate: Gate) -> Gate:
        """Wrap the gate of responses: a response waits no longer than the lease lasts and, if its client waits for a
        coordinator, than offsets.commit.timeout.ms.
        """
        self.gate = TimeoutGate(gate, self._timeout_s, self.standing)
        return self.gate

    def before(self, router: Serving) -> Serving:
        """Wrap `router` in the checks that each request passes first."""
        self.requests = Requests(router, self.standing, self.store, self._timeout_s)
        return self.requests

    def begin(self, daemon: ServingNode) -> None:
        """Attach to the daemon when it begins to serve: the daemon fails when another node leads."""

        def lost(error: BaseException) -> None:
            daemon.loop.call_soon_threadsafe(daemon.log_failed, error)

        self._on_lost = lost
        if self.lease.lost:
            lost(Away("another node leads"))
        if self.gate is not None:
            daemon.every(GIVE_UP_S, self.gate.give_up)
        self.registration.addresses = {**self.registration.addresses, **daemon.nodes.own_addresses}
        own_id = self.registration.node_id
        shared = self.shared
        daemon.nodes.others = lambda listener: standby_listener.others((shared or self.lease).nodes, listener, own_id)
        if shared is not None:
            follow(shared, daemon)
        known = {*daemon.topics.catalogue.by_id, METADATA_TOPIC_ID}
        self.store.forget([key for key in self._held if key.topic_id not in known])
        self._watch(daemon.metrics.watch)

    def stopping(self, seconds: float) -> None:
        """Interrupt all work that waits for the database, `seconds` after the daemon began to stop."""
        self._stopping = threading.Timer(seconds, self.store.stop)
        self._stopping.daemon = True
        self._stopping.start()

    def close(self) -> None:
        """Release the lease, so that another node can lead, and close all. All connections of clients are closed
        already.
        """
        if self.shared is not None:
            self.shared.close()
        self.lease.close(release=True)
        if self._stopping is not None:
            self._stopping.cancel()
        self.store.close()
        self._lock.release()

    # Internals

    def _lost(self, error: BaseException) -> None:
        log.error("another node leads; this one stops", error=str(error))
        if self._on_lost is not None:
            self._on_lost(error)

    def _watch(self, watch: Callable[[str, Callable[[], Any]], object]) -> None:
        """Register the metrics."""
        watch("store_term", lambda: self.lease.term)
        watch("store_lease_seconds", lambda: self.lease.left_s)
        watch("store_nodes", lambda: sum(node.lease_s > 0 for node in self.lease.nodes))
        watch("store_appends", lambda: self.store.appends)
        watch("store_retries", lambda: self.store.retries)
        watch("store_resolved_commits", lambda: self.store.resolved)


def registration_of(settings: Settings) -> Registration:
    """Return the entry of this process for the registry, with its addresses as a standby node."""
    known = {
        each.name: (each.advertised_host, each.advertised_port or each.port)
        for each in standby_listener.endpoints(settings)
    }
    return Registration(
        secrets.token_hex(16),
        settings.node_id,
        settings.storage_lease_ms,
        settings.broker_rack,
        known,
    )


def lead(settings: Settings, registration: Registration, offer: Offer, ahead: StandbyCopy) -> tuple[Lease, str]:
    """Migrate the tables to this version, register, and wait until this node leads. Returns its lease and the cluster's
    id. Raises Unusable. While this node waits, `ahead` prepares the working copy; the caller closes `ahead`.
    """
    link = Link(settings.storage)
    waiting = Waiting(
        link,
        registration,
        lambda cluster_id, view: StandbyListener(settings, offer, cluster_id, view),
        ahead,
        settings.storage_leaders,
    )
    try:
        return _lead(settings, registration, link, waiting)
    finally:
        waiting.close()


def _lead(settings: Settings, registration: Registration, link: Link, waiting: Waiting) -> tuple[Lease, str]:
    where = database.shown(settings.storage)
    told_s = -TELL_S
    cluster_id = ""
    while True:
        try:
            if not cluster_id:
                cluster_id, warnings = _prepare(link, settings.storage_leaders)
                for warning in warnings:
                    log.warning(warning, database=where)
            waiting.keep()
            lease = take(link, node_id=registration.node_id, holder=registration.holder, lease_ms=registration.lease_ms)
            if lease is not None:
                several = {"seat": lease.seat} if settings.storage_leaders > 1 else {}
                log.info("this node leads", term=lease.term, database=where, **several)
                lease.registration = registration
                return lease, cluster_id
            node_id, term, left_s = standing(link)
            if time.monotonic() - told_s >= TELL_S:
                told_s = time.monotonic()
                log.info("another node leads; waiting", node=node_id, term=term, lease_s=round(left_s, 1))
            waiting.look(cluster_id)
            waiting.pause(left_s)
        except Away as error:
            if time.monotonic() - told_s >= TELL_S:
                told_s = time.monotonic()
                log.warning("the database is away; waiting", error=str(error), database=where)
            time.sleep(WAIT_S)


class Waiting:
    """The work of a standby node on its connection: it keeps its registration, updates its standby listener with the
    current leaders, and waits for a leadership that is given back.
    """

    def __init__(
        self,
        link: Link,
        registration: Registration,
        make_front: Callable[[str, View], StandbyListener],
        ahead: StandbyCopy,
        seats: int = 1,
    ) -> None:
        self._link = link
        self._seats = seats
        self._ahead = ahead
        self._registration = registration
        self._make_front = make_front
        self._front: StandbyListener | None = None
        self._topics = catalogue_file.Content({}, {}, 0)
        self._topics_version = -1
        self._kept_s = -TELL_S
        self._listens_on: Any = None
        self._has_rivals = False
        """True if there are other standby nodes."""
        self._is_deaf = False

    def keep(self) -> None:
        """Renew the registration when it is due: RENEWALS times in a lease. Raises Away."""
        if time.monotonic() - self._kept_s < self._registration.lease_ms / 1000 / RENEWALS:
            return
        self._on(self._registration.keep)
        self._kept_s = time.monotonic()

    def look(self, cluster_id: str) -> None:
        """Update the standby listener with the current content of the database. Raises Away or Unusable."""
        view = self._on(self._view)
        if self._front is not None:
            self._front.set_view(view)
            return
        self._front = self._make_front(cluster_id, view)
        listeners, known = self._front.open(), self._registration.addresses
        self._registration.addresses = {name: known[name] for name in known if name in listeners}
        self._ahead.begin(cluster_id)

    def close(self) -> None:
        """Close the standby listener: this node leads, or cannot."""
        if self._front is not None:
            self._front.close()

    def _view(self, connection: Any) -> View:
        found = connection.execute(TOPICS, (catalogue_file.FILE, self._topics_version)).fetchone()
        if found is not None:
            self._topics_version = found[0]
            self._topics = catalogue_file.parsed(bytes(found[1]), catalogue_file.FILE)
        nodes = registry.nodes(connection)
        own = self._registration.holder
        self._has_rivals = any(each.lease_s > 0 and not each.leads and each.holder != own for each in nodes)
        return View(nodes, self._topics, self._seats)

    def pause(self, left_s: float = math.inf) -> None:
        """Wait until a leadership is given back or a lease that lasts `left_s` seconds is over, but WAIT_S at most.
        Raises Away.
        """
        rest_s = min(WAIT_S, left_s + LATE_S) if left_s > 0 else WAIT_S
        if (
            self._on(lambda connection: self._wait_for_release(connection, rest_s))
            and self._has_rivals
            and not self._ahead.is_ready
        ):
            time.sleep(HESITATES_S)

    def _wait_for_release(self, connection: Any, rest_s: float) -> bool:
        """Wait `rest_s` seconds at most. Return True if a leadership was given back."""
        if self._listens_on is not connection:  # LISTEN takes effect only now: check the lease again before any pause
            try:
                connection.execute(f"LISTEN {RELEASED}")
            except self._link.errors as error:
                if not (getattr(error, "sqlstate", None) or "").startswith(NOT_SUPPORTED):
                    raise
                self._is_deaf = True
            self._listens_on = connection
            return False
        if self._is_deaf:
            time.sleep(rest_s)
            return False
        return any(True for _told in connection.notifies(timeout=rest_s, stop_after=1))

    def _on(self, work: Callable[[Any], T]) -> T:
        try:
            return work(self._link.open())
        except self._link.errors as error:
            self._link.close()
            raise database.translated(error, "cannot wait for the lead") from error


def _prepare(link: Link, seats: int) -> tuple[str, list[str]]:
    """Return the cluster's id, and warnings about settings of the database server that may lose data."""
    try:
        connection = link.open()
        return schema.migrate(connection, random_id(), seats), database.warnings(connection)
    except link.errors as error:
        link.close()
        raise database.translated(error, "cannot make the tables") from error

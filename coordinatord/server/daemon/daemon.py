"""The daemon: assembles its components, listens, loads, drains.

Start: lock the data directory, listen, then load the groups; loaded groups are served meanwhile. Stop, at SIGTERM or
SIGINT: accept no connections, respond to parked requests, flush the log, exit with 0. If the log fails, requests that
wait for it get COORDINATOR_NOT_AVAILABLE, the daemon exits with 1, and the next start replays what is durable.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinatord.base.clocks.clock import Clock
from coordinatord.base.clocks.timers import Timers
from coordinatord.base.config import Settings
from coordinatord.base.observe.admin import AdminServer
from coordinatord.base.observe.health import Health
from coordinatord.base.observe.logger import get_logger
from coordinatord.base.observe.metrics import Metrics
from coordinatord.base.threads import Worker
from coordinatord.broker.log.errors import LogError
from coordinatord.broker.log.report_recovery import log_recovery
from coordinatord.broker.log.writer import FlushStats, LogWriter
from coordinatord.broker.metadata.log import MetadataLog
from coordinatord.broker.topics import Topics
from coordinatord.broker.topics.names import OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from coordinatord.broker.topics.partition_verification import TransactionCoordinator
from coordinatord.coordination.runtime.loading import Loading
from coordinatord.coordination.runtime.partitions import Partitions
from coordinatord.coordination.runtime.runtime import Runtime
from coordinatord.coordination.runtime.topic_log import TopicLog, partitions_of
from coordinatord.coordination.service import ledger
from coordinatord.coordination.service.consumer_limits import surroundings
from coordinatord.coordination.service.groups import Coordinator
from coordinatord.coordination.service.ledger_writer import LedgerWriter
from coordinatord.coordination.service.random_ids import RandomIds
from coordinatord.coordination.transactions.coordinator import Transactions
from coordinatord.coordination.transactions.markers import PartitionMarkers
from coordinatord.server.daemon.access import Admission
from coordinatord.server.daemon.compaction import Compaction
from coordinatord.server.daemon.gauges import put_pages, watch
from coordinatord.server.daemon.handlers import all_handlers, api_versions, serves_share_groups
from coordinatord.server.daemon.limits import group_settings, transaction_settings
from coordinatord.server.daemon.nodes import nodes_and_peers, spread
from coordinatord.server.daemon.periodic import begin_periodic_work
from coordinatord.server.daemon.scram_users import ScramUsers
from coordinatord.server.daemon.storage import Storage, open_storage
from coordinatord.server.fastpath import shortcuts
from coordinatord.transport.net.connection import Connection
from coordinatord.transport.net.connections import Connections
from coordinatord.transport.net.cooperative_tasks import Aside, BackgroundThread, TaskScheduler
from coordinatord.transport.net.descriptors import RESERVED, connections_allowed, raise_limit
from coordinatord.transport.net.listening import bound
from coordinatord.transport.net.router import Router
from coordinatord.transport.net.server_context import ServerContext
from coordinatord.transport.net.write_coalescer import WriteCoalescer
from kafka_wire.api_key import ApiKey
from kafka_wire.registry import error_response

if TYPE_CHECKING:  # of workers, and of modules that a start does not need at once
    from coordinatord.server.control.control import Control
    from coordinatord.server.daemon.embedded import EmbeddedOptions
    from coordinatord.server.daemon.secured import Listening, SecuredListeners
    from coordinatord.server.daemon.share import ShareState
    from coordinatord.server.daemon.worker import WorkerConfig
    from coordinatord.transport.cluster.nodes import Nodes
    from coordinatord.transport.cluster.peers import Peers, SeatPeers


class Daemon:
    """One coordinator with all its components. Call `start`, then `wait`, then `stop`."""

    def __init__(
        self,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int] | None = None,
        *,
        log_worker: Worker | None = None,
        part: WorkerConfig | None = None,
        guest: EmbeddedOptions | None = None,
    ) -> None:
        """`log_worker` writes and flushes the log, by default on its own thread. `part` is the share of the work that a
        supervisor assigned to this process; without it this is the only process. `guest` is set if the daemon runs
        inside another program.
        """
        self.settings = settings
        self.guest = guest
        self.loop = loop
        self.clock = Clock()
        self.now_ms = now_ms or self.clock
        self.metrics = Metrics()
        self.health = Health()
        self.part = part
        self.failed: BaseException | None = None
        self.bound: list[tuple[str, str, int]] = []
        self._stopping = asyncio.Event()
        self.secured: SecuredListeners | None = None
        self._servers: list[Listening] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._log = get_logger("coordinatord.server.daemon")
        self._assemble_nodes()
        self._assemble_store(log_worker)
        self._assemble_topics()
        self._assemble_groups()
        self._assemble_transactions()
        self._assemble_share()
        self._assemble_door(log_worker)
        self._assemble_admin()
        self.metadata.load()

    # Assemble, from the bottom up

    def _assemble_nodes(self) -> None:
        """Make the nodes, and the connections to the other ones."""
        self.nodes: Nodes
        self.peers: Peers | SeatPeers | None
        self.nodes, self.peers = nodes_and_peers(self.settings, self.part, self.loop)

    def _assemble_store(self, log_worker: Worker | None) -> None:
        """Open the data directory; make its writer and the timers."""
        settings = self.settings
        limit = raise_limit() if self.guest is None else settings.max_connections + RESERVED
        allowed = connections_allowed(settings.max_connections, limit)
        self.storage = self._open_storage()
        self.data = self.storage.data
        self.writer = LogWriter(
            self.data,
            self.loop,
            self.log_failed,
            flush=settings.log_flush,  # type: ignore[arg-type]  # config allows no other word
            flush_interval_ms=settings.log_flush_interval_ms,
            on_flush=self._flushed,
            worker=log_worker,
            flusher=self.storage.flusher,
            now_ms=self.now_ms,
        )
        gate = self.storage.gate_of(self.writer)
        self._hold = gate.hold
        published, read = self.storage.published if self.part is None else (self.part.shared, None)
        self.metadata = MetadataLog(
            self.data, self.writer, self.loop.call_soon, self.now_ms, self.nodes, published, read
        )
        self.scram_users = ScramUsers(self.metadata)
        self.connections = Connections(allowed, self.now_ms, self.metrics)
        self.timers = Timers(self.loop, self.now_ms, self._timed_out, self.connections.is_behind)
        self.admission = Admission(
            settings, self.metadata, self.connections, self.now_ms, self.timers.alarm, self.nodes, self.peers
        )
        self.runtime = Runtime(gate, self.timers, self.now_ms, self.metrics)
        self.loading = Loading(self.metrics, is_guest=self.guest is not None)

    def _assemble_topics(self) -> None:
        """Make the embedded topics and their cleaner."""
        shared = self.storage.shared if self.part is None else self.part.shared
        self.topics = Topics(
            self.settings,
            data=self.data,
            writer=self.writer,
            nodes=self.nodes,
            now_ms=self.now_ms,
            schedule_at=self.timers.wait_alarm,
            new_uuid=lambda: os.urandom(16),
            shared=None if shared is None else (shared, self.loop.call_soon),
        )
        self.compaction = self._make_compaction()
        for use in (self.admission.use, self.compaction.use):
            self.topics.broker_configs.follow(use)

    def _assemble_groups(self) -> None:
        """Make the group coordinator and its ledger."""
        settings = self.settings
        self.ledger: ledger.Ledger | None = None
        self.ledger_writer = LedgerWriter(
            self.loop,
            self.topics,
            self.data,
            self.writer,
            self.now_ms,
            self.log_failed,
            settings.rebalance_ledger_topic_enable,
        )
        if settings.rebalance_ledger_enable:
            self.ledger = ledger.Ledger(settings.node_id, self.ledger_writer.append, ledger.lines())
        self.surroundings = surroundings(settings, self.topics, self.nodes)
        self.coordinator = Coordinator(
            self.runtime,
            self.log_of(OFFSETS_TOPIC, settings.offsets_load_buffer_size),
            self.partitions_of(OFFSETS_TOPIC),
            group_settings=group_settings(settings),
            max_groups=settings.max_groups,
            max_pending_ids=settings.max_pending_members,
            new_id=RandomIds(),
            ledger=self.ledger,
            surroundings=self.surroundings,
        )
        self.topics.on_deleted(self.coordinator.topic_deleted)

    def _assemble_transactions(self) -> None:
        """Make the transaction coordinator and the writer of its markers."""
        settings = self.settings
        self.markers = PartitionMarkers(self.topics.transactional, self.coordinator, self.loop.call_soon)
        self.transactions = Transactions(
            self.runtime,
            self.log_of(TRANSACTION_TOPIC, settings.transaction_state_log_load_buffer_size),
            self.partitions_of(TRANSACTION_TOPIC),
            settings=transaction_settings(settings),
            max_ids=settings.max_transactional_ids,
            # with other nodes, it also writes to their partitions
            markers=self.markers if self.peers is None else spread(self.markers, self.nodes, self.peers, self.storage),
            new_producer_id=self.topics.producer_ids.next,
        )
        self.participants: TransactionCoordinator = self.transactions
        if self.peers is not None:
            from coordinatord.coordination.transactions.remote_transactions import SpreadTransactions

            self.participants = SpreadTransactions(self.transactions, self.nodes, self.peers)
        self.topics.participants = self.participants

    def _assemble_share(self) -> None:
        """Assemble share groups if their topic is to be loaded. Otherwise their first use does: few daemons need it."""
        self.used_share: ShareState | None = None
        if serves_share_groups(self.settings):
            self.topics.made_elsewhere[SHARE_TOPIC] = lambda: self._use_share().coordinator.partitions.exist()
            if self.topics.internal(SHARE_TOPIC).count():
                self._use_share()

    def _use_share(self) -> ShareState:
        """Return the share groups, assembled by the first use, on the event loop."""
        if self.used_share is None:
            from coordinatord.server.daemon.share import ShareState

            self.used_share = ShareState(self)
            if self._stopping.is_set():
                self.used_share.drain()
        return self.used_share

    @property
    def share(self) -> ShareState | None:
        """The share groups; None if they are not served."""
        return self._use_share() if serves_share_groups(self.settings) else None

    def _assemble_door(self, log_worker: Worker | None) -> None:
        """Make the handlers and shortcuts, and the state that all connections share."""
        handlers = all_handlers(
            self.settings,
            self.nodes,
            self.topics,
            self.coordinator,
            self.surroundings,
            self.transactions,
            self.participants,
            self.markers,
            self._use_share,
        )
        handlers = self.scram_users.handlers(handlers, self.nodes, self.peers)
        made = shortcuts(self.coordinator, self.topics.catalogue)
        handlers, made = self.admission.put_before(handlers, made, self.topics)
        identity = self.data.cluster_id, self.nodes.node_id
        self.api_versions = api_versions(handlers, self.settings, identity)
        always: dict[int, Any] = {ApiKey.API_VERSIONS: self.api_versions.answer}
        router = Router({**handlers, **always}, self.metrics, made, self.settings.advertised_kafka_version)
        self.admission.follow(router, always)
        self.door = ServerContext(
            router=router,
            connections=self.connections,
            turn_end=WriteCoalescer(self.loop.call_soon),
            metrics=self.metrics,
            max_frame_bytes=self.settings.socket_request_max_bytes,
            now_ms=self.now_ms,
            call_soon=self.loop.call_soon,
            hold=self._hold,
            slicer=TaskScheduler(self.loop.call_soon, self._make_aside(log_worker), self.metrics),
            clock=time.perf_counter if self.now_ms is self.clock else float,  # 0.0: a turn takes no virtual time
            refusal=error_response,
        )
        self.door.router = self.storage.before(self.door.router)

    def _assemble_admin(self) -> None:
        """Make the admin port, and register the state that metrics read at each scrape."""
        self.admin: AdminServer | None = None
        if self.settings.admin is not None:
            hosts = self.settings.admin_allowed_hosts
            self.admin = AdminServer(
                self.settings.admin, self.metrics, self.health, loop=self.loop, allowed_hosts=hosts
            )
            put_pages(self)
        self.control: Control | None = None
        if self.settings.test_control_enable:
            from coordinatord.server.daemon.embedded import put_control

            self.control = put_control(self, self.guest)
        watch(self)

    def _open_storage(self) -> Storage:
        return open_storage(self.settings, self.nodes, self.part, self.guest)

    def _make_aside(self, worker: Worker | None) -> Aside | None:
        return BackgroundThread(self.loop, worker)

    def _make_compaction(self) -> Compaction:
        return Compaction(self.settings, self.data, self.writer, self.loop, self.topics, self.metrics, self.now_ms)

    # Start

    async def start(self) -> None:
        """Listen and begin to load. Raises OSError, LogError, SecurityError."""
        if self.admin is not None:
            self.admin.start()
        part = self.part
        for endpoint in self.settings.endpoints:
            if part is not None:
                sockets = part.sockets[endpoint.name]
            else:
                sockets = bound(
                    endpoint.host, endpoint.port, v6_only=endpoint.v6_only, buffers=self.settings.socket_buffers
                )
            host, port = sockets[0].getsockname()[:2]
            self.bound.append((endpoint.name, host, port))
            own = [(endpoint.advertised_host, endpoint.advertised_port or port)]
            self.nodes.advertise(endpoint.name, *(own if part is None else part.addresses[endpoint.name]))
            for each in sockets:
                self._servers.append(await self._listen(endpoint.name, each))
        if part is not None:
            from coordinatord.server.daemon.worker import take_up_line
            from coordinatord.transport.cluster.peers import LISTENER

            connection = partial(Connection, self.door, LISTENER)
            self._servers.append(await self.loop.create_unix_server(connection, sock=part.peer_socket))
            await take_up_line(part, self.loop, self.topics, self, "" if self.admin is None else self.admin.url)
        self.begin()

    def begin(self) -> None:
        """Load, and start the periodic work. Clients can connect already."""
        self.metrics.truncated_bytes += log_recovery(self.data.recovered)
        if self.part is None or self.part.worker == 0:
            for setting, asked, kept in self.topics.kept_partitions():
                self._log.warning(
                    "setting ignored: the number of partitions is fixed", setting=setting, asked=asked, kept=kept
                )
        self.health.loading("the groups are being loaded")
        self.spawn(self._load())
        self.storage.begin(self)
        begin_periodic_work(self)

    async def _listen(self, name: str, listening: socket.socket) -> Listening:
        if self.settings.protocols[name] != "PLAINTEXT":
            from coordinatord.server.daemon.secured import SecuredListeners

            if self.secured is None:
                self.secured = SecuredListeners(self)
            return await self.secured.listen(name, listening)

        backlog = self.settings.socket_listen_backlog_size
        return await self.loop.create_server(partial(Connection, self.door, name), sock=listening, backlog=backlog)

    async def _load(self) -> None:
        """Replay the coordinators' logs. Groups first: an unfinished transaction may have markers to write for them."""
        coordinator, transactions = self.coordinator, self.transactions
        share = () if self.used_share is None else (self.used_share.coordinator,)
        await self.loading.run(coordinator, transactions, *share)
        if coordinator.actors or transactions.actors:
            self._log.info(
                "groups loaded",
                groups=len(coordinator.actors),
                transactional_ids=len(transactions.actors),
                records=self.loading.records,
                records_per_second=round(self.loading.records_per_second),
                seconds=round(self.loading.seconds, 3),
                **({"unread": dict(coordinator.unread)} if coordinator.unread else {}),
            )
        self.topics.follow_deletions()
        self.health.ready()

    # Run and stop

    async def wait(self) -> None:
        """Return after `request_stop`, or when the log fails."""
        await self._stopping.wait()

    def request_stop(self, reason: str) -> None:
        """Begin to stop. Further calls have no effect."""
        if not self._stopping.is_set():
            self._log.info("stopping", reason=reason)
            self.health.draining(reason)
            self._stopping.set()

    async def stop(self) -> int:
        """Drain and close everything; return the exit code. Takes at most shutdown.timeout.ms."""
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        if self.control is not None:
            self.control.close()
        if self.failed is None:
            self.transactions.drain()
            self.coordinator.drain()
            if self.used_share is not None:
                self.used_share.drain()
            self.ledger_writer.flush()
            self.topics.drain()
        self.timers.close()
        deadline_s = self.loop.time() + self.settings.shutdown_timeout_ms / 1000
        # The responses of the drain wait for the log, and the sockets for their peers: let both continue.
        await self._until(lambda: not self._has_unsent or self.failed is not None, deadline_s)
        if self.peers is not None:
            self.peers.close()
        for connection in list(self.connections.open):
            connection.close()
        await self._until(lambda: not self.connections.open, deadline_s)
        self.storage.stopping(max(0.1, deadline_s - self.loop.time()))
        try:
            self.compaction.close()
            self.writer.close()
            self.data.close()
            self.storage.close()
        except (LogError, OSError) as error:
            self._log.error("the log could not be closed", error=str(error))
            return 1
        finally:
            if self.admin is not None:
                self.admin.stop()
        return 1 if self.failed is not None else 0

    @property
    def _has_unsent(self) -> bool:
        """True if some client has not received all of its responses."""
        return self.connections.has_unsent or bool(self.runtime.parked.held_count)

    async def _until(self, done: Callable[[], bool], deadline_s: float) -> None:
        """Wait until `done` or the deadline, while the loop works. Only `stop` waits like this."""
        while not done() and self.loop.time() < deadline_s:  # noqa: ASYNC110  # there is no one event for it
            await asyncio.sleep(0.005)

    # Between the parts

    def log_of(self, topic: str, buffer_bytes: int) -> TopicLog:
        """Return the log of a coordinator, in a topic."""
        return TopicLog(topic, self.topics.transactional, self.writer, buffer_bytes=buffer_bytes)

    def partitions_of(self, name: str, *, is_new: bool = False) -> Partitions:
        """Return the states of the partitions of a coordinator's topic; `is_new`: they have nothing to load."""
        return partitions_of(name, self.topics, self.nodes, is_new=is_new)

    def _timed_out(self, key: Any) -> None:
        began_s, longest = time.perf_counter(), self.metrics.longest_turn
        self.coordinator.timed_out(key)
        longest.seconds = max(longest.seconds, time.perf_counter() - began_s)

    def _flushed(self, stats: FlushStats) -> None:
        self.metrics.log_appends += stats.partitions
        self.metrics.log_appended_bytes += stats.bytes
        self.metrics.log_flush_seconds.observe(stats.seconds)

    def log_failed(self, error: BaseException) -> None:
        if self.failed is None:
            self.failed = error
            self._log.error("the log failed; stopping", error=str(error))
            self.health.failed(f"the log failed: {error}")
            self._stopping.set()

    def spawn(self, work: Awaitable[None]) -> None:
        """Run work in a task; if it fails, the daemon stops."""

        async def guarded() -> None:
            try:
                await work
            except asyncio.CancelledError:
                raise
            except Exception as error:
                if isinstance(error, LogError):
                    self._log.error("the log cannot be read; stopping", error=str(error))
                else:
                    self._log.exception("a background task failed; stopping")
                self.failed = self.failed or error
                self.health.failed(str(error))
                self._stopping.set()

        self._tasks.append(self.loop.create_task(guarded()))

    def every(self, seconds: float, work: Callable[[], object]) -> None:
        """Call `work` every `seconds`."""

        async def repeat() -> None:
            while True:
                due_s = self.loop.time() + seconds
                await asyncio.sleep(seconds)
                self.metrics.loop_lag_seconds.observe(max(0.0, self.loop.time() - due_s))
                work()

        self.spawn(repeat())

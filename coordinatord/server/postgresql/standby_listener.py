"""The listeners of a standby node, which name the leader to clients (not_leader_responses.py has the responses to all
other requests).

Without them a client that has only the leader's address cannot go on when the leader dies: many clients never return to
their bootstrap addresses. So the leader lists all nodes that listen, and each of these lists the leader.

The front has its own thread with an event loop while the node waits for the lead; its responses contain the state that
the node has last read in the database, four times a second. They are hints, which may be outdated. Its sockets and
connections are closed when the node takes the lead, and the daemon listens at the same addresses.

The front authenticates no client and has no ACLs: it serves listeners with PLAINTEXT, without an authorizer.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from socket import socket
from typing import Any, NamedTuple

from coordinatord.base.config import Settings
from coordinatord.base.config.address import Endpoint
from coordinatord.base.observe.logger import get_logger
from coordinatord.base.observe.metrics import Metrics
from coordinatord.broker.topics.catalogue_file import Content, Entry
from coordinatord.broker.topics.describe import Describing
from coordinatord.broker.topics.names import INTERNAL, OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from coordinatord.server.postgresql.lease_guard import REFUSABLE
from coordinatord.server.postgresql.not_leader_responses import WrongNode
from coordinatord.server.postgresql.registry import KnownNode
from coordinatord.transport.cluster.nodes import Node, share_of
from coordinatord.transport.cluster.partition_slots import NOBODY
from coordinatord.transport.cluster.partitioner import partition_for
from coordinatord.transport.net.api_versions import ApiVersions
from coordinatord.transport.net.connection import Connection
from coordinatord.transport.net.connections import Connections
from coordinatord.transport.net.cooperative_tasks import TaskScheduler, TaskSteps
from coordinatord.transport.net.descriptors import connections_allowed, raise_limit
from coordinatord.transport.net.listening import bound
from coordinatord.transport.net.request import RequestContext
from coordinatord.transport.net.router import Router
from coordinatord.transport.net.server_context import ServerContext
from coordinatord.transport.net.write_coalescer import WriteCoalescer
from kafka_wire.api_key import ApiKey

log = get_logger("coordinatord.server.postgresql")

CLOSE_S = 2.0
"""Longest wait in seconds for the end of the front's thread, which closes its sockets and connections."""

TOPICS = (OFFSETS_TOPIC, TRANSACTION_TOPIC, SHARE_TOPIC)
"""The topics of coordinators, by FindCoordinator's type of a key."""

SHARE = 2


class Offer(NamedTuple):
    """The content of the daemon's ApiVersions response. A standby node sends the same: clients choose their protocol by
    it.
    """

    api_keys: frozenset[int]
    features: Mapping[str, int]


def endpoints(settings: Settings) -> list[Endpoint]:
    """Return the endpoints of a front: those with fixed ports, and for clients without authentication."""
    if settings.authorizer_class_name:
        return []
    return [each for each in settings.endpoints if each.port and settings.protocols[each.name] == "PLAINTEXT"]


def others(nodes: Sequence[KnownNode], listener: str, own_id: int) -> list[Node]:
    """Return the living nodes with ids other than `own_id` that listen there, with the addresses that clients receive.
    A leading node is among them until its lead ends: responses name it as a leader, and some clients fail if a leader
    is not in the list of brokers.
    """
    found: dict[int, Node] = {}
    for each in nodes:
        address = each.addresses.get(listener)
        if (each.lease_s > 0 or each.leads) and each.node_id != own_id and address is not None:
            found.setdefault(each.node_id, Node(each.node_id, *address, each.rack))
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Log:
    leader_epoch: int = -1
    """Unknown: clients then accept any leader."""


@dataclass(frozen=True, slots=True)
class _Partition:
    leader_id: int
    is_here: bool = False
    log: _Log = _Log()


@dataclass(frozen=True, slots=True)
class _Topic:
    name: str
    topic_id: bytes
    partitions: Sequence[_Partition]

    @property
    def internal(self) -> bool:
        return self.name in INTERNAL


class View:
    """The last state read from the database, as topics.describe's catalogue and nodes. Replaced whole, never
    changed.
    """

    def __init__(self, nodes: Sequence[KnownNode], content: Content, seats: int = 1) -> None:
        self._nodes = nodes
        self._seats = seats
        self._holders = {each.seat: each for each in nodes if each.addresses}
        self._leader = self._holders.get(0)
        topics = [_Topic(name, entry.topic_id, self._partitions(name, entry)) for name, entry in content.topics.items()]
        self.by_name = {each.name: each for each in topics}
        self.by_id = {each.topic_id: each for each in topics}
        self.partition_count = sum(len(each.partitions) for each in topics)

    def _partitions(self, topic: str, entry: Entry) -> Sequence[_Partition]:
        """Return a topic's partitions; their leaders repeat with the seats."""
        repeated = [
            _Partition(NOBODY if holder is None else holder.node_id)
            for index in range(self._seats)
            for holder in (self._holders.get(share_of(topic, index, self._seats)),)
        ]
        return (repeated * -(-entry.partitions // self._seats))[: entry.partitions]

    # As the nodes

    @property
    def controller_id(self) -> int:
        """The id of the leader of the first seat; -1 while it has none."""
        return NOBODY if self._leader is None else self._leader.node_id

    def alive(self, listener: str) -> list[Node]:
        """Return the leader of the first seat, then the others."""
        leader = self._leader
        first = [] if leader is None else others([leader], listener, NOBODY)
        return first + others(self._nodes, listener, self.controller_id)

    def leader(self, listener: str, seat: int = 0) -> tuple[int, str, int] | None:
        """Return the leader of a seat: (node id, host, port)."""
        holder = self._holders.get(seat)
        address = None if holder is None else holder.addresses.get(listener)
        return None if holder is None or address is None else (holder.node_id, *address)

    def coordinator(self, key: str, key_type: int, listener: str) -> tuple[int, str, int] | None:
        """Return a coordinator (wrong_node.Leading). With several seats it is unknown until the coordinators' topic
        exists.
        """
        if key_type == SHARE:
            from coordinatord.coordination.share.coordinator.coordinator import coordinator_key, parse_key

            key = coordinator_key(*parse_key(key))
        if self._seats == 1:
            return self.leader(listener)
        name = TOPICS[key_type]
        topic = self.by_name.get(name)
        if topic is None:
            return None
        return self.leader(listener, share_of(name, partition_for(key, len(topic.partitions)), self._seats))

    # As the catalogue

    def __iter__(self) -> Iterator[_Topic]:
        return iter(list(self.by_name.values()))

    def refresh(self) -> bool:
        """Return False: this view is never refreshed."""
        return False

    def partition(self, topic: str, index: int) -> _Partition | None:
        """Return a partition, which is never on this node."""
        found = self.by_name.get(topic)
        return found.partitions[index] if found is not None and 0 <= index < len(found.partitions) else None


class StandbyListener:
    """The listeners. One thread calls `open`, `tell` and `close`."""

    def __init__(self, settings: Settings, offer: Offer, cluster_id: str, view: View) -> None:
        self._settings = settings
        self._offer = offer
        self._cluster_id = cluster_id
        self._view = view
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._is_ready = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> set[str]:
        """Listen; return the names of the listeners. A listener that cannot be bound is left out, with a log line."""
        sockets: list[tuple[str, socket]] = []
        for endpoint in endpoints(self._settings):
            try:
                sockets += [
                    (endpoint.name, each)
                    for each in bound(
                        endpoint.host, endpoint.port, v6_only=endpoint.v6_only, buffers=self._settings.socket_buffers
                    )
                ]
            except OSError as error:
                log.warning("clients cannot ask this node who leads", listener=endpoint.name, error=str(error))
        if sockets:
            self._thread = threading.Thread(target=self._run, args=(sockets,), name="store-front", daemon=True)
            self._thread.start()
            self._is_ready.wait(CLOSE_S)
        return {name for name, _socket in sockets}

    def set_view(self, view: View) -> None:
        """Respond with this view from now on."""
        self._view = view

    def close(self) -> None:
        """Close the sockets and connections."""
        if self._thread is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(CLOSE_S)

    # On its thread

    def _run(self, sockets: list[tuple[str, socket]]) -> None:
        try:
            asyncio.run(self._serve(sockets))
        except Exception:
            log.exception("the front failed; this node waits without it")
        finally:
            for _name, each in sockets:
                each.close()
            self._is_ready.set()

    async def _serve(self, sockets: list[tuple[str, socket]]) -> None:
        loop = self._loop = asyncio.get_running_loop()
        door = self._door(loop)
        connections = door.connections
        assert isinstance(connections, Connections), "the door was made here"
        backlog = self._settings.socket_listen_backlog_size
        servers = [
            await loop.create_server(partial(Connection, door, name), sock=each, backlog=backlog)
            for name, each in sockets
        ]
        self._is_ready.set()
        idle_ms = self._settings.connections_max_idle_ms
        while not self._stop.is_set():
            try:
                await asyncio.wait_for(self._stop.wait(), max(0.01, min(60.0, idle_ms / 4_000)))
            except TimeoutError:
                connections.close_idle(idle_ms)
        for server in servers:
            server.close()
        for connection in list(connections.open):
            connection.close()
        await asyncio.sleep(0)

    def _door(self, loop: asyncio.AbstractEventLoop) -> ServerContext:
        metrics = Metrics()
        allowed = connections_allowed(self._settings.max_connections, raise_limit())
        return ServerContext(
            router=Router(self._handlers(), metrics, release=self._settings.advertised_kafka_version),
            connections=Connections(allowed, _now_ms, metrics),
            turn_end=WriteCoalescer(loop.call_soon),
            metrics=metrics,
            max_frame_bytes=self._settings.socket_request_max_bytes,
            now_ms=_now_ms,
            call_soon=loop.call_soon,
            hold=_nothing_waits,
            slicer=TaskScheduler(loop.call_soon, None, metrics),
        )

    def _handlers(self) -> dict[int, Callable[..., Any]]:
        identity = self._cluster_id, self._settings.node_id
        keys, release = self._offer.api_keys, self._settings.advertised_kafka_version
        telling = _Telling(self)
        handlers: dict[int, Callable[..., Any]] = {
            **WrongNode(telling, REFUSABLE, serves_share=ApiKey.SHARE_FETCH in keys).handlers(),
            ApiKey.METADATA: telling.metadata,
            ApiKey.DESCRIBE_CLUSTER: telling.describe_cluster,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS: telling.describe_topic_partitions,
        }
        served = {key: handler for key, handler in handlers.items() if key in keys}
        return {**served, ApiKey.API_VERSIONS: ApiVersions(keys, self._offer.features, identity, release).answer}


class _Telling:
    """Handlers, each of which uses one view for the whole response."""

    def __init__(self, front: StandbyListener) -> None:
        self._front = front

    def coordinator(self, key: str, key_type: int, listener: str) -> tuple[int, str, int] | None:
        return self._front._view.coordinator(key, key_type, listener)

    def metadata(self, context: Any, request: Any) -> Any:
        return self._describing().metadata(context, request)

    def describe_cluster(self, context: Any, request: Any) -> Any:
        return self._describing().describe_cluster(context, request)

    def describe_topic_partitions(self, context: Any, request: Any) -> Any:
        return self._describing().describe_topic_partitions(context, request)

    def _describing(self) -> Describing:
        front, view = self._front, self._front._view
        catalogue: Any = view
        nodes: Any = view
        return Describing(front._settings, catalogue, nodes, front._cluster_id, _create_nothing)


def _create_nothing(_context: RequestContext, _names: Iterable[str]) -> TaskSteps:
    """Create nothing: only the leader creates topics. To a client such topics do not exist yet, and it retries."""
    yield None


def _nothing_waits(epoch: int, callback: Callable[[], object], failed: Callable[[], object], is_patient: bool) -> None:
    raise AssertionError("a node that waits writes nothing")


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000

"""A worker's configuration from its supervisor, and the connection between the two.

The connection carries one word per line. The worker sends `listening` (and its admin URL) when clients can connect, and
`changed` when it has changed the catalogue or the cluster's metadata; the supervisor forwards `changed` to the other
workers. If the connection breaks, the supervisor is dead, and the worker stops in order, because no process would
restart or stop it any more.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from coordinatord.broker.log.errors import LogError
from coordinatord.broker.metadata.log import MetadataLog
from coordinatord.broker.topics import Topics
from coordinatord.broker.topics.shared_catalogue import SharedCatalogue
from coordinatord.transport.cluster.moved_partitions import MovedPartitions
from coordinatord.transport.cluster.shared import Shared

if TYPE_CHECKING:
    from coordinatord.server.control.control import Control

CHANGED = b"changed"
LISTENING = b"listening"

PUBLISH_S = 0.1
"""Seconds between attempts of a started worker to publish its start while another worker holds the lock."""


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """A worker's configuration. `sockets` are bound and already listen; `addresses` has, per listener, every worker's
    address as clients receive it; `peer_paths` has every worker's Unix socket, and `peer_socket` is this worker's.
    """

    worker: int
    workers: int
    cluster_id: str
    sockets: Mapping[str, Sequence[socket.socket]]
    addresses: Mapping[str, Sequence[tuple[str, int]]]
    peer_socket: socket.socket
    peer_paths: Sequence[str]
    shared: Shared
    control_channel: socket.socket
    is_recovered: bool
    """True if nothing has been written since the supervisor recovered the data."""
    placed: MovedPartitions | None = None
    """The partitions that tests have moved; None without test.control.enable."""


class ControlChannel(asyncio.Protocol):
    """The worker's end of the connection."""

    def __init__(self, changed: Callable[[], object], cut: Callable[[], object]) -> None:
        self._changed = changed
        self._cut = cut
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Refresh. The supervisor sends no other word than `changed`, and one refresh covers several of them."""
        self._changed()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cut()

    def send_message(self, word: bytes, argument: str = "") -> None:
        """Send a word to the supervisor."""
        self._transport.write(b"%s %s\n" % (word, argument.encode()))


class Daemon(Protocol):
    """The methods of the daemon that the connection uses."""

    metadata: MetadataLog
    control: Control | None

    def request_stop(self, reason: str) -> None: ...

    def log_failed(self, error: BaseException) -> None: ...


async def take_up_line(
    part: WorkerConfig,
    loop: asyncio.AbstractEventLoop,
    topics: Topics,
    daemon: Daemon,
    admin_url: str,
) -> None:
    """Follow the other workers' changes and announce this one's; then announce that clients can connect."""
    catalogue = topics.catalogue
    assert isinstance(catalogue, SharedCatalogue), "workers share a catalogue"

    def follow() -> None:
        try:
            catalogue.refresh()
            daemon.metadata.refresh()
            topics.group_configs.refresh()
            if daemon.control is not None:
                daemon.control.moves.follow()
        except (LogError, OSError) as error:
            daemon.log_failed(error)

    _, channel = await loop.create_connection(
        lambda: ControlChannel(follow, lambda: daemon.request_stop("the supervisor is gone")), sock=part.control_channel
    )
    part.shared.on_change = lambda: channel.send_message(CHANGED)
    if part.placed is not None:
        part.placed.listens(part.worker, urlsplit(admin_url).port or 0)

    def publish() -> None:
        if not part.shared.worker_started(catalogue.change):
            loop.call_later(PUBLISH_S, publish)

    publish()
    follow()
    channel.send_message(LISTENING, admin_url)

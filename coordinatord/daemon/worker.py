"""A worker's side of its supervisor: what it is given, and the line between them.

On the line go single words, each on a line of its own. The worker says `listening` (and its admin URL) when clients may
come, and `changed` when it has changed the catalogue; the supervisor passes `changed` on to the others. When the line
is cut, the supervisor is dead, and the worker stops in order: without it nobody would start it again, or stop it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from coordinatord.cluster.shared import Shared
from coordinatord.log.errors import LogError
from coordinatord.topics import Topics
from coordinatord.topics.catalogue import Topic
from coordinatord.topics.names import TRANSACTION_TOPIC
from coordinatord.topics.shared_catalogue import SharedCatalogue

CHANGED = b"changed"
LISTENING = b"listening"


@dataclass(frozen=True, slots=True)
class Part:
    """What a worker is given. `sockets` are bound and listen already; `addresses` has what clients of a listener are
    told of every worker, `peer_paths` every worker's Unix socket, of which `peer_socket` is this one's.
    """

    worker: int
    workers: int
    cluster_id: str
    sockets: Mapping[str, Sequence[socket.socket]]
    addresses: Mapping[str, Sequence[tuple[str, int]]]
    peer_socket: socket.socket
    peer_paths: Sequence[str]
    shared: Shared
    line: socket.socket
    is_recovered: bool
    """Nothing has been written since the supervisor recovered the data."""


class Line(asyncio.Protocol):
    """The worker's end."""

    def __init__(self, changed: Callable[[], object], cut: Callable[[], object]) -> None:
        self._changed = changed
        self._cut = cut
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """`changed` is all that is ever said, and once is as good as twice."""
        self._changed()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cut()

    def say(self, word: bytes, argument: str = "") -> None:
        """To the supervisor."""
        self._transport.write(b"%s %s\n" % (word, argument.encode()))


class Daemon(Protocol):
    """What is asked of the daemon."""

    def request_stop(self, reason: str) -> None: ...

    def log_failed(self, error: BaseException) -> None: ...


async def take_up_line(
    part: Part,
    loop: asyncio.AbstractEventLoop,
    topics: Topics,
    transaction_topic_made: Callable[[], object],
    daemon: Daemon,
    admin_url: str,
) -> None:
    """From now on hear of others' changes and tell of our own; and tell that clients may come."""
    catalogue = topics.catalogue
    assert isinstance(catalogue, SharedCatalogue), "a worker has a part in one"

    def follow() -> None:
        try:
            catalogue.refresh()
        except (LogError, OSError) as error:
            daemon.log_failed(error)

    def added(topic: Topic) -> None:
        if topic.name == TRANSACTION_TOPIC:
            transaction_topic_made()

    catalogue.on_added = added
    _, line = await loop.create_connection(
        lambda: Line(follow, lambda: daemon.request_stop("the supervisor is gone")), sock=part.line
    )
    part.shared.on_change = lambda: line.say(CHANGED)
    follow()
    line.say(LISTENING, admin_url)

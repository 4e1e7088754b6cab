"""ConsumerGroupHeartbeats with the same bytes as an earlier one, except for the correlation id.

librdkafka, the Java client and franz-go send only the fields that have changed since their last heartbeat. So in a
steady group their heartbeats are equal: group, member, member epoch, and an instance id if there is one. Besides
`Group.version`, the response depends on the topics, on the group's settings, and on the host in the member's record.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from coordinatord.coordination.group.consumer.heartbeat import steady
from coordinatord.coordination.group.consumer.state import Session
from coordinatord.coordination.group.state import Group
from coordinatord.transport.net.connection import Connection
from coordinatord.transport.net.request import RequestContext
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.framing import Frames
from kafka_wire.registry import Codec

if TYPE_CHECKING:
    from coordinatord.coordination.service.groups import Coordinator

BODY_AT: Final = 8
"""Position of the compared bytes, after API key, version and correlation id; they include the client id."""

MAX_BYTES: Final = 512
"""Largest size in bytes of a stored heartbeat: see heartbeats.py."""

LEAST_KEPT: Final = 1024
"""Number of heartbeats that are kept before outdated ones are first dropped."""


class Known:
    """A heartbeat that got a response, the state that the response depends on, and the response without the correlation
    id.
    """

    __slots__ = ("body", "group", "host", "identity", "limits_version", "session", "size", "topics_version", "version")

    def __init__(
        self,
        session: Session,
        group: Group,
        connection: Connection,
        topics_version: int,
        limits_version: int,
        body: bytes,
    ) -> None:
        self.session = session
        self.group = group
        self.version = group.version
        self.host = connection.client_host
        self.identity = connection.identity
        self.topics_version = topics_version
        self.limits_version = limits_version
        self.size = (4 + len(body)).to_bytes(4, "big")
        self.body = body


class ConsumerHeartbeats:
    """The shortcut for one version of ConsumerGroupHeartbeat."""

    def __init__(self, codec: Codec, coordinator: Coordinator) -> None:
        self._codec = codec
        self._coordinator = coordinator
        self._known: dict[bytes, Known] = {}
        self._room = LEAST_KEPT

    def __len__(self) -> int:
        return len(self._known)

    def answer(self, connection: Connection, frames: Frames, first: int, stop: int) -> int:
        """Respond to the heartbeats that are known (net.routes.Shortcut)."""
        line = connection.line
        surroundings = self._coordinator.surroundings
        if line.held or surroundings is None:
            return 0
        find = self._known.get
        buf, start, end = frames[first]
        if buf[start + BODY_AT : end] not in self._known:  # in a rebalance: looking up the rest would be in vain
            return 0
        now_ms, host, asker = connection.last_active_ms, connection.client_host, connection.identity
        topics_version, limits_version = surroundings.topics.version, surroundings.limits.version
        head = buf[start : start + 4]
        out = line.out
        at = first
        while at < stop:
            buf, start, end = frames[at]
            if end - start < BODY_AT or buf[start : start + 4] != head:
                break
            known = find(buf[start + BODY_AT : end])
            if (
                known is None
                or known.group.version != known.version
                or known.topics_version != topics_version
                or known.limits_version != limits_version
                or known.host != host
                or known.identity is not asker
            ):
                break
            session = known.session
            session.deadline_ms = now_ms + session.timeout_ms
            out += known.size + buf[start + 4 : start + 8] + known.body
            at += 1
        return at - first

    def learn(
        self, context: RequestContext, request: ConsumerGroupHeartbeatRequest, buf: bytes, start: int, end: int
    ) -> None:
        """Store a heartbeat without changes, of a settled group that has nothing new for its member."""
        actor = self._coordinator.actors.get(request.group_id)
        surroundings = self._coordinator.surroundings
        if actor is None or surroundings is None or end - start > MAX_BYTES or not actor.is_settled:
            return
        if request.topic_partitions is not None:
            return  # clients send their owned partitions once
        group, host = actor.group, context.client_host
        if not _was_steady(group, request):
            return
        found = steady(group, surroundings, request, context.client_id or "", host)
        if found is None:
            return
        session, result = found
        body = bytearray(b"\0" if self._codec.response_header_flexible else b"")
        self._codec.encode_response(result.reply, body)
        if len(self._known) >= self._room:
            self._make_room()
        self._known[buf[start + BODY_AT : end]] = Known(
            session, group, context.connection, surroundings.topics.version, surroundings.limits.version, bytes(body)
        )

    def _make_room(self) -> None:
        """Drop outdated entries, and all entries of groups that have more entries than members."""
        held = {key: known for key, known in self._known.items() if known.group.version == known.version}
        counts = Counter(known.group for known in held.values())
        self._known = {key: known for key, known in held.items() if counts[known.group] <= _size(known.group)}
        self._room = max(LEAST_KEPT, 2 * len(self._known))


def _size(group: Group) -> int:
    return 0 if group.consumer is None else len(group.consumer.members)


def _was_steady(group: Group, request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether an earlier heartbeat with this member epoch contained no change. In a rebalance none does."""
    session = None if group.consumer is None else group.consumer.sessions.get(request.member_id)
    if session is None or session.steady is None:
        return False
    return bool(session.steady.reply.member_epoch == request.member_epoch)

"""Heartbeats that are the same bytes as one before, but for the correlation id.

As long as nothing happens to its group, each heartbeat of a member is answered as the one before, without an error, and
all that it does is to move its member's deadline. What could change that moves `Group.version`: another state, a member
that goes, a record of the group's. So whatever a heartbeat would have to wait for in the log has moved it, too.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from coordinatord.group.members import refusal
from coordinatord.group.state import Group, Member
from coordinatord.group.states import STABLE
from coordinatord.net.connection import Connection
from coordinatord.net.request import RequestContext
from kafka_wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.framing import Frames
from kafka_wire.registry import Codec

if TYPE_CHECKING:
    from coordinatord.coordinator.groups import Coordinator

BODY_AT: Final = 8
"""What is compared begins behind API key, version and correlation id: the client id is in it."""

MAX_BYTES: Final = 512
"""Longer heartbeats are not remembered: what is kept of a member is what its client has made up: client id, unknown
tags, what is behind the request. Consumers send about 100 bytes, with the longest usual names 300.
"""

LEAST_KEPT: Final = 1024
"""So many are kept before anybody looks which of them still hold."""

Known = tuple[Member, Group, int]
"""Whose heartbeat it is, and the group's version when it was answered."""


class Heartbeats:
    """The shortcut for one version of Heartbeat."""

    def __init__(self, codec: Codec, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._known: dict[bytes, Known] = {}
        self._room = LEAST_KEPT
        body = bytearray(b"\0" if codec.response_header_flexible else b"")
        codec.encode_response(HeartbeatResponse(), body)
        #: an answer is this, the correlation id, and the body
        self._size = (4 + len(body)).to_bytes(4, "big")
        self._body = bytes(body)

    def __len__(self) -> int:
        return len(self._known)

    def answer(self, connection: Connection, frames: Frames, first: int, stop: int) -> int:
        """As net.routes.Shortcut."""
        line = connection.line
        if line.held:
            return 0
        find = self._known.get
        now_ms = connection.last_active_ms
        size, body = self._size, self._body
        head = frames[first][0][frames[first][1] : frames[first][1] + 4]
        answers = bytearray()
        at = first
        while at < stop:
            buf, start, end = frames[at]
            if end - start < BODY_AT or buf[start : start + 4] != head:
                break
            known = find(buf[start + BODY_AT : end])
            if known is None:
                break
            member, group, version = known
            if group.version != version:
                break
            member.is_alive(now_ms)
            answers += size + buf[start + 4 : start + 8] + body
            at += 1
        line.out += answers
        return at - first

    def learn(self, context: RequestContext, request: HeartbeatRequest, buf: bytes, start: int, end: int) -> None:
        """Remember a heartbeat that is answered without an error, by a group that is Stable and waits for nothing."""
        actor = self._coordinator.actors.get(request.group_id)
        if actor is None or end - start > MAX_BYTES or not actor.is_settled:
            return
        group = actor.group
        if (
            group.state is not STABLE
            or request.generation_id != group.generation_id
            or refusal(group, request.member_id, request.group_instance_id) is not None
        ):
            return
        if len(self._known) >= self._room:
            self._make_room()
        self._known[buf[start + BODY_AT : end]] = group.members[request.member_id], group, group.version

    def _make_room(self) -> None:
        """Forget what does not hold any more, and groups that say more than one thing for each of their members."""
        held = {key: known for key, known in self._known.items() if known[1].version == known[2]}
        counts = Counter(group for _, group, _ in held.values())
        self._known = {key: known for key, known in held.items() if counts[known[1]] <= len(known[1].members)}
        self._room = max(LEAST_KEPT, 2 * len(self._known))

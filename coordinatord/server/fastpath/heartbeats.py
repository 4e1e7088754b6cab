"""Heartbeats with the same bytes as an earlier one, except for the correlation id.

While a member's group does not change, each heartbeat gets the same response as the one before, without an error, and
only moves the member's deadline. Every change that matters increments `Group.version`: another state, a member that
leaves, a record of the group. So any record in the log for which a heartbeat would have to wait has also incremented
it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from coordinatord.coordination.group.classic.members import refusal
from coordinatord.coordination.group.state import Group, Member
from coordinatord.coordination.group.states import STABLE
from coordinatord.transport.net.connection import Connection
from coordinatord.transport.net.request import RequestContext
from kafka_wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.framing import Frames
from kafka_wire.registry import Codec

if TYPE_CHECKING:
    from coordinatord.coordination.service.groups import Coordinator

BODY_AT: Final = 8
"""Position of the compared bytes, after API key, version and correlation id; they include the client id."""

MAX_BYTES: Final = 512
"""Largest size in bytes of a stored heartbeat: the client chooses the stored bytes (client id, unknown tags, bytes
after the request). Consumers send about 100 bytes, 300 with the longest usual names.
"""

LEAST_KEPT: Final = 1024
"""Number of heartbeats that are kept before outdated ones are first dropped."""

Said = bytes | tuple[bytes, Any]
"""The compared bytes of a heartbeat; with `Connection.identity`, where permissions are checked."""

Known = tuple[Member, Group, int]
"""The member and the group of a heartbeat, and the group's version when the response was sent."""


class Heartbeats:
    """The shortcut for one version of Heartbeat."""

    def __init__(self, codec: Codec, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._known: dict[Said, Known] = {}
        self._room = LEAST_KEPT
        body = bytearray(b"\0" if codec.response_header_flexible else b"")
        codec.encode_response(HeartbeatResponse(), body)
        #: a response is the size, the correlation id, and the body
        self._size = (4 + len(body)).to_bytes(4, "big")
        self._body = bytes(body)

    def __len__(self) -> int:
        return len(self._known)

    def answer(self, connection: Connection, frames: Frames, first: int, stop: int) -> int:
        """Respond to the heartbeats that are known (net.routes.Shortcut)."""
        line = connection.line
        if line.held:
            return 0
        find = self._known.get
        now_ms, asker = connection.last_active_ms, connection.identity
        size, body = self._size, self._body
        buf, start, end = frames[first]
        head = buf[start : start + 4]
        out = line.out
        at = first
        while at < stop:
            buf, start, end = frames[at]
            if end - start < BODY_AT or buf[start : start + 4] != head:
                break
            said = buf[start + BODY_AT : end]
            known = find(said if asker is None else (said, asker))
            if known is None:
                break
            member, group, version = known
            if group.version != version:
                break
            member.keep_alive(now_ms)
            out += size + buf[start + 4 : start + 8] + body
            at += 1
        return at - first

    def learn(self, context: RequestContext, request: HeartbeatRequest, buf: bytes, start: int, end: int) -> None:
        """Store a heartbeat that got a response without an error from a Stable group that waits for nothing."""
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
        said, asker = buf[start + BODY_AT : end], context.connection.identity
        known = group.members[request.member_id], group, group.version
        self._known[said if asker is None else (said, asker)] = known

    def _make_room(self) -> None:
        """Drop outdated entries, and all entries of groups that have more entries than members. Entries are deleted in
        place: a copy for a hundred thousand members would temporarily take 10 MB.
        """
        known = self._known
        for said in [said for said, (_, group, version) in known.items() if group.version != version]:
            del known[said]
        counts = Counter([group for _, group, _ in known.values()])
        for said in [said for said, (_, group, _) in known.items() if counts[group] > len(group.members)]:
            del known[said]
        self._room = max(LEAST_KEPT, 2 * len(known))

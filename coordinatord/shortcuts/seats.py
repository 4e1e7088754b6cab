"""Members on the connections on which they rejoin: requests that need not be decoded.

In a rebalance each member says what it said in the one before, but for its metadata and its generation. What that was
is kept with its connection, as a `Seat`: a request is compared with it before it is decoded, and what is found is a
hint and no more. Whether there is nothing to do but to wait for others, or to hand out what has been assigned, is the
group's to say (`joining.rejoin`, `syncing.sync_again`); if it is more than that the request is decoded and goes the
long way. So do those of a leader, which assigns, and of whoever begins or completes a rebalance.

A connection has one seat at most: clients have a connection of their own for each member.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from coordinatord.group.joining import joined
from coordinatord.group.state import Member
from coordinatord.net.request import RequestContext
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.sync_group import SyncGroupRequest
from kafka_wire.rejoin_shape import FIRST_JOIN_VERSION, FIRST_SYNC_VERSION, MAX_BYTES, RejoinShape, ResyncShape

if TYPE_CHECKING:
    from coordinatord.coordinator.actor import GroupActor

_head = Struct(">hh").pack
_client_id_size = Struct(">h").pack
_correlation_id = Struct(">i").unpack_from

CORRELATION_STOP = 8
"""Bytes of a frame before what is compared: api key, version and correlation id."""


class Seat:
    """See the module's docstring. What is kept is made anew at the second request in a row that is not like those
    before, then at the fourth, the eighth and so on, since some clients never say the same twice.
    """

    __slots__ = (
        "_actor",
        "_body_at",
        "_client_id",
        "_connection",
        "_join",
        "_join_codec",
        "_joined",
        "_max_metadata_bytes",
        "_member",
        "_names",
        "_protocols",
        "_rebalance_timeout_ms",
        "_session_timeout_ms",
        "_sync",
        "_sync_codec",
        "_sync_misses",
        "_synced",
        "join_key",
        "misses",
        "sync_key",
    )

    def __init__(
        self,
        actor: GroupActor,
        member: Member,
        context: RequestContext,
        request: JoinGroupRequest,
        max_metadata_bytes: int,
    ) -> None:
        """`request` is one that `actor` has accepted from a member that was there."""
        head = _head_of(context)
        self._actor = actor
        self._member = member
        self._connection = context.connection
        self._client_id = context.client_id
        self._body_at = CORRELATION_STOP + len(head)
        self._join_codec = context.codec
        self._join = RejoinShape(request, context.api_version, head)
        self._joined = joined(member, request, is_new=False)
        self._names = [name for name, _ in member.protocols]
        self._protocols = member.protocols
        self._session_timeout_ms = request.session_timeout_ms
        self._rebalance_timeout_ms = request.rebalance_timeout_ms
        self._max_metadata_bytes = max_metadata_bytes
        self._sync: ResyncShape | None = None
        self._sync_codec = context.codec
        self._sync_misses = 0
        self._synced: tuple[str | None, str | None] = (None, None)
        #: JoinGroups in a row that were not like those before
        self.misses = 0
        self.join_key = _head(11, context.api_version)
        self.sync_key = b""

    @property
    def size(self) -> int:
        """Bytes of a JoinGroup that are kept."""
        return self._join.size

    def again(self, key: bytes, buf: bytes, start: int, end: int) -> bool:
        """Answer or park the request in `buf[start:end]`, whose api key and version are `key`. False where it has to be
        decoded: nothing has happened.
        """
        if key == self.join_key:
            return self._rejoin(buf, start, end)
        return key == self.sync_key and self._resync(buf, start, end)

    def _rejoin(self, buf: bytes, start: int, end: int) -> bool:
        found = self._join.metadata(buf, start + CORRELATION_STOP, end)
        member = self._member
        if found is None or member.protocols is not self._protocols:
            return False
        protocols = tuple([(name, metadata) for name, metadata in zip(self._names, found, strict=True)])
        limit = self._max_metadata_bytes
        if end - start > limit and sum([len(name) + len(metadata) for name, metadata in protocols]) > limit:
            return False
        connection = self._connection
        (correlation_id,) = _correlation_id(buf, start + 4)
        context = RequestContext(
            connection, self._join_codec, correlation_id, self._client_id, (buf, start + self._body_at, end)
        )
        if not self._actor.rejoin(
            member,
            protocols,
            self._session_timeout_ms,
            self._rebalance_timeout_ms,
            context,
            self._joined,
            connection.last_active_ms,
        ):
            return False
        self._protocols = protocols
        self.misses = 0
        connection.park(context)
        return True

    def _resync(self, buf: bytes, start: int, end: int) -> bool:
        assert self._sync is not None
        generation_id = self._sync.generation_id(buf, start + CORRELATION_STOP, end)
        if generation_id is None:
            return False
        connection = self._connection
        (correlation_id,) = _correlation_id(buf, start + 4)
        context = RequestContext(
            connection, self._sync_codec, correlation_id, self._client_id, (buf, start + self._body_at, end)
        )
        response = self._actor.sync_again(self._member, generation_id, self._synced, context)
        if response is False:
            return False
        self._sync_misses = 0
        if response is not None:
            connection.answer(context, response)
        elif not context.done:
            connection.park(context)
        return True

    def has_rejoined(self, member: Member, context: RequestContext) -> bool:
        """Whether the accepted request was one of these. It was decoded, so remember what the member is known for."""
        buf, start, end = context.where
        if member is not self._member or context.codec is not self._join_codec:
            return False
        if self._join.metadata(buf, start - self._body_at + CORRELATION_STOP, end) is None:
            return False
        self._protocols = member.protocols
        self.misses = 0
        return True

    def learn_sync(self, context: RequestContext, request: SyncGroupRequest) -> None:
        """A SyncGroup has been decoded. What it is like if this member has sent it."""
        if self._member.member_id != request.member_id or request.assignments:
            return
        head = _head_of(context)
        buf, start, end = context.where
        if CORRELATION_STOP + len(head) != self._body_at or end - start > MAX_BYTES:
            return
        if self._sync is not None and self._sync_codec is context.codec:
            if self._sync.generation_id(buf, start - self._body_at + CORRELATION_STOP, end) is not None:
                return  # one of these: it was decoded for another reason
            self._sync_misses += 1
            if not _is_due(self._sync_misses):
                return
        self._sync = ResyncShape(request, context.api_version, head)
        self._sync_codec = context.codec
        self._synced = request.protocol_type, request.protocol_name
        self.sync_key = _head(14, context.api_version)


class Seats:
    """Gives seats to members that rejoin."""

    def __init__(self, max_metadata_bytes: int) -> None:
        self._max_metadata_bytes = max_metadata_bytes

    def rejoined(self, actor: GroupActor, context: RequestContext, request: JoinGroupRequest) -> None:
        """A JoinGroup has been decoded, and its member is parked or has been answered."""
        member = actor.group.members.get(request.member_id)
        if member is None or member.is_new or context.api_version < FIRST_JOIN_VERSION:
            return
        connection = context.connection
        seat: Seat | None = connection.seat
        misses = 0
        if seat is not None:
            if seat.has_rejoined(member, context):
                return
            misses = seat.misses = seat.misses + 1
            if not _is_due(misses):
                return
        if len(member.protocols) != len(request.protocols):
            return  # a name came twice
        made = Seat(actor, member, context, request, self._max_metadata_bytes)
        if made.size <= MAX_BYTES:
            made.misses = misses
            connection.seat = made

    @staticmethod
    def synced(context: RequestContext, request: SyncGroupRequest) -> None:
        """A SyncGroup has been decoded."""
        seat: Seat | None = context.connection.seat
        if seat is not None and context.api_version >= FIRST_SYNC_VERSION:
            seat.learn_sync(context, request)


def _is_due(misses: int) -> bool:
    return misses > 1 and not misses & (misses - 1)


def _head_of(context: RequestContext) -> bytes:
    """What is between the correlation id and the request: the client id, and no tags."""
    raw = context.connection.client_id_bytes
    return _client_id_size(-1 if context.client_id is None else len(raw)) + raw + b"\0"

"""JoinGroup and SyncGroup requests of a member that goes on: from one rebalance to the next little of them changes.

A member that rejoins says the same of itself but for the metadata of its protocols, which may be longer or shorter; one
that syncs and is not the leader says the same but for its generation. All other bytes are compared, those of the
request's header behind the correlation id as well. What is not one of these requests is decoded.
"""

from __future__ import annotations

from dataclasses import replace

from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.sync_group import SyncGroupRequest
from kafka_wire.compiler import encode_message
from kafka_wire.errors import DecodeError
from kafka_wire.holes import in_common
from kafka_wire.lengths import read_uvarint

FIRST_JOIN_VERSION = 6
"""Flexible ones: of the older ones no client has all that follows, and lengths are written otherwise."""

FIRST_SYNC_VERSION = 5
"""Requests that say which protocol they are about (KIP-559), as all of today's clients do."""

MAX_BYTES = 1024
"""Of a request without its metadata: longer ones are decoded each time."""

GENERATION_BYTES = 4


class RejoinShape:
    """JoinGroup requests that differ in their metadata alone."""

    __slots__ = ("_before", "_tail")

    def __init__(self, request: JoinGroupRequest, version: int, head: bytes) -> None:
        """`head`: what is between the correlation id and the request."""
        zeros, ones = (encode_message(_with(request, byte), version) for byte in (b"\0", b"\xff"))
        *before, self._tail = in_common(zeros, ones, (1,) * len(request.protocols))
        before[0] = head + before[0]
        self._before = [each[:-1] for each in before]  # without the length, which may be another one

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        return len(self._tail) + sum(map(len, self._before))

    def metadata(self, buf: bytes, pos: int, end: int) -> list[bytes] | None:
        """The metadata of each protocol, if what lies in `buf[pos:end]` is one of these."""
        found: list[bytes] = []
        try:
            for constant in self._before:
                stop = pos + len(constant)
                if buf[pos:stop] != constant:
                    return None
                size = buf[stop]
                pos = stop + 1
                if size > 0x7F:
                    size, pos = read_uvarint(buf, pos, size)
                if not size:  # null
                    return None
                stop = pos + size - 1
                found.append(buf[pos:stop])
                pos = stop
        except (IndexError, DecodeError):
            return None
        return found if end - pos == len(self._tail) and buf[pos:end] == self._tail else None


class ResyncShape:
    """SyncGroup requests of a member that assigns nothing: they differ in their generation alone."""

    __slots__ = ("_after", "_before", "_size")

    def __init__(self, request: SyncGroupRequest, version: int, head: bytes) -> None:
        """`head`: what is between the correlation id and the request."""
        assert not request.assignments
        zeros, ones = (encode_message(replace(request, generation_id=number), version) for number in (0, -1))
        before, self._after = in_common(zeros, ones, (GENERATION_BYTES,))
        self._before = head + before
        self._size = len(self._before) + GENERATION_BYTES + len(self._after)

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        return self._size

    def generation_id(self, buf: bytes, pos: int, end: int) -> int | None:
        """The generation, if what lies in `buf[pos:end]` is one of these."""
        if end - pos != self._size:
            return None
        at = pos + len(self._before)
        after = at + GENERATION_BYTES
        if buf[pos:at] != self._before or buf[after:end] != self._after:
            return None
        return int.from_bytes(buf[at:after], "big", signed=True)


def _with(request: JoinGroupRequest, metadata: bytes) -> JoinGroupRequest:
    return replace(request, protocols=[replace(each, metadata=metadata) for each in request.protocols])

"""Which commits are like one before: what is known of the members that commit the same partitions again and again.

A request is looked up here before it is decoded, by the bytes that say whose it is: group, generation and member. What
is found is a hint and no more. All bytes but the numbers are compared with those of a commit that was accepted, the
topics with what they are now, and whether the group takes it is the group's to say, as of any other: if anything is
not as it was, the request is decoded and goes the long way.

A shape is made when a member commits for the second time in a generation, and made anew for another set of partitions
at the fourth, eighth, sixteenth such commit and so on: making one costs as much as five commits, and some never commit
the same partitions twice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinatord.net.request import Body
from coordinatord.runtime.refusals import refuse
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.commit_shape import FIRST_VERSION, MAX_BYTES, MAX_PARTITIONS, CommitShape
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import Numbers
from kafka_wire.registry import Codec

if TYPE_CHECKING:
    from coordinatord.coordinator.apis.offsets import TopicNames

MAX_KNOWN = 4096
"""Members: 3 KB each with four partitions, 6 with as many as have a shape."""

KEPT_MS = 60_000
"""When there is no room for another, all are forgotten that have been known for so long: those of members that have
gone, too. So what is made for nothing stays below one in a thousand of a core.
"""


class Known:
    """A member in a generation: how often it was decoded, and what its commits look like."""

    __slots__ = ("decoded", "failure", "shape", "topics")

    def __init__(self) -> None:
        self.decoded = 0
        self.shape: CommitShape | None = None
        #: (name, id and size) of the topics, as they were
        self.topics: list[tuple[str, tuple[bytes, int] | None]] = []
        #: makes the response if the log fails
        self.failure: Callable[[], Any] = lambda: None


Again = tuple[Known, CommitShape, Numbers]
"""A commit that was not decoded."""


class CommitShapes:
    """See the module's docstring."""

    def __init__(self, topics: TopicNames, now_ms: Callable[[], int]) -> None:
        self._topics = topics
        self._now_ms = now_ms
        self._known: dict[bytes, Known] = {}
        self._began_ms = 0

    def __len__(self) -> int:
        return len(self._known)

    def decoder(self, codec: Codec) -> Callable[[bytes, int, int], Any]:
        """Reads requests of this version: an `Again` (a tuple) or what the codec makes."""
        decode, version = codec.decode_request, codec.api_version
        if version < FIRST_VERSION:
            return decode
        find = self._known.get

        def read(buf: bytes, pos: int, end: int) -> Any:
            try:
                stop = pos + buf[pos] + 4
                known = find(buf[pos : stop + buf[stop]])  # as _whose
            except IndexError:
                known = None
            if known is not None:
                shape = known.shape
                if shape is not None and shape.version == version:
                    numbers = shape.numbers(buf, pos, end)
                    if numbers is not None:
                        return known, shape, numbers
            return decode(buf, pos, end)

        return read

    def is_right(self, known: Known) -> bool:
        """Whether its topics are still what they were."""
        id_and_size = self._topics.id_and_size
        for name, found in known.topics:  # noqa: SIM110  # a generator costs as much as three look-ups
            if id_and_size(name) != found:
                return False
        return True

    def learn(self, request: OffsetCommitRequest, version: int, body: Body) -> None:
        """A request has been decoded, and nothing of it refused."""
        buf, start, end = body
        if version < FIRST_VERSION or end - start > MAX_BYTES:
            return
        whose = _whose(buf, start)
        known = self._known.get(whose)
        if known is None:
            if len(self._known) >= MAX_KNOWN and not self._make_room():
                return
            known = self._known[whose] = Known()
        known.decoded += 1
        if known.decoded & (known.decoded - 1) == 0 and known.decoded > 1:
            self._make(known, request, version)

    def _make(self, known: Known, request: OffsetCommitRequest, version: int) -> None:
        partitions = [each for topic in request.topics for each in topic.partitions]
        if len(partitions) > MAX_PARTITIONS or any(each.committed_metadata for each in partitions):
            return
        known.shape = CommitShape(request, version)
        known.topics = [(topic.name, self._topics.id_and_size(topic.name)) for topic in request.topics]
        known.failure = partial(refuse, request, version, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _make_room(self) -> bool:
        now_ms = self._now_ms()
        if now_ms - self._began_ms < KEPT_MS:
            return False
        self._began_ms = now_ms
        self._known.clear()
        return True


def _whose(buf: bytes, pos: int) -> bytes:
    """Group, generation and member as they stand at the begin of a flexible request. Where a length takes two bytes it
    is some other slice, of no request or of one that looks the same up to there.
    """
    stop = pos + buf[pos] + 4  # compact: a length of one more, which is where the text ends
    return buf[pos : stop + buf[stop]]

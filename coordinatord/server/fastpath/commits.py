"""Commits with the same bytes as an earlier one, except for offsets, leader epochs and the partitions' order.

A request is looked up by the bytes of its client id, group, generation and member. All bytes but the numbers are
compared with those of a commit that was accepted in full (commit_shape.py). Group version and topics must be
unchanged since.

A shape is made at a member's second commit in a generation. It is rebuilt for another set of partitions at the fourth,
eighth, sixteenth … such commit: making one costs as much as five commits, and some members never commit the same
partitions twice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from coordinatord.coordination.group.consumer.state import ConsumerGroup
from coordinatord.coordination.group.offsets.commit_answers import metadata_is_too_long
from coordinatord.coordination.group.offsets.fencing import commit_refusal
from coordinatord.coordination.group.state import NO_TIMESTAMP, Group, Member
from coordinatord.coordination.group.states import EMPTY, STABLE
from coordinatord.coordination.runtime.versions import unavailable
from coordinatord.server.fastpath.commit_shape import MAX_BYTES, MAX_PARTITIONS, CommitShape, ShapedRecords
from coordinatord.transport.net.connection import Connection
from coordinatord.transport.net.received import NO_BODY
from coordinatord.transport.net.request import RequestContext
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.errors import ErrorCode
from kafka_wire.framing import Frames
from kafka_wire.registry import Codec

if TYPE_CHECKING:
    from coordinatord.coordination.service.groups import Coordinator, GroupActor

MAX_KNOWN = 4096
"""Largest number of stored members: 3 KB each with four partitions, 6 KB with MAX_PARTITIONS."""

KEPT_MS: Final = 60_000
"""Time in ms: a full table is cleared, but at most once in this time. So the shapes made in vain cost less than a
thousandth of a core.
"""

WHOSE_AT: Final = 8
"""Position of the bytes that identify the sender: client id, no tags, group, generation, member. If one of their
lengths takes two bytes, the slice ends too early. It is still equal only for equal bytes, and the rest of the request
is compared with the shape.
"""

CLIENT_ID_BYTES_AT: Final = 9
"""Position of the second byte of the client id's length."""

BODY_AT: Final = 11
"""Position at which a request with an empty client id begins after its header."""

GENERATION_BYTES: Final = 4


class Topics(Protocol):
    """The attribute of the topics that the shortcut reads."""

    deletions: int
    """A number that changes when a topic is deleted."""


class Known:
    """One member in one generation: the number of its commits that took the full path, and their shape."""

    __slots__ = (
        "actor",
        "answer",
        "decoded",
        "deletions",
        "failure",
        "group",
        "identity",
        "member",
        "shape",
        "version",
    )

    def __init__(self, actor: GroupActor) -> None:
        self.actor = actor
        self.group: Group = actor.group
        self.member: Member | None = None
        self.decoded = 0
        self.shape: CommitShape | None = None
        self.version = -1
        self.deletions = -1
        #: Connection.identity of the sender of the shape's last commit
        self.identity: Any = None
        #: the last response, and the function that makes its replacement if the log fails
        self.answer = b""
        self.failure: Callable[[], Any] = _nothing


class Commits:
    """The shortcut for one version of OffsetCommit. Only flexible versions have shapes."""

    def __init__(self, codec: Codec, coordinator: Coordinator, topics: Topics) -> None:
        self._codec = codec
        self._coordinator = coordinator
        self._topics = topics
        self._known: dict[bytes, Known] = {}
        self._began_ms = 0

    def __len__(self) -> int:
        return len(self._known)

    def answer(self, connection: Connection, frames: Frames, first: int, stop: int) -> int:
        """Respond to the first commit, if it is known (net.routes.Shortcut)."""
        buf, start, end = frames[first]
        try:
            pos = start + BODY_AT + buf[start + CLIENT_ID_BYTES_AT]
            stop = pos + buf[pos] + GENERATION_BYTES
            known = self._known.get(buf[start + WHOSE_AT : stop + buf[stop]])
        except IndexError:  # the request ends before its member id does
            return 0
        if known is None:
            return 0
        shape, group = known.shape, known.group
        if (
            shape is None
            or group.version != known.version
            or self._topics.deletions != known.deletions
            or known.identity is not connection.identity
        ):
            return 0
        numbers = shape.numbers(buf, pos, end)
        if numbers is None:
            return 0
        coordinator, actor = self._coordinator, known.actor
        now_ms = coordinator.now_ms()
        apply(group, known.member, shape.partitions, shape.read_numbers(buf, pos), now_ms)
        actor.append_offsets(ShapedRecords(shape, numbers), now_ms)
        correlation_id = int.from_bytes(buf[start + 4 : start + 8], "big", signed=True)
        context = RequestContext(connection, self._codec, correlation_id, NO_BODY)
        body = shape.answer
        if body is not known.answer:
            known.answer = body
            request = buf[pos:end]
            known.failure = partial(unavailable, self._codec, (request, 0, len(request)))
        response = actor.respond_with(context, body, known.failure)
        if response is not None:
            connection.line.answer(context, response)
        return 1

    def learn(self, context: RequestContext, request: OffsetCommitRequest, buf: bytes, start: int, end: int) -> None:
        """Store a commit that was accepted in full, if its repetition would be accepted, too."""
        actor = self._coordinator.actors.get(request.group_id)
        if actor is None or end - start > MAX_BYTES:
            return
        if buf[start + WHOSE_AT] or buf[start + BODY_AT - 1 + buf[start + CLIENT_ID_BYTES_AT]]:
            return  # a client id of 256 bytes or more, or of null; or a header with tags
        pos = start + BODY_AT + buf[start + CLIENT_ID_BYTES_AT]
        stop = pos + buf[pos] + GENERATION_BYTES
        whose = buf[start + WHOSE_AT : stop + buf[stop]]
        known = self._known.get(whose)
        if known is None or known.actor is not actor or known.group is not actor.group:
            if len(self._known) >= MAX_KNOWN and not self._make_room():
                return
            known = self._known[whose] = Known(actor)
        known.decoded += 1
        if not _is_repeatable(actor.group, request, self._codec.api_version):
            return
        shape = known.shape
        if shape is None or shape.numbers(buf, pos, end) is None or shape.topics != _topics(request):
            if known.decoded < 2 or known.decoded & (known.decoded - 1):
                return
            shape = CommitShape(request, self._codec.api_version)
            if shape.numbers(buf, pos, end) is None:
                return  # partly rejected, or not in the usual encoding
            known.shape = shape
        known.member = actor.group.members.get(request.member_id)
        known.version = actor.group.version
        known.deletions = self._topics.deletions
        known.identity = context.connection.identity

    def _make_room(self) -> bool:
        now_ms = self._coordinator.now_ms()
        if now_ms - self._began_ms < KEPT_MS:
            return False
        self._began_ms = now_ms
        self._known.clear()
        return True


def apply(
    group: Group,
    member: Member | None,
    topics: list[tuple[str, bytes, list[str]]],
    numbers: tuple[int, ...],
    now_ms: int,
) -> None:
    """Apply a commit that repeats an earlier one of the same partitions. The earlier one was accepted in full, and
    `group.version` has not changed since, so this one is valid, too: only its numbers and the time differ.

    `member` is the one that commits, or None. `topics`: (name, id, metadata of each partition). `numbers`: index,
    offset and leader epoch of each partition in turn. The caller logs the commit.
    """
    if member is not None:
        member.keep_alive(now_ms)
    each = iter(numbers)
    offsets = group.offsets
    for topic, topic_id, texts in topics:
        committed = offsets[topic]
        for metadata, index, offset, leader_epoch in zip(texts, each, each, each, strict=False):
            # Changed in place: a new value takes three times as long. Only the group refers to the old one.
            value = committed[index]
            value.offset = offset
            value.leader_epoch = leader_epoch
            value.metadata = metadata
            value.commit_timestamp = now_ms
            value.expire_timestamp = NO_TIMESTAMP
            value.topic_id = topic_id


def _is_repeatable(group: Group, request: OffsetCommitRequest, version: int) -> bool:
    """Return whether the group accepts such a commit while its version is unchanged: from a member while the group is
    Stable, or without a generation while it has no members.
    """
    generation_id = request.generation_id_or_member_epoch
    if group.consumer is not None:
        return group.pending is None and _fits(group, request) and _is_of_member_epoch(group.consumer, request, version)
    if group.pending is not None or commit_refusal(group, request, generation_id, ErrorCode.NONE) is not None:
        return False
    return _fits(group, request) and (group.state is STABLE or (group.state is EMPTY and generation_id < 0))


def _is_of_member_epoch(consumer: ConsumerGroup, request: OffsetCommitRequest, version: int) -> bool:
    """Return whether a consumer group accepts the commit whatever its partitions are: the commit has its member's
    member epoch, or no epoch while there are no members. Members of the consumer protocol need v9.
    """
    epoch, member = request.generation_id_or_member_epoch, consumer.members.get(request.member_id)
    if member is None:
        return epoch < 0 and not consumer.members
    return epoch == member.epoch and version >= 9


def _fits(group: Group, request: OffsetCommitRequest) -> bool:
    """Return whether the commit has a size for which there are shapes, and no metadata is too long."""
    partitions = [each for topic in request.topics for each in topic.partitions]
    if not 0 < len(partitions) <= MAX_PARTITIONS or _names_one_twice(request):
        return False
    limit = group.settings.offset_metadata_max_bytes
    return not any(metadata_is_too_long(each.committed_metadata or "", limit) for each in partitions)


def _names_one_twice(request: OffsetCommitRequest) -> bool:
    return any(
        len({each.partition_index for each in topic.partitions}) < len(topic.partitions) for topic in request.topics
    )


def _topics(request: OffsetCommitRequest) -> list[tuple[str, bytes]]:
    return [(topic.name, topic.topic_id) for topic in request.topics]


def _nothing() -> None:
    """Do nothing: the value of `failure` before the first response."""

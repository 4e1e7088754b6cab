"""Fetch sessions (KIP-227): a consumer names its partitions once, then only the changes. Pure.

A request is *full* (epoch 0 or -1: all partitions; 0 also requests a session) or *incremental* (a session's id and the
next epoch: partitions to add, change and forget). The response to an incremental request omits partitions without news.
Both sides count session epochs, so a lost request or response is detected and rejected with an error that makes the
client start again with a full request. A session is only an optimisation.

Kafka keeps max.incremental.fetch.session.cache.slots sessions. A new session replaces one that has been idle for two
minutes, or else the smallest one that is older than two minutes, if the new one is larger; otherwise no session is
created, which every client must accept. As in Kafka, a partition that had data moves to the end, so that the first
partitions cannot starve the last ones of a response's bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coordinatord.base.topic_names import is_topic_name
from kafka_wire.api.fetch import FetchableTopicResponse, FetchPartition, FetchRequest, PartitionData
from kafka_wire.errors import ErrorCode

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 0x7FFF_FFFF

EVICTABLE_AFTER_MS = 120_000
"""Time in ms after which a session may be replaced: idle for longer, or, if no session is, older at its last use.
Kafka's `MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS`.
"""

MAX_SESSION_PARTITIONS = 10_000
"""Maximum partitions of a session; the default of max.partitions is this number, too. Kafka has no limit."""

MAX_SESSION_BYTES = 64 * 1024 * 1024
"""Maximum bytes of all sessions together: some 200,000 partitions. Further requests get no session. Kafka has no limit,
and one client could create a thousand sessions of ten thousand partitions, which need not even exist."""

PARTITION_BYTES = 290
"""Memory in bytes for a partition of a session, besides its topic's name."""

TopicKey = str | bytes
"""A topic's name before v13, its id since then."""

PartitionKey = tuple[TopicKey, int]


def can_exist(topic: TopicKey) -> bool:
    """Return whether a topic can have this name or id. A partition of an impossible topic gets a response, but is in no
    session.
    """
    return isinstance(topic, bytes) or is_topic_name(topic)


def _bytes_of(key: PartitionKey) -> int:
    return PARTITION_BYTES + len(key[0])


@dataclass(slots=True)
class CachedPartition:
    """A partition in a fetch: the client's request for it, and the state that its session last returned."""

    request: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1

    def has_news(self, response: PartitionData) -> bool:
        """Return whether an incremental response must include the partition."""
        return bool(
            response.records
            or self.high_watermark != response.high_watermark
            or self.log_start_offset != response.log_start_offset
            or response.error_code
            or response.diverging_epoch.epoch >= 0
        )

    def store_sent(self, response: PartitionData) -> None:
        """Store the state that the client receives. An error response has a high watermark of -1: so the next response
        without the error differs and is sent.
        """
        self.high_watermark = response.high_watermark
        self.log_start_offset = response.log_start_offset


def next_epoch(epoch: int) -> int:
    """Return the session epoch of a session's next request: session epochs count up from 1 and wrap to 1."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == MAX_EPOCH else epoch + 1


class FetchSession:
    """One session. `epoch` is the session epoch expected in its next request."""

    __slots__ = ("bytes", "counted", "created_ms", "epoch", "partitions", "session_id", "used_ms", "uses_topic_ids")

    def __init__(
        self, session_id: int, partitions: dict[PartitionKey, CachedPartition], *, uses_topic_ids: bool, now_ms: int
    ) -> None:
        self.session_id = session_id
        self.partitions = partitions
        self.bytes = sum(map(_bytes_of, partitions))
        #: the part of `bytes` that FetchSessions has counted
        self.counted = self.bytes
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)

    def update(self, changed: dict[PartitionKey, CachedPartition], forgotten: list[PartitionKey]) -> None:
        """Apply an incremental request."""
        partitions = self.partitions
        for key, fetched in changed.items():
            known = partitions.get(key)
            if known is None:
                partitions[key] = fetched
                self.bytes += _bytes_of(key)
            else:
                known.request = fetched.request
        for key in forgotten:
            if partitions.pop(key, None) is not None:
                self.bytes -= _bytes_of(key)

    def store_sent(self, news: dict[PartitionKey, PartitionData]) -> None:
        """Store the state that the client receives. A partition with records moves to the end: the others come first in
        the next response. A partition that cannot exist leaves the session: its error is sent once.
        """
        partitions = self.partitions
        for key, data in news.items():
            if data.error_code and not can_exist(key[0]):
                del partitions[key]
                self.bytes -= _bytes_of(key)
                continue
            fetched = partitions[key]
            fetched.store_sent(data)
            if data.records:
                del partitions[key]
                partitions[key] = fetched


class FetchSessions:
    """The sessions of a node. `new_id` returns a random positive int32."""

    def __init__(self, slots: int, new_id: Callable[[], int]) -> None:
        self._slots = slots
        self._new_id = new_id
        # Ordered by last use, the longest idle first.
        self._by_id: dict[int, FetchSession] = {}
        #: of all sessions together
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def close(self, session_id: int) -> None:
        """Remove a session that the client has closed."""
        session = self._by_id.pop(session_id, None)
        if session is not None:
            self.bytes -= session.counted

    def grown(self, session: FetchSession) -> bool:
        """Count the partitions of a session that a request has changed. Return whether the session may be kept."""
        self.bytes += session.bytes - session.counted
        session.counted = session.bytes
        return len(session.partitions) <= MAX_SESSION_PARTITIONS and self.bytes <= MAX_SESSION_BYTES

    def find(self, session_id: int, epoch: int, *, uses_topic_ids: bool) -> FetchSession | ErrorCode:
        """Return the session of an incremental request, or the error that ends it."""
        session = self._by_id.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        return session

    def used(self, session: FetchSession, now_ms: int) -> None:
        """Note an accepted incremental request: the next one must have the next session epoch."""
        session.used_ms = now_ms
        session.epoch = next_epoch(session.epoch)
        self._by_id[session.session_id] = self._by_id.pop(session.session_id)

    def create(
        self, partitions: dict[PartitionKey, CachedPartition], *, uses_topic_ids: bool, now_ms: int
    ) -> FetchSession | None:
        """Create a session for the partitions of a full request, if there is room; None otherwise."""
        size = len(partitions)
        if size > MAX_SESSION_PARTITIONS:
            return None
        session = FetchSession(NO_SESSION, partitions, uses_topic_ids=uses_topic_ids, now_ms=now_ms)
        while len(self._by_id) >= self._slots or self.bytes + session.bytes > MAX_SESSION_BYTES:
            if not self._evict(size, now_ms):
                return None
        while session.session_id == NO_SESSION or session.session_id in self._by_id:
            session.session_id = self._new_id()
        self._by_id[session.session_id] = session
        self.bytes += session.bytes
        return session

    def _evict(self, size: int, now_ms: int) -> bool:
        """Make room for a session of `size` partitions; return whether that succeeded."""
        victim = next(iter(self._by_id.values()), None)
        if victim is None:
            return False
        if now_ms - victim.used_ms <= EVICTABLE_AFTER_MS:
            # Age at the last use: Kafka sorts sessions when they are used.
            old = [each for each in self._by_id.values() if each.used_ms - each.created_ms > EVICTABLE_AFTER_MS]
            victim = min(old, key=lambda each: (len(each.partitions), each.session_id), default=None)
            if victim is None or (size, 0) < (len(victim.partitions), victim.session_id):
                return False
        self.close(victim.session_id)
        return True


def partitions_of(request: FetchRequest, uses_topic_ids: bool) -> dict[PartitionKey, CachedPartition]:
    """Return the partitions of the request. If a partition is named twice, its last entry counts."""
    return {
        (topic.topic_id if uses_topic_ids else topic.topic, partition.partition): CachedPartition(partition)
        for topic in request.topics
        for partition in topic.partitions
    }


def grouped(read: dict[PartitionKey, PartitionData]) -> list[FetchableTopicResponse]:
    """Return the topics of a response: adjacent partitions of one topic together, since the order of partitions is part
    of the response.
    """
    responses: list[FetchableTopicResponse] = []
    last: TopicKey | None = None
    for (topic_key, _), data in read.items():
        if topic_key != last:
            last = topic_key
            if isinstance(topic_key, bytes):
                responses.append(FetchableTopicResponse("", topic_key, []))
            else:
                responses.append(FetchableTopicResponse(topic_key, partitions=[]))
        responses[-1].partitions.append(data)
    return responses


def forgotten_in(request: FetchRequest, uses_topic_ids: bool) -> list[PartitionKey]:
    """Return the partitions that an incremental request removes from its session."""
    return [
        (topic.topic_id if uses_topic_ids else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]

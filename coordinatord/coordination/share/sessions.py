"""Share sessions (KIP-932): a member names its partitions once, then only the changes. Pure.

A session belongs to a member of a group. Epoch 0 opens it, and replaces an earlier one; -1 ends it; every other request
has the session's next epoch, so a lost request is detected. Unlike fetch sessions, share sessions are not optional:
without one a member can neither acquire nor acknowledge. The end of a session releases what the member has acquired.

Kafka's counterparts are ShareSessionCache, ShareSession and SharePartitionManager.newContext.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kafka_wire.errors import ErrorCode

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 0x7FFF_FFFF

MAX_SESSION_PARTITIONS: Final = 2_000
"""Maximum partitions of a session: a fetch looks at all of them in one turn of the event loop. Kafka has no limit."""

MAX_SESSION_BYTES: Final = 64 * 1024 * 1024
"""Maximum bytes of all sessions together. Kafka has no limit."""

SESSION_BYTES: Final = 1_000
PARTITION_BYTES: Final = 250
"""Memory in bytes for a session besides its names, and for each of its partitions."""

PartitionKey = tuple[bytes, int]
"""A topic's id and a partition."""

SessionKey = tuple[str, str]
"""A group and a member."""


def next_epoch(epoch: int) -> int:
    """Return the session epoch of a session's next request: it wraps to 1 (ShareRequestMetadata.nextEpoch)."""
    return 1 if epoch == MAX_EPOCH else epoch + 1


class ShareSession:
    """A session. `partitions` has a flag for each partition: true if the next response includes it without news.
    `known_topics` has the topics that existed at an earlier fetch.
    """

    __slots__ = ("bytes", "epoch", "key", "known_topics", "partitions")

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.partitions: dict[PartitionKey, bool] = {}
        self.known_topics: set[bytes] = set()
        self.bytes = SESSION_BYTES + 4 * (len(key[0]) + len(key[1]))

    def select(self, news: Mapping[PartitionKey, tuple[bool, bool]]) -> list[PartitionKey]:
        """Return the partitions of the response: those with records or an error, and those that are new in the session.
        `news` is (whether there are records, whether there is an error). A partition with records moves to the end, so
        that the first ones cannot starve the others.
        """
        selected = []
        partitions = self.partitions
        for key, (has_records, has_error) in news.items():
            if key in partitions and (has_records or has_error or partitions[key]):
                selected.append(key)
                partitions[key] = has_error
                if has_records:
                    partitions[key] = partitions.pop(key)
        return selected


class ShareSessions:
    """The sessions of a node; at most `max_sessions`."""

    def __init__(self, max_sessions: int) -> None:
        self.max_sessions = max_sessions
        self._by_key: dict[SessionKey, ShareSession] = {}
        self._members: dict[str, int] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: SessionKey) -> ShareSession | None:
        """Return the session of a member."""
        return self._by_key.get(key)

    def has_members(self, group_id: str) -> bool:
        """Return whether a member of the group has a session."""
        return group_id in self._members

    def open(self, key: SessionKey, asked: Iterable[PartitionKey]) -> ShareSession | ErrorCode:
        """Open a session; an earlier one of the member ends without a release."""
        self.close(key)
        session = ShareSession(key)
        session.partitions = dict.fromkeys(asked, False)
        session.bytes += PARTITION_BYTES * len(session.partitions)
        if (
            len(self._by_key) >= self.max_sessions
            or len(session.partitions) > MAX_SESSION_PARTITIONS
            or self.bytes + session.bytes > MAX_SESSION_BYTES
        ):
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        self._by_key[key] = session
        self._members[key[0]] = self._members.get(key[0], 0) + 1
        self.bytes += session.bytes
        return session

    def advance(
        self, key: SessionKey, epoch: int, added: Iterable[PartitionKey] = (), forgotten: Iterable[PartitionKey] = ()
    ) -> ShareSession | ErrorCode:
        """Accept the next request of a session, with the changes of its partitions."""
        session = self._by_key.get(key)
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        new = {each: True for each in added if each not in session.partitions}
        size = PARTITION_BYTES * len(new)
        if len(session.partitions) + len(new) > MAX_SESSION_PARTITIONS or self.bytes + size > MAX_SESSION_BYTES:
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session.partitions |= new
        for each in forgotten:
            if session.partitions.pop(each, None) is not None:
                size -= PARTITION_BYTES
        session.bytes += size
        self.bytes += size
        session.epoch = next_epoch(session.epoch)
        return session

    def close(self, key: SessionKey) -> ShareSession | None:
        """Remove a session; returns it."""
        session = self._by_key.pop(key, None)
        if session is not None:
            self.bytes -= session.bytes
            left = self._members[key[0]] - 1
            if left:
                self._members[key[0]] = left
            else:
                del self._members[key[0]]
        return session

"""The ledger of redeliveries: which records of share groups were taken from a member, and why.

It observes the steps of share partitions. Its records are those of version 3 of the topic `__rebalances`
(kafka_wire/records/rebalance_ledger.py): what one member loses in one share partition by one cause is one record until
the writer of the ledger encodes it. The last RECENT of them stay in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import orjson

from coordinatord.coordination.share.leader import ShareKey, SharePartitionActor
from coordinatord.coordination.share.partition import events
from coordinatord.coordination.share.partition.events import AcknowledgeType
from coordinatord.coordination.share.partition.held import held
from coordinatord.coordination.share.partition.result import Result
from coordinatord.coordination.share.persister import AVAILABLE
from kafka_wire.errors import ErrorCode
from kafka_wire.records.rebalance_ledger import REDELIVERY_VERSION
from kafka_wire.records.rebalance_ledger import Redelivery as Cause

RECENT: Final = 2_000
"""Number of records that are kept in memory, some 500 bytes each."""


class Redelivery:
    """Records that one member has lost by one cause, in one share partition."""

    __slots__ = (
        "archived", "at_ms", "cause", "count", "delivery_count", "first_offset", "group_id", "last_offset", "member_id",
        "partition", "topic_id",
    )  # fmt: skip

    def __init__(self, key: ShareKey, member_id: str, cause: str, at_ms: int) -> None:
        self.group_id, self.topic_id, self.partition = key
        self.member_id = member_id
        self.cause = cause
        self.at_ms = at_ms
        self.first_offset = self.last_offset = -1
        self.count = self.archived = self.delivery_count = 0

    def add(self, first: int, last: int, delivery_count: int, *, archived: bool) -> None:
        """Add the records from `first` to `last`."""
        count = last - first + 1
        self.first_offset = first if self.first_offset < 0 else min(self.first_offset, first)
        self.last_offset = max(self.last_offset, last)
        self.count += count
        self.archived += count if archived else 0
        self.delivery_count = max(self.delivery_count, delivery_count)


Write = Callable[[Redelivery, Callable[[], bytes]], object]
"""Function that is called with a new record of the ledger, and a function that encodes it: called once, soon."""


class Redeliveries:
    """The ledger of a node: an Observer of share partitions."""

    def __init__(
        self, node_id: int, write: Write, topic_name: Callable[[bytes], str | None], now_ms: Callable[[], int]
    ) -> None:
        """`write` appends a record to the topic; `topic_name` returns the name of a topic by its id."""
        self.node_id = node_id
        self._write = write
        self._topic_name = topic_name
        self._now_ms = now_ms
        self._open: dict[tuple[ShareKey, str, str], Redelivery] = {}  # not encoded yet
        self._recent: deque[Redelivery] = deque(maxlen=RECENT)

    def before(self, actor: SharePartitionActor, event: events.Event) -> None:
        """Record the ends of locks: the step takes the records from their members."""
        if type(event) is not events.LockTimeout:
            return
        now_ms, limit = self._now_ms(), actor.share.limits.delivery_count_limit
        for each in held(actor.share):
            if each.deadline_ms <= now_ms:
                self._find(actor.key, each.member_id, Cause.LOCK_EXPIRED).add(
                    each.first, each.last, each.delivery_count, archived=each.delivery_count >= limit
                )

    def after(self, actor: SharePartitionActor, event: events.Event, result: Result) -> None:
        """Record releases, and renewals that were too late."""
        if isinstance(event, events.Release):
            self._released(actor.key, event.member_id, Cause.MEMBER_GONE, result)
        elif isinstance(event, events.Acknowledge):
            if result.error is ErrorCode.INVALID_RECORD_STATE:
                self._renewed_too_late(actor, event)
            else:
                self._released(actor.key, event.member_id, Cause.RELEASED, result)

    def recent(self, group_id: str) -> list[dict[str, Any]]:
        """Return the last records of a group, oldest first."""
        return [self._record_of(each) for each in self._recent if each.group_id == group_id]

    def _released(self, key: ShareKey, member_id: str, cause: str, result: Result) -> None:
        """Record the batches of a write that are available again; of a session that has ended also the others."""
        for first, last, state, delivery_count in () if result.write is None else result.write.batches:
            if state == AVAILABLE or cause == Cause.MEMBER_GONE:
                found = self._find(key, member_id, cause)
                found.add(first, last, delivery_count, archived=state != AVAILABLE)

    def _renewed_too_late(self, actor: SharePartitionActor, event: events.Acknowledge) -> None:
        own = [each for each in held(actor.share) if each.member_id == event.member_id]
        for asked in event.batches:
            is_own = any(each.first <= asked.first and asked.last <= each.last for each in own)
            if AcknowledgeType.RENEW in asked.types and not is_own:
                self._find(actor.key, event.member_id, Cause.RENEWED_TOO_LATE).add(
                    asked.first, asked.last, 0, archived=False
                )

    def _find(self, key: ShareKey, member_id: str, cause: str) -> Redelivery:
        found = self._open.get((key, member_id, cause))
        if found is None:
            found = self._open[key, member_id, cause] = Redelivery(key, member_id, cause, self._now_ms())
            self._recent.append(found)
            self._write(found, lambda: self._finish(key, member_id, cause))
        return found

    def _finish(self, key: ShareKey, member_id: str, cause: str) -> bytes:
        return orjson.dumps(self._record_of(self._open.pop((key, member_id, cause))))

    def _record_of(self, found: Redelivery) -> dict[str, Any]:
        return {
            "version": REDELIVERY_VERSION,
            "group": found.group_id,
            "node_id": self.node_id,
            "group_type": "share",
            "cause": found.cause,
            "member_id": found.member_id,
            "topic": self._topic_name(found.topic_id),
            "partition": found.partition,
            "first_offset": found.first_offset,
            "last_offset": found.last_offset,
            "count": found.count,
            "archived": found.archived,
            "delivery_count": found.delivery_count,
            "at_ms": found.at_ms,
        }

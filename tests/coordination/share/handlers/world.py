"""Share groups on embedded topics: the handlers of ShareFetch and ShareAcknowledge, with a persister in memory whose
calls end when the test says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from coordinatord.coordination.share.apis.acknowledge import ShareAcknowledges
from coordinatord.coordination.share.apis.fetch import ShareFetches
from coordinatord.coordination.share.apis.leaders import Leaders
from coordinatord.coordination.share.leader import EARLIEST, SharePartitions
from coordinatord.coordination.share.members import ShareMembers
from coordinatord.coordination.share.partition.state import Limits
from coordinatord.coordination.share.persister import (
    PartitionError,
    PartitionState,
    ReadPartition,
    StateBatch,
    WritePartition,
)
from coordinatord.coordination.share.sessions import ShareSessions
from kafka_wire.api import share_acknowledge, share_fetch
from kafka_wire.errors import ErrorCode
from tests.broker.topics.world import Context, World

FETCH, ACKNOWLEDGE = 78, 79
FETCH_VERSION = ACKNOWLEDGE_VERSION = 2


class Persister:
    """The state of share partitions in a dict. Calls wait for `end` unless `is_prompt`."""

    def __init__(self) -> None:
        self.states: dict[tuple[str, bytes, int], PartitionState] = {}
        self.written: list[WritePartition] = []
        self.waiting: list[Callable[[], object]] = []
        self.is_prompt = True
        self.error = ErrorCode.NONE

    def read(self, group_id: str, partitions: Sequence[ReadPartition], done: Any) -> None:
        [asked] = partitions
        key = group_id, asked.topic_id, asked.partition
        state = self.states.get(key, PartitionState(asked.topic_id, asked.partition))
        self._end(lambda: done([state._replace(error=self.error)]))

    def write(self, group_id: str, partitions: Sequence[WritePartition], done: Any) -> None:
        [change] = partitions
        self.written.append(change)

        def end() -> None:
            if not self.error:
                self._keep(group_id, change)
            done([PartitionError(change.topic_id, change.partition, self.error)])

        self._end(end)

    def _keep(self, group_id: str, change: WritePartition) -> None:
        key = group_id, change.topic_id, change.partition
        known = self.states.get(key, PartitionState(change.topic_id, change.partition))
        offsets = {
            each: batch for batch in known.state_batches for each in range(batch.first_offset, batch.last_offset + 1)
        }
        for batch in change.state_batches:
            offsets |= dict.fromkeys(range(batch.first_offset, batch.last_offset + 1), batch)
        batches = [
            StateBatch(each, each, *offsets[each][2:]) for each in sorted(offsets) if each >= change.start_offset
        ]
        self.states[key] = known._replace(start_offset=change.start_offset, state_batches=batches)

    def _end(self, end: Callable[[], object]) -> None:
        self.waiting.append(end)
        if self.is_prompt:
            self.end()

    def end(self) -> None:
        """End all calls."""
        while self.waiting:
            self.waiting.pop(0)()

    def initialize(self, *_: Any) -> None:
        raise AssertionError

    delete = read_summary = initialize


class ShareSettings:
    """The settings of all groups of a test."""

    def __init__(self) -> None:
        self.of_group = Limits()
        self.timestamp = EARLIEST
        self.committed = False

    def limits(self, _group_id: str) -> Limits:
        return self.of_group

    def reset_timestamp(self, _group_id: str, _now_ms: int) -> int:
        return self.timestamp

    def reads_committed(self, _group_id: str) -> bool:
        return self.committed


class Timers:
    """The timers of a coordinator, on those of the world."""

    def __init__(self, world: World) -> None:
        self.world = world

    def schedule(self, _key: Any, _deadline_ms: int) -> None:
        raise AssertionError

    def cancel(self, _key: Any) -> None:
        raise AssertionError

    def alarm(self, deadline_ms: int, callback: Callable[[], object]) -> Any:
        return self.world.schedule_at(deadline_ms, callback)


class ShareWorld(World):
    """Topics with share groups."""

    def open(self) -> None:
        super().open()
        self.persister = Persister()
        self.groups = ShareSettings()
        self.partitions = SharePartitions(self.groups, self.persister, Timers(self), lambda: self.time_ms)
        self.sessions = ShareSessions(2_000)
        members = ShareMembers(self.sessions, self.partitions)
        catalogue = self.topics.catalogue
        leaders = Leaders(catalogue, self.nodes())
        self.leads = True
        self.fetches = ShareFetches(
            self.settings, catalogue, leaders, members, lambda: self.time_ms, self.schedule_at, lambda: self.leads
        )
        self.topics.on_deleted(self.partitions.remove_topic)
        self.handlers |= self.fetches.handlers() | ShareAcknowledges(catalogue, leaders, members).handlers()


class Member:
    """A member of a share group: it counts its session epochs."""

    def __init__(self, world: ShareWorld, topic_id: bytes, name: str = "m", group: str = "g") -> None:
        self.world = world
        self.topic_id = topic_id
        self.name = name
        self.group = group
        self.epoch = 0
        self.fields: dict[str, Any] = {}
        self.connection: Any = None

    def ask(
        self, *partitions: int, acks: Sequence[tuple[int, int, int, list[int]]] = (), epoch: int | None = None,
        wait_ms: int = 0, min_bytes: int = 1, max_records: int = 500, forgotten: Sequence[int] = (), version: int = 2,
        **fields: Any,
    ) -> Context:  # fmt: skip
        """Send a ShareFetch. `acks` are (partition, first offset, last offset, types)."""
        batches: dict[int, list[share_fetch.AcknowledgementBatch]] = {partition: [] for partition in partitions}
        for partition, first, last, types in acks:
            batches.setdefault(partition, []).append(share_fetch.AcknowledgementBatch(first, last, types))
        topics = [share_fetch.FetchPartition(partition, found) for partition, found in batches.items()]
        asked: dict[str, Any] = {
            "group_id": self.group, "member_id": self.name, "share_session_epoch": self._next(epoch),
            "max_wait_ms": wait_ms, "min_bytes": min_bytes, "max_records": max_records, "batch_size": 500,
            "topics": [share_fetch.FetchTopic(self.topic_id, topics)] if topics else [],
            "forgotten_topics_data": [share_fetch.ForgottenTopic(self.topic_id, list(forgotten))] if forgotten else [],
            **fields,
        }  # fmt: skip
        context = self.world.send(FETCH, version, share_fetch.ShareFetchRequest(**asked))
        self.connection = context.connection
        return context

    def fetch(self, *partitions: int, **options: Any) -> share_fetch.ShareFetchResponse:
        """Return the response, which does not wait."""
        context = self.ask(*partitions, **options)
        assert context.answers == 1
        response: share_fetch.ShareFetchResponse = context.response
        return response

    def send_acks(
        self, *acks: tuple[int, int, int, list[int]], epoch: int | None = None, version: int = 2, **fields: Any
    ) -> Context:
        """Send a ShareAcknowledge."""
        batches: dict[int, list[share_acknowledge.AcknowledgementBatch]] = {}
        for partition, first, last, types in acks:
            batches.setdefault(partition, []).append(share_acknowledge.AcknowledgementBatch(first, last, types))
        topics = [share_acknowledge.AcknowledgePartition(partition, found) for partition, found in batches.items()]
        asked: dict[str, Any] = {
            "group_id": self.group, "member_id": self.name, "share_session_epoch": self._next(epoch),
            "topics": [share_acknowledge.AcknowledgeTopic(self.topic_id, topics)] if topics else [], **fields,
        }  # fmt: skip
        return self.world.send(ACKNOWLEDGE, version, share_acknowledge.ShareAcknowledgeRequest(**asked))

    def _next(self, epoch: int | None) -> int:
        if epoch is not None:
            return epoch
        self.epoch += 1
        return self.epoch - 1


def acquired(response: share_fetch.ShareFetchResponse) -> list[tuple[int, int, int, int]]:
    """(partition, first offset, last offset, delivery count)."""
    return [
        (data.partition_index, each.first_offset, each.last_offset, each.delivery_count)
        for topic in response.responses
        for data in topic.partitions
        for each in data.acquired_records
    ]


def errors(response: Any) -> dict[int, int]:
    """Errors of partitions, without 0."""
    assert response.error_code == 0
    return {
        data.partition_index: data.error_code
        for topic in response.responses
        for data in topic.partitions
        if data.error_code
    }


def ack_errors(response: share_fetch.ShareFetchResponse) -> dict[int, int]:
    """Errors of acknowledgements in a ShareFetch, of the partitions in the response."""
    assert response.error_code == 0
    return {
        data.partition_index: data.acknowledge_error_code for topic in response.responses for data in topic.partitions
    }

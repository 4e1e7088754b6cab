"""Fetch v4-v18: read records, or wait when there are none to read.

    fetch        resolves the session: the partitions of this request (fetch_sessions.py)
      _PendingFetch     one request: its partitions, existing and unknown ones
        outlook  on an error or enough to read:
        read     the batches, within max_bytes and partition_max_bytes
      otherwise the request is parked with every partition, until records become visible there or max_wait_ms has passed
        wake     records may have become visible: respond if there are enough

As in Kafka, the first batch of a response is returned however large it is, so that a consumer always makes progress;
unknown partitions do not end the wait for existing ones; and any error of an existing partition, and a log that has
lost records which the reader has (KIP-595's diverging epoch), ends the wait at once.
Batches are returned whole: Kafka may cut the last one, which consumers must tolerate, but need not receive.

With read_committed a partition ends at its last stable offset, and the response lists the aborted transactions in its
range, for the consumer to skip. Markers are returned like other batches; consumers skip them.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from coordinatord.base.budget import SLICE_COSTLY_ITEMS
from coordinatord.base.config import Settings
from coordinatord.broker.log.large_read import LARGE_READ_BYTES, LargeRead
from coordinatord.broker.topics.aborted import next_offset
from coordinatord.broker.topics.catalogue import Catalogue
from coordinatord.broker.topics.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    CachedPartition,
    FetchSession,
    FetchSessions,
    PartitionKey,
    can_exist,
    forgotten_in,
    grouped,
    partitions_of,
)
from coordinatord.broker.topics.partition import UNREADABLE, Partition
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, TaskSteps, begun, run_through
from kafka_wire.api.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.message_parts import MIN_KEPT_BYTES
from kafka_wire.records.batch import iterate_batches
from kafka_wire.schema import absent

if TYPE_CHECKING:
    from coordinatord.transport.net.request import RequestContext

READ_COMMITTED = 1

LOOK_AFTER_MS = 30_000
"""Interval at which a parked request checks that its client is still connected: max_wait_ms may be 24 days."""

# Defaults of tagged fields, shared by all responses and never modified.
_NO_DIVERGENCE = absent(EpochEndOffset)
_NO_LEADER = absent(LeaderIdAndEpoch)
_NO_SNAPSHOT = absent(SnapshotId)


class Cancellable(Protocol):
    """A scheduled call, as `schedule_at` returns it."""

    def cancel(self) -> object: ...


ScheduleAt = Callable[[int, Callable[[], object]], Cancellable]


class FetchRequestHandler:
    """The handler of Fetch requests."""

    def __init__(
        self,
        settings: Settings,
        catalogue: Catalogue,
        nodes: Nodes,
        sessions: FetchSessions,
        now_ms: Callable[[], int],
        schedule_at: ScheduleAt,
    ) -> None:
        self.catalogue = catalogue
        self.nodes = nodes
        self.sessions = sessions
        self.now_ms = now_ms
        self.schedule_at = schedule_at
        self.fetch_max_bytes = settings.fetch_max_bytes
        self.parked: dict[_PendingFetch, None] = {}

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key."""
        return {ApiKey.FETCH: self.fetch}

    def drain(self) -> None:
        """Respond to every parked fetch with the records available, because the daemon is stopping."""
        for waiting in list(self.parked):
            run_through(waiting.finishing())

    def fetch(self, context: RequestContext, request: FetchRequest) -> FetchResponse | CooperativeTask | None:
        """Return the response, its steps, or None when the request is parked or the response is already sent."""
        uses_topic_ids = context.api_version >= 13
        asked = partitions_of(request, uses_topic_ids)
        session: FetchSession | None = None
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != NO_SESSION:
                self.sessions.close(request.session_id)
            partitions = asked
        else:
            found = self.sessions.find(request.session_id, request.session_epoch, uses_topic_ids=uses_topic_ids)
            if isinstance(found, ErrorCode):
                return FetchResponse(error_code=found)
            found.update(asked, forgotten_in(request, uses_topic_ids))
            may_stay = self.sessions.grown(found)
            if not found.partitions:
                self.sessions.close(found.session_id)
                partitions = asked
            elif not may_stay:
                self.sessions.close(found.session_id)
                return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            else:
                self.sessions.used(found, self.now_ms())
                session, partitions = found, found.partitions
        return _PendingFetch(self, context, request, partitions, session).begin()


class _PendingFetch:
    """One request in progress."""

    __slots__ = (
        "_deadline_ms", "_has_news", "_is_due", "_is_large", "_names_leaders", "_parked_bytes", "_session_epoch",
        "_timer", "committed_only", "context", "fetching", "is_follower", "max_bytes", "min_bytes", "missing",
        "partitions", "present", "request", "session",
    )  # fmt: skip

    def __init__(
        self,
        fetching: FetchRequestHandler,
        context: RequestContext,
        request: FetchRequest,
        partitions: dict[PartitionKey, CachedPartition],
        session: FetchSession | None,
    ) -> None:
        self.fetching = fetching
        self.context = context
        self.request = request
        self.partitions = partitions
        self.session = session
        self._session_epoch = session.epoch if session is not None else 0
        self.max_bytes = min(request.max_bytes, fetching.fetch_max_bytes)
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        replica_id = request.replica_state.replica_id if context.api_version >= 15 else request.replica_id
        self.is_follower = replica_id >= 0
        self.committed_only = request.isolation_level == READ_COMMITTED
        self._timer: Cancellable | None = None
        self._deadline_ms = 0
        self._is_due = False
        #: result of the last `read`: records or an error; records too large to be copied; leaders on other nodes
        self._has_news = self._is_large = self._names_leaders = False
        self._parked_bytes: dict[PartitionKey, int] = {}
        self.present: list[tuple[PartitionKey, FetchPartition, Partition]] = []
        self.missing: list[tuple[PartitionKey, ErrorCode]] = []
        self._resolve()

    def _resolve(self) -> None:
        catalogue = self.fetching.catalogue
        uses_topic_ids = self.context.api_version >= 13
        admitted = self.context.admitted
        may_read = None if admitted is None else admitted.may
        for key, fetched in self.partitions.items():
            topic_key, index = key
            topic = catalogue.by_id.get(topic_key) if uses_topic_ids else catalogue.by_name.get(topic_key)  # type: ignore[arg-type]  # bytes since v13
            if may_read is not None and not _may_read(may_read, topic_key):
                self.missing.append((key, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif topic is None:
                self.missing.append(
                    (key, ErrorCode.UNKNOWN_TOPIC_ID if uses_topic_ids else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                )
            elif 0 <= index < len(topic.partitions):
                self.present.append((key, fetched.request, topic.partitions[index]))
            else:
                self.missing.append((key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

    def begin(self) -> CooperativeTask | None:
        """Respond, or park the request when there is nothing to return yet."""
        return begun(self._begin())

    def _begin(self) -> TaskSteps:
        if len(self.partitions) > SLICE_COSTLY_ITEMS:
            yield None
        if self.request.max_wait_ms <= 0 or not self.present or self.min_bytes <= 0:
            yield from self.answer((yield from self.read()))
            return
        has_error, has_data = self.outlook()
        if has_error or (has_data and self.min_bytes == 1):
            yield from self.answer((yield from self.read()))
            return
        found: dict[PartitionKey, PartitionData] = {}
        if has_data:
            found = yield from self.read()
            if sum(len(data.records or b"") for data in found.values()) >= self.min_bytes:
                yield from self.answer(found)
                return
        self.park(found)

    def outlook(self) -> tuple[bool, bool]:
        """Return (whether a partition has an error, whether a partition has records to read)."""
        has_data = False
        committed_only = self.committed_only
        try:
            for _key, asked, partition in self.present:
                if partition.hinders(asked, is_follower=self.is_follower) is not None:
                    return True, False
                end_offset = partition.last_stable_offset if committed_only else partition.log.high_watermark
                if asked.fetch_offset < end_offset:
                    has_data = True
        except UNREADABLE:  # `read` reports the error
            return True, False
        return False, has_data

    # Waiting

    def park(self, found: dict[PartitionKey, PartitionData]) -> None:
        """Wait for more records or the timeout. `found`: the records read so far, fewer than min_bytes."""
        now_ms = self.fetching.now_ms()
        self._deadline_ms = now_ms + self.request.max_wait_ms
        if self.min_bytes > 1:
            for key, _asked, partition in self.present:
                data = found.get(key)
                readable = len(data.records or b"") if data is not None else 0
                self._parked_bytes[key] = readable - partition.log.visible_bytes
        for _key, _asked, partition in self.present:
            partition.wait(self, self.wake)
        self.fetching.parked[self] = None
        self._set_timer(now_ms)

    def _set_timer(self, now_ms: int) -> None:
        at_ms = min(self._deadline_ms, now_ms + LOOK_AFTER_MS)
        self._timer = self.fetching.schedule_at(at_ms, self._time_is_up)

    def _time_is_up(self) -> None:
        now_ms = self.fetching.now_ms()
        if now_ms >= self._deadline_ms or self.context.closed:
            self.finish()
        else:
            self._set_timer(now_ms)

    def wake(self) -> None:
        """Check for enough records after a partition has changed. With many partitions the check is a cooperative task:
        one change may wake a hundred requests.
        """
        if self.context.closed:
            self.finish()
        elif len(self.present) <= SLICE_COSTLY_ITEMS:
            if self.min_bytes == 1 and len(self.present) == 1:  # its only partition has most probably something
                if not self._is_due:
                    self._go_on(self._read_only())
            elif self.has_enough():
                self.finish()
        elif not self._is_due:
            self._is_due = True
            self.context.go_on(CooperativeTask(self._look()))

    def _read_only(self) -> TaskSteps:
        """Read the only partition, and respond if there is something."""
        self._is_due = True
        found = yield from self.read()
        self._is_due = False
        if self._has_news:
            self._leave()
            yield from self.answer(found)

    def _look(self) -> TaskSteps:
        self._is_due = False
        if not self.context.done and self.has_enough():
            yield from self.finishing()

    def _go_on(self, steps: TaskSteps) -> None:
        if (slices := begun(steps)) is not None:
            self.context.go_on(slices)

    def has_enough(self) -> bool:
        """Return whether to respond now: min_bytes is reached or a partition has an error."""
        has_error, has_data = self.outlook()
        if has_error or self.min_bytes == 1:
            return has_error or has_data
        readable = 0
        for key, asked, partition in self.present:
            if self.committed_only and asked.fetch_offset >= partition.last_stable_offset:
                continue
            # The bytes readable when the request was parked, and the bytes that became visible since.
            grown = self._parked_bytes[key] + partition.log.visible_bytes
            readable += max(0, min(grown, asked.partition_max_bytes))
        return readable >= self.min_bytes

    def finish(self) -> None:
        """Respond with the records available, after a pause if they are many."""
        self._go_on(self.finishing())

    def finishing(self) -> TaskSteps:
        """Respond with the records available."""
        self._leave()
        if self.context.closed:
            self.context.reply(FetchResponse())  # never read, but the connection must learn that the request has ended
        else:
            yield from self.answer((yield from self.read()))

    def _leave(self) -> None:
        """Stop waiting: remove the request from its partitions and cancel its timer."""
        for _key, _asked, partition in self.present:
            partition.forget(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.fetching.parked.pop(self, None)

    # Reading

    def read(self) -> TaskSteps:
        """Return the response for every partition, in order; unknown partitions last."""
        self._has_news = self._is_large = self._names_leaders = False
        is_long, unpaused = len(self.partitions) > SLICE_COSTLY_ITEMS, 0
        left, at_least_one = min(self.max_bytes, self.context.room), True
        read: dict[PartitionKey, PartitionData] = {}
        for key, asked, partition in self.present:
            if is_long:
                yield None
            hindrance = partition.hinders(asked, is_follower=self.is_follower)
            diverging = _NO_DIVERGENCE
            if hindrance is not None:
                if isinstance(hindrance, ErrorCode):
                    read[key] = self._refusal(asked.partition, hindrance, partition)
                    continue
                diverging = EpochEndOffset(*hindrance)
                self._has_news = True
            log = partition.log
            data: bytes | memoryview = b""
            try:
                stable_offset = partition.last_stable_offset
                end_offset = stable_offset if self.committed_only else log.high_watermark
                if asked.fetch_offset < end_offset and hindrance is None:
                    limit = max(0, min(asked.partition_max_bytes, left))
                    if limit or at_least_one:
                        found = log.begin_read(asked.fetch_offset, limit, at_least_one=at_least_one)
                        data = (yield from found.steps()) if isinstance(found, LargeRead) else found
                        if end_offset < log.high_watermark:
                            data = _below(data, end_offset)
                wants_aborted = self.committed_only and hindrance is None
                aborted = self._aborted(asked, partition, data) if wants_aborted else None
            except UNREADABLE as failure:
                # The caller of `wake`, such as the log's writer, must continue: only this partition is unreadable.
                read[key] = self._refusal(asked.partition, partition.cannot_read(failure), partition)
                continue
            if data:
                at_least_one = False
                size = len(data)
                left = max(0, left - size)
                unpaused += size
                if unpaused > LARGE_READ_BYTES:
                    unpaused = 0
                    yield None
                self._has_news = True
                self._is_large |= size >= MIN_KEPT_BYTES
            read[key] = PartitionData(
                asked.partition, 0, log.high_watermark, stable_offset, log.log_start_offset, diverging, _NO_LEADER,
                _NO_SNAPSHOT, aborted, -1, data,
            )  # fmt: skip
        for key, error in self.missing:
            if is_long:
                yield None
            read[key] = PartitionData(key[1], error, -1, records=b"")
        if is_long:
            yield None
        return read

    @staticmethod
    def _aborted(asked: FetchPartition, partition: Partition, data: bytes | memoryview) -> list[AbortedTransaction]:
        if not data or not partition.has_aborted:
            return []
        aborted = partition.aborted_transactions(asked.fetch_offset, next_offset(data))
        return [AbortedTransaction(each.producer_id, each.first_offset) for each in aborted]

    def _refusal(self, index: int, error: ErrorCode, partition: Partition) -> PartitionData:
        self._has_news = True
        data = PartitionData(index, error, -1, aborted_transactions=None, records=b"")
        if self.context.api_version >= 16 and error in (
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ):
            # KIP-951: the response includes the leader, so that the client need not request metadata.
            self._names_leaders = True
            data.current_leader = LeaderIdAndEpoch(partition.leader_id, partition.log.leader_epoch)
        return data

    # Responding

    def answer(self, read: dict[PartitionKey, PartitionData]) -> TaskSteps:
        """Send the response for `read`, unless one was sent while it was read, since the time was up."""
        if self.context.done:
            return
        response = self.respond(read)
        if len(read) > SLICE_COSTLY_ITEMS:
            yield None
        if self._is_large:
            self.context.reply_in_parts(response)
        else:
            self.context.reply_alone(response, perf_counter())

    def respond(self, read: dict[PartitionKey, PartitionData]) -> FetchResponse:
        """Build the response for `read`, and update the session or create one. A throttled client gets an empty
        response, so that its session does not change (Kafka's FetchContext.getThrottledResponse).
        """
        session = self.session
        if session is None:
            endpoints = self._endpoints(read) if self._names_leaders else []
            response = FetchResponse(0, 0, NO_SESSION, grouped(read), endpoints)
            amended: FetchResponse = self.context.amended(response)
            if self.request.session_epoch == INITIAL_EPOCH and not amended.throttle_time_ms:
                amended.session_id = self._new_session(read)
            return amended
        if session.epoch != self._session_epoch:
            return FetchResponse(0, ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.session_id)
        partitions = session.partitions
        news = {key: data for key, data in read.items() if key in partitions and partitions[key].has_news(data)}
        endpoints = self._endpoints(news) if self._names_leaders else []
        response = FetchResponse(0, 0, session.session_id, grouped(news), endpoints)
        amended = self.context.amended(response)
        if not amended.throttle_time_ms:
            session.store_sent(news)
        return amended

    def _new_session(self, read: dict[PartitionKey, PartitionData]) -> int:
        if self.context.api_version < 7:
            return NO_SESSION
        partitions = {}
        for key, data in read.items():
            if not data.error_code or can_exist(key[0]):
                fetched = self.partitions[key]
                fetched.store_sent(data)
                partitions[key] = fetched
        if read and not partitions:
            return NO_SESSION
        fetching = self.fetching
        session = fetching.sessions.create(
            partitions, uses_topic_ids=self.context.api_version >= 13, now_ms=fetching.now_ms()
        )
        return session.session_id if session is not None else NO_SESSION

    def _endpoints(self, read: dict[PartitionKey, PartitionData]) -> list[NodeEndpoint]:
        leaders = {data.current_leader.leader_id for data in read.values() if data.current_leader.leader_id >= 0}
        nodes = self.fetching.nodes.select(leaders, self.context.listener)
        return [NodeEndpoint(node.node_id, node.host, node.port, node.rack) for node in nodes]


def _may_read(may_read: Callable[[str | None, bytes], bool], topic: str | bytes) -> bool:
    return may_read(None, topic) if isinstance(topic, bytes) else may_read(topic, b"")


def _below(data: bytes | memoryview, end_offset: int) -> bytes | memoryview:
    """Return the batches that begin below `end_offset`, copied if there are later ones, which are then freed."""
    for at, header in iterate_batches(data):
        if header.base_offset >= end_offset:
            return bytes(data[:at])
    return data

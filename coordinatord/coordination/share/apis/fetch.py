"""ShareFetch v1-v2: acquire records, or wait when there are none to acquire; with acknowledgements of earlier ones.

    fetch          checks the request and its session
      _PendingShareFetch       one request; with many acknowledgements in slices
        acknowledgements       applied first; the response waits for their writes
        try_complete           acquires if there is enough to read; otherwise the request is parked with every topic
                               partition and share partition, until one of them changes or max_wait_ms has passed
        respond                both parts are there

As in Kafka (DelayedShareFetch), a request with RENEW acquires nothing, and one that ends the session neither.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from coordinatord.base.config import Settings
from coordinatord.broker.topics.catalogue import Catalogue
from coordinatord.broker.topics.fetch import LOOK_AFTER_MS, Cancellable, ScheduleAt
from coordinatord.broker.topics.partition import UNREADABLE, Partition
from coordinatord.coordination.share.apis.acknowledgements import (
    MAX_AT_ONCE,
    RENEW_VERSION,
    Acknowledging,
    Outcomes,
    refuses,
    served,
)
from coordinatord.coordination.share.apis.leaders import Leaders
from coordinatord.coordination.share.apis.reading import Batches, end_offset, read
from coordinatord.coordination.share.leader import ShareError, SharePartitionActor
from coordinatord.coordination.share.members import ShareMembers
from coordinatord.coordination.share.partition.events import Acquire, MoveLogStart
from coordinatord.coordination.share.partition.window import can_acquire, next_fetch_offset
from coordinatord.coordination.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, PartitionKey, ShareSession
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, TaskSteps
from kafka_wire.api.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.message_parts import MIN_KEPT_BYTES

if TYPE_CHECKING:
    from coordinatord.transport.net.request import RequestContext

RECORD_LIMIT: Final = 1
"""The acquire mode record_limit (KIP-1206)."""

Ready = list[tuple[PartitionKey, Partition, SharePartitionActor]]


class ShareFetches:
    """The handler of ShareFetch."""

    def __init__(
        self,
        settings: Settings,
        catalogue: Catalogue,
        leaders: Leaders,
        members: ShareMembers,
        now_ms: Callable[[], int],
        schedule_at: ScheduleAt,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        """`leads` returns whether this node still leads its partitions: otherwise another one may deliver records."""
        self.catalogue = catalogue
        self.leaders = leaders
        self.members = members
        self.now_ms = now_ms
        self.schedule_at = schedule_at
        self.leads = leads
        self.fetch_max_bytes = settings.fetch_max_bytes
        self.parked: dict[_PendingShareFetch, None] = {}

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key."""
        return {ApiKey.SHARE_FETCH: self.fetch}

    def drain(self) -> None:
        """Respond to every parked request without records, because the daemon is stopping."""
        for waiting in list(self.parked):
            waiting.finish(acquires=False)

    def fetch(self, context: RequestContext, request: ShareFetchRequest) -> Any:
        """Return an error response; None when the request is parked or the response is already sent; the slices of a
        request with many acknowledgements, or of a session with many partitions.
        """
        group_id, member_id = request.group_id, request.member_id
        if group_id is None or member_id is None or refuses(group_id, member_id):
            return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
        is_renewal = request.is_renew_ack and context.api_version >= RENEW_VERSION
        if is_renewal and (request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms):
            return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
        acknowledges = any(
            partition.acknowledgement_batches for topic in request.topics for partition in topic.partitions
        )
        session = self._session(context, request, (group_id, member_id), acknowledges=acknowledges)
        if isinstance(session, ErrorCode):
            response = ShareFetchResponse(error_code=session)
            if session != ErrorCode.SHARE_SESSION_LIMIT_REACHED or request.max_wait_ms <= 0:
                return response
            # The client would try again at once.
            self.schedule_at(self.now_ms() + request.max_wait_ms, lambda: context.reply(response))
            return None
        pending = _PendingShareFetch(self, context, request, (group_id, member_id), session)
        steps = pending.steps(acknowledges=acknowledges)
        if len(session.partitions) > MAX_AT_ONCE:
            return CooperativeTask(steps, is_change=True)
        return served(request.topics if acknowledges else (), steps)

    def _session(
        self, context: RequestContext, request: ShareFetchRequest, key: tuple[str, str], *, acknowledges: bool
    ) -> ShareSession | ErrorCode:
        sessions = self.members.sessions
        epoch = request.share_session_epoch
        if epoch == FINAL_EPOCH:
            return sessions.get(key) or ErrorCode.SHARE_SESSION_NOT_FOUND
        asked = [(topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions]
        if epoch != INITIAL_EPOCH:
            forgotten = [(topic.topic_id, each) for topic in request.forgotten_topics_data for each in topic.partitions]
            return sessions.advance(key, epoch, asked, forgotten)
        if acknowledges:
            return ErrorCode.INVALID_REQUEST
        session = sessions.open(key, asked)
        if isinstance(session, ShareSession):
            self.members.opened(session, context.connection)
        return session


class _PendingShareFetch:
    """One request in progress."""

    __slots__ = (
        "_deadline_ms", "_is_large", "_known_bytes", "_session_epoch", "_timer", "acknowledged", "committed_only",
        "context", "errors", "fetched", "handler", "key", "max_bytes", "min_bytes", "present", "request", "session",
    )  # fmt: skip

    def __init__(
        self,
        handler: ShareFetches,
        context: RequestContext,
        request: ShareFetchRequest,
        key: tuple[str, str],
        session: ShareSession,
    ) -> None:
        self.handler = handler
        self.context = context
        self.request = request
        self.key = key
        self.session = session
        self._session_epoch = session.epoch
        self.max_bytes = min(request.max_bytes, handler.fetch_max_bytes)
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        self.committed_only = handler.members.partitions.settings.reads_committed(key[0])
        self.present: Ready = []
        self.errors: dict[PartitionKey, ShareError] = {}
        #: None until the acknowledgements are persisted
        self.acknowledged: Outcomes | None = None
        #: None until records are acquired, or there are none in time
        self.fetched: dict[PartitionKey, PartitionData] | None = None
        self._timer: Cancellable | None = None
        self._deadline_ms = 0
        self._is_large = False
        #: by partition: an offset, and the readable bytes from there on, without those that became visible since
        self._known_bytes: dict[PartitionKey, tuple[int, int]] = {}

    def steps(self, *, acknowledges: bool) -> TaskSteps:
        """Apply the acknowledgements, then acquire or park."""
        request, handler = self.request, self.handler
        if acknowledges:
            acknowledging = Acknowledging(self._acknowledged)
            accepted = acknowledging.sort(
                request.topics, handler.catalogue, self._may_read, self.context.api_version,
                may_renew=request.is_renew_ack,
            )  # fmt: skip
            yield from acknowledging.steps(handler.members.partitions, *self.key, accepted)
        else:
            self.acknowledged = {}
        is_renewal = request.is_renew_ack and self.context.api_version >= RENEW_VERSION
        if request.share_session_epoch == FINAL_EPOCH or is_renewal:
            self._fetched({})
            return
        yield from self._resolve()
        if not self.present:
            self._fetched({})
        elif not self.try_complete():
            if request.max_wait_ms <= 0:
                self.finish()
            else:
                self._park()

    @property
    def _may_read(self) -> Callable[[str | None, bytes], bool] | None:
        admitted = self.context.admitted
        return None if admitted is None else admitted.may

    def _resolve(self) -> TaskSteps:
        """Find the partitions of the session, until it ends. Each request begins with another one."""
        keys = list(self.session.partitions)
        at = self.request.share_session_epoch % len(keys) if keys else 0
        keys = keys[at:] + keys[:at]
        for first in range(0, len(keys), MAX_AT_ONCE):
            if first:
                yield None
            if self.handler.members.sessions.get(self.key) is not self.session:
                return  # no later end of a session would remove what is loaded now
            for key in keys[first : first + MAX_AT_ONCE]:
                self._find(key)

    def _find(self, key: PartitionKey) -> None:
        handler, may_read, known_topics = self.handler, self._may_read, self.session.known_topics
        topic = handler.catalogue.by_id.get(key[0])
        if topic is None:
            is_deleted = key[0] in known_topics  # Kafka's session knows its name
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_deleted else ErrorCode.UNKNOWN_TOPIC_ID
            self.errors[key] = ShareError(error)
            return
        known_topics.add(key[0])
        if may_read is not None and not may_read(None, key[0]):
            self.errors[key] = ShareError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif not 0 <= key[1] < len(topic.partitions):
            self.errors[key] = ShareError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif self.request.max_records > 0 and self.max_bytes > 0:
            partition = topic.partitions[key[1]]
            if partition.is_here:
                actor = handler.members.partitions.find_or_load((self.key[0], *key), partition)
                self.present.append((key, partition, actor))
            else:
                self.errors[key] = ShareError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # Waiting

    def try_complete(self) -> bool:
        """Acquire if a partition has an error or there is enough to read. Return whether the fetch is complete."""
        ready = self._ready()
        if not ready or not (self.min_bytes <= 0 or self._has_enough(ready)):
            return False
        self.finish()
        return True

    def _ready(self) -> Ready:
        """Return the partitions from which records may be acquired."""
        return [each for each in self.present if each[2].is_active and can_acquire(each[2].share)]

    def _has_enough(self, ready: Ready) -> bool:
        readable = 0
        share_bytes = max(1, self.max_bytes // len(ready))
        for key, partition, actor in ready:
            offset = next_fetch_offset(actor.share)
            if hindrance(partition, offset) is not None:
                return True
            try:
                if offset >= end_offset(partition, committed_only=self.committed_only):
                    continue
                if self.min_bytes <= 1:
                    return True
                readable += self._readable(key, partition, offset, share_bytes)
            except UNREADABLE:  # `_acquire` reports the error
                return True
        return readable >= self.min_bytes

    def _readable(self, key: PartitionKey, partition: Partition, offset: int, max_bytes: int) -> int:
        """Return the readable bytes from `offset` on. The log is read only when the offset has changed."""
        log = partition.log
        known = self._known_bytes.get(key)
        if known is None or known[0] != offset:
            known = self._known_bytes[key] = offset, len(log.read(offset, max_bytes)) - log.visible_bytes
        return min(max_bytes, known[1] + log.visible_bytes)

    def _park(self) -> None:
        now_ms = self.handler.now_ms()
        self._deadline_ms = now_ms + self.request.max_wait_ms
        for _key, partition, actor in self.present:
            partition.wait(self, self.wake)
            actor.waiters[self] = self.wake
        self.handler.parked[self] = None
        self._set_timer(now_ms)

    def _set_timer(self, now_ms: int) -> None:
        at_ms = min(self._deadline_ms, now_ms + LOOK_AFTER_MS)
        self._timer = self.handler.schedule_at(at_ms, self._time_is_up)

    def _time_is_up(self) -> None:
        now_ms = self.handler.now_ms()
        if now_ms >= self._deadline_ms or self.context.closed:
            self.finish()
        else:
            self._set_timer(now_ms)

    def wake(self) -> None:
        """Look again: records have become visible or available, or a partition is gone."""
        if self.fetched is None:
            if self.context.closed:
                self.finish()
            else:
                self.try_complete()

    def finish(self, *, acquires: bool = True) -> None:
        """Complete the fetch with what can be acquired: nothing if the client is gone."""
        for _key, partition, actor in self.present:
            partition.forget(self)
            actor.waiters.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.handler.parked.pop(self, None)
        handler = self.handler
        is_open = handler.members.sessions.get(self.key) is self.session and not self.context.closed
        self.fetched = {}  # a wake during the acquisition has no effect
        self._fetched(self._acquire() if acquires and is_open and handler.leads() else {})

    # Acquiring

    def _acquire(self) -> dict[PartitionKey, PartitionData]:
        ready = self._ready()
        read_bytes = min(self.max_bytes, self.context.room) // max(1, len(ready))
        left = self.request.max_records
        at_least_one = True
        fetched: dict[PartitionKey, PartitionData] = {}
        for key, partition, actor in ready:
            data = PartitionData(key[1], records=b"")
            fetched[key] = data
            offset = next_fetch_offset(actor.share)
            error = hindrance(partition, offset)
            if error == ErrorCode.OFFSET_OUT_OF_RANGE:
                actor.tell(MoveLogStart(partition.log.log_start_offset))
            elif error is not None:
                data.error_code = error
            elif left > 0:
                try:
                    found = read(
                        partition, offset, max(offset, actor.share.end_offset + 1) + left - 1, read_bytes,
                        at_least_one=at_least_one, committed_only=self.committed_only,
                    )  # fmt: skip
                except UNREADABLE as failure:
                    data.error_code = partition.cannot_read(failure)
                    continue
                if found is not None:
                    at_least_one = False
                    left -= self._acquire_from(actor, offset, found, left, data)
        return fetched

    def _acquire_from(
        self, actor: SharePartitionActor, offset: int, found: Batches, max_records: int, data: PartitionData
    ) -> int:
        request = self.request
        is_limited = request.share_acquire_mode == RECORD_LIMIT
        result = actor.tell(
            Acquire(self.key[1], is_limited, request.batch_size, max_records, offset, found.ranges, found.aborted)
        )
        acquired = result.acquired
        if acquired:
            data.acquired_records = [AcquiredRecords(*each) for each in acquired]
            data.records = found.between(acquired[0].first, acquired[-1].last)
            self._is_large |= len(data.records) >= MIN_KEPT_BYTES
        return result.count

    # Responding

    def _acknowledged(self, outcomes: Outcomes) -> None:
        self.acknowledged = outcomes
        if self.fetched is not None:
            self._respond(self.fetched, outcomes)

    def _fetched(self, fetched: dict[PartitionKey, PartitionData]) -> None:
        for key, _partition, actor in self.present:
            if actor.error is not None:
                self.errors[key] = actor.error
        for key, (error, _message) in self.errors.items():  # Kafka's response has no message here
            fetched[key] = PartitionData(key[1], error, records=b"")
        self.fetched = fetched
        if self.acknowledged is not None:
            self._respond(fetched, self.acknowledged)

    def _respond(self, fetched: dict[PartitionKey, PartitionData], acknowledged: Outcomes) -> None:
        response = self._response(fetched, acknowledged)
        if self.request.share_session_epoch == FINAL_EPOCH:
            self.handler.members.end(self.key)
        if self.context.closed:
            self.context.reply(
                ShareFetchResponse()
            )  # never read, but the connection must learn that the request has ended
        elif self._is_large:
            self.context.reply_in_parts(response)
        else:
            self.context.reply_alone(response, perf_counter())

    def _response(self, fetched: dict[PartitionKey, PartitionData], acknowledged: Outcomes) -> ShareFetchResponse:
        epoch = self.request.share_session_epoch
        if epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            if self.session.epoch != self._session_epoch:
                return ShareFetchResponse(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            news = {key: (bool(data.records), data.error_code != 0) for key, data in fetched.items()}
            fetched = {key: fetched[key] for key in self.session.select(news)}
        leaders: set[int] = set()
        for key, outcome in acknowledged.items():
            data = fetched.setdefault(key, PartitionData(key[1], records=b""))
            data.acknowledge_error_code, data.acknowledge_error_message = outcome
        topics: dict[bytes, list[PartitionData]] = {}
        for (topic_id, index), data in fetched.items():
            leader = self.handler.leaders.of(topic_id, index, ErrorCode(data.error_code))
            if leader is not None:
                data.current_leader = LeaderIdAndEpoch(*leader)
                leaders.add(leader[0])
            topics.setdefault(topic_id, []).append(data)
        limits = self.handler.members.partitions.settings.limits(self.key[0])
        nodes = self.handler.leaders.endpoints(leaders, self.context.listener)
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=limits.record_lock_duration_ms,
            responses=[ShareFetchableTopicResponse(topic_id, data) for topic_id, data in topics.items()],
            node_endpoints=[NodeEndpoint(*node) for node in nodes],
        )


def hindrance(partition: Partition, offset: int) -> ErrorCode | None:
    """Return the error of a read at `offset`."""
    if partition.log.deleted:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not partition.is_here:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if not partition.log.log_start_offset <= offset <= partition.log.end_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return None

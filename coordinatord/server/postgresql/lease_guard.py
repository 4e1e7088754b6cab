"""Rejection, before the router, of requests that a node without its lease or its database must not or cannot serve.

- *The lease is over.* Another node may lead, so all state in this node's memory may be outdated: requests for groups,
  transactions and share coordinators get NOT_COORDINATOR, and the connections of all other requests are closed.
  Requests that only help to find the leader are served. A parked ShareFetch acquires nothing.
- *The database is unreachable* and an append has waited for offsets.commit.timeout.ms. Requests that write get
  COORDINATOR_NOT_AVAILABLE; heartbeats and reads are served as usual, while the lease lasts.
- *A response waits for the log* for that long: it is replaced by COORDINATOR_NOT_AVAILABLE. Its records are committed
  when the database is reachable again, in order, unless another node has taken the lead; a client that retries finds
  either. A response to Produce waits until the lease is over: a large batch takes longer, and a producer that is not
  idempotent would append its records once more.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from coordinatord.coordination.runtime.log import Gate
from coordinatord.transport.net.cooperative_tasks import CooperativeTask
from coordinatord.transport.net.request import RequestContext
from coordinatord.transport.net.server_context import Serving
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import DecodeError, ErrorCode
from kafka_wire.framing import Frames
from kafka_wire.headers import read_request_header
from kafka_wire.registry import CODECS, Codec, error_response

HEAD_BYTES: Final = 10

FINDING: Final = frozenset(
    {
        ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER,
    }
)  # fmt: skip
"""Requests that find a node. Their responses are hints, which may be outdated."""

WRITING: Final = frozenset(
    {
        ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.LEAVE_GROUP, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_DELETE,
        ApiKey.DELETE_GROUPS, ApiKey.TXN_OFFSET_COMMIT, ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN, ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE, ApiKey.DELETE_SHARE_GROUP_STATE, ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    }
)  # fmt: skip

REFUSABLE: Final = WRITING | {
    ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.OFFSET_FETCH,
    ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.WRITE_TXN_MARKERS, ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
}  # fmt: skip
"""The requests of groups, transactions and share coordinators."""


class Leading(Protocol):
    """The lease: lease.Lease."""

    @property
    def holds(self) -> bool: ...


class Appending(Protocol):
    """The store: store.PostgresStore. `appending_since_s` is the time at which the append under way began."""

    appending_since_s: float | None


class Requests:
    """The replacement of the router (net.door.Serving)."""

    def __init__(
        self,
        router: Serving,
        lease: Leading,
        store: Appending,
        timeout_s: float,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._router = router
        self._lease = lease
        self._store = store
        self._timeout_s = timeout_s
        self._now_s = now_s
        self.refused = 0

    def serve(self, connection: Any, frames: Frames, first: int, stop: int) -> int:
        """Serve requests as the router does. The lease is checked before each call, so before the response is made."""
        if not self._lease.holds:
            return self._without_lease(connection, frames, first, stop)
        since_s = self._store.appending_since_s
        if since_s is not None and self._now_s() - since_s > self._timeout_s:
            if _api(frames, first) in WRITING and self._refuse(
                connection, frames, first, ErrorCode.COORDINATOR_NOT_AVAILABLE
            ):
                return 1
            stop = first + 1  # a shortcut must not serve those behind it
        return self._router.serve(connection, frames, first, stop)

    def slice(self, context: Any, slices: CooperativeTask) -> None:
        """Call the router's method."""
        self._router.slice(context, slices)

    def failed(self, connection: Any, codec: Codec) -> None:
        """Call the router's method."""
        self._router.failed(connection, codec)

    def _without_lease(self, connection: Any, frames: Frames, first: int, stop: int) -> int:
        api = _api(frames, first)
        if api in FINDING:
            return self._router.serve(connection, frames, first, first + 1)
        if api not in REFUSABLE or not self._refuse(connection, frames, first, ErrorCode.NOT_COORDINATOR):
            connection.close()
        return 1

    def _refuse(self, connection: Any, frames: Frames, first: int, error: ErrorCode) -> bool:
        """Respond to a request with an error. Return False if the request cannot be decoded."""
        buf, start, end = frames[first]
        try:
            codec = CODECS[int.from_bytes(buf[start : start + 4], "big")]
            header, body = read_request_header(buf, start, end, codec.flexible)
            request = codec.decode_request(buf, body, end)
        except (KeyError, IndexError, DecodeError):
            return False
        context = RequestContext(connection, codec, header.correlation_id, (buf, body, end))
        connection.line.answer(context, error_response(request, codec.api_version, error))
        self.refused += 1
        return True


def _api(frames: Frames, first: int) -> int:
    buf, start, end = frames[first]
    return int.from_bytes(buf[start : start + 2], "big") if end - start >= HEAD_BYTES else -1


class _Waiting:
    """A response that waits for the log, and is sent once: when its records are durable, or have failed, or too
    late.
    """

    __slots__ = ("_callback", "_failed", "deadline_s", "done")

    def __init__(self, callback: Callable[[], object], failed: Callable[[], object], deadline_s: float) -> None:
        self._callback = callback
        self._failed = failed
        self.deadline_s = deadline_s
        self.done = False

    def durable(self) -> None:
        if not self.done:
            self.done = True
            self._callback()

    def failed(self) -> None:
        if not self.done:
            self.done = True
            self._failed()


class TimeoutGate:
    """The log's gate for responses, which holds them no longer than the lease lasts, and those that are not patient no
    longer than `timeout_s`. Waits of other kinds use the log's own gate, without a limit.
    """

    def __init__(
        self, gate: Gate, timeout_s: float, lease: Leading, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._gate = gate
        self._timeout_s = timeout_s
        self._lease = lease
        self._now_s = now_s
        self._hasty: deque[_Waiting] = deque()
        self._patient: deque[_Waiting] = deque()
        self.given_up = 0

    @property
    def flushed_epoch(self) -> int:
        """The log's `flushed_epoch`."""
        return self._gate.flushed_epoch

    def has_flushed(self, epoch: int) -> bool:
        """Return the result of the log's `has_flushed`."""
        return self._gate.has_flushed(epoch)

    def hold(
        self,
        epoch: int,
        callback: Callable[[], object],
        failed: Callable[[], object] | None = None,
        is_patient: bool = False,
    ) -> None:
        """Wait as the log's gate does; `failed` is also called when the wait is over, in the order of the calls, and
        of patient responses after the others.
        """
        if failed is None:
            self._gate.hold(epoch, callback, None)
            return
        waiting = _Waiting(callback, failed, self._now_s() + self._timeout_s)
        self._gate.hold(epoch, waiting.durable, waiting.failed)
        queue = self._patient if is_patient else self._hasty
        while queue and queue[0].done:
            queue.popleft()
        if not waiting.done:
            queue.append(waiting)

    def give_up(self) -> None:
        """Fail the responses that have waited too long. Must be called several times a second."""
        is_over = not self._lease.holds
        until_s = math.inf if is_over else self._now_s()
        self._give_up(self._hasty, until_s)
        if is_over:
            self._give_up(self._patient, until_s)

    def _give_up(self, queue: deque[_Waiting], until_s: float) -> None:
        while queue and (queue[0].done or queue[0].deadline_s <= until_s):
            waiting = queue.popleft()
            self.given_up += not waiting.done
            waiting.failed()

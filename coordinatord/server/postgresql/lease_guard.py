"""Before the router: what a node without its lease, or whose database is away, must not answer or cannot.

- *The lease is over.* Another node may lead, so whatever this one has in memory may be old: requests for groups and
  transactions are answered NOT_COORDINATOR, and the connections of all other requests are closed. What only helps to
  find the leader is answered.
- *The database is away* and an append has waited for offsets.commit.timeout.ms. Requests that write are answered
  COORDINATOR_NOT_AVAILABLE; heartbeats and reads are answered as ever, while the lease lasts.
- *A response waits for the log* for that long: it becomes COORDINATOR_NOT_AVAILABLE. Its records are committed when the
  database is back, in order, unless another node has taken the lead; a client that tries again finds either.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from coordinatord.coordination.runtime.error_responses import refuse
from coordinatord.coordination.runtime.log import Gate
from coordinatord.coordination.runtime.versions import for_version
from coordinatord.transport.net.cooperative_tasks import CooperativeTask
from coordinatord.transport.net.request import RequestContext
from coordinatord.transport.net.server_context import Serving
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import DecodeError, ErrorCode
from kafka_wire.framing import Frames
from kafka_wire.headers import read_request_header
from kafka_wire.registry import CODECS, Codec

HEAD_BYTES: Final = 10

FINDING: Final = frozenset(
    {
        ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER,
    }
)  # fmt: skip
"""What clients ask to find a node: hints, which may be old."""

WRITING: Final = frozenset(
    {
        ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.LEAVE_GROUP, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_DELETE,
        ApiKey.DELETE_GROUPS, ApiKey.TXN_OFFSET_COMMIT, ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN,
    }
)  # fmt: skip

REFUSABLE: Final = WRITING | {
    ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.OFFSET_FETCH,
    ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.WRITE_TXN_MARKERS, ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
}  # fmt: skip
"""The requests of groups and transactions: coordination/runtime/error_response_table.py has their errors."""


class Leading(Protocol):
    """Whether this node may answer: lease.Lease."""

    @property
    def holds(self) -> bool: ...


class Appending(Protocol):
    """When the append under way began: store.PostgresStore."""

    appending_since_s: float | None


class Requests:
    """In the router's place (net.door.Serving)."""

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
        """As the router's. The lease is looked at before the answer is made, for each request that is given here."""
        if not self._lease.holds:
            return self._without_lease(connection, frames, first, stop)
        since_s = self._store.appending_since_s
        if since_s is not None and self._now_s() - since_s > self._timeout_s:
            if _api(frames, first) in WRITING and self._refuse(
                connection, frames, first, ErrorCode.COORDINATOR_NOT_AVAILABLE
            ):
                return 1
            stop = first + 1  # a shortcut must not answer those behind it
        return self._router.serve(connection, frames, first, stop)

    def slice(self, context: Any, slices: CooperativeTask) -> None:
        """As the router's."""
        self._router.slice(context, slices)

    def failed(self, connection: Any, codec: Codec) -> None:
        """As the router's."""
        self._router.failed(connection, codec)

    def _without_lease(self, connection: Any, frames: Frames, first: int, stop: int) -> int:
        api = _api(frames, first)
        if api in FINDING:
            return self._router.serve(connection, frames, first, first + 1)
        if api not in REFUSABLE or not self._refuse(connection, frames, first, ErrorCode.NOT_COORDINATOR):
            connection.close()
        return 1

    def _refuse(self, connection: Any, frames: Frames, first: int, error: ErrorCode) -> bool:
        """Answer a request with an error. Returns False if it cannot be decoded."""
        buf, start, end = frames[first]
        try:
            codec = CODECS[int.from_bytes(buf[start : start + 4], "big")]
            header, body = read_request_header(buf, start, end, codec.flexible)
            request = codec.decode_request(buf, body, end)
        except (KeyError, IndexError, DecodeError):
            return False
        context = RequestContext(connection, codec, header.correlation_id, (buf, body, end))
        connection.line.answer(context, for_version(refuse(request, codec.api_version, error), codec.api_version))
        self.refused += 1
        return True


def _api(frames: Frames, first: int) -> int:
    buf, start, end = frames[first]
    return int.from_bytes(buf[start : start + 2], "big") if end - start >= HEAD_BYTES else -1


class _Waiting:
    """A response that waits for the log, and is answered once: when it is durable, failed, or too late."""

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
    """The log's gate for responses: it holds them no longer than `timeout_s`. What is no response waits at the log's
    own gate, for as long as it takes.
    """

    def __init__(self, gate: Gate, timeout_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self._gate = gate
        self._timeout_s = timeout_s
        self._now_s = now_s
        self._waiting: deque[_Waiting] = deque()
        self.given_up = 0

    @property
    def flushed_epoch(self) -> int:
        """As the log's."""
        return self._gate.flushed_epoch

    def has_flushed(self, epoch: int) -> bool:
        """As the log's."""
        return self._gate.has_flushed(epoch)

    def hold(self, epoch: int, callback: Callable[[], object], failed: Callable[[], object] | None = None) -> None:
        """As the log's; `failed` is called when the timeout is over, too, in the order of the calls."""
        if failed is None:
            self._gate.hold(epoch, callback, None)
            return
        waiting = _Waiting(callback, failed, self._now_s() + self._timeout_s)
        self._gate.hold(epoch, waiting.durable, waiting.failed)
        queue = self._waiting
        while queue and queue[0].done:
            queue.popleft()
        if not waiting.done:
            queue.append(waiting)

    def give_up(self) -> None:
        """Fail the responses that have waited too long. To be called several times a second."""
        now_s, queue = self._now_s(), self._waiting
        while queue and (queue[0].done or queue[0].deadline_s <= now_s):
            waiting = queue.popleft()
            self.given_up += not waiting.done
            waiting.failed()

"""Consumer with network access: the pure member on asyncio, with sockets and the monotonic clock.

For tests, the demo and load. It reads uncommitted, uses plaintext, and serves one task at a time: a call during another
one raises `ConcurrentModificationError` (acquire and release in Kafka's consumer), and the first call continues. Reads
are possible at any time: `assignment`, `positions`, `partition_lag`, `metrics`.

    async with Client("localhost:9092", MemberSettings("my-group")) as consumer:
        consumer.subscribe(["t"])
        while True:
            for partition, records in (await consumer.poll(1.0)).items():
                ...
            await consumer.commit()

Calls raise `MemberError` where Kafka's consumer throws, `ValueError` for invalid arguments, and exceptions of
`on_change` (which Kafka wraps in a KafkaException). An exception outside of a call stops the heartbeats and is raised
by the next poll, like one in Kafka's heartbeat thread; the poll after that starts the heartbeats again. Warnings go to
the logger `coordinatord.testing.member`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from coordinatord.testing.member.assignors.java_hash import TopicPartition
from coordinatord.testing.member.calls import ConcurrentModificationError
from coordinatord.testing.member.committing import consumed
from coordinatord.testing.member.connections import Connections
from coordinatord.testing.member.events import (
    Close,
    Commit,
    Failed,
    Pause,
    Poll,
    Received,
    Rejoin,
    Resume,
    Seek,
    Subscribe,
    Unsupported,
    Wakeup,
    Woken,
)
from coordinatord.testing.member.metrics import Metrics
from coordinatord.testing.member.nodes import Address
from coordinatord.testing.member.result import Assigned, Lost, Polled, Result, Revoked
from coordinatord.testing.member.state import Member, MemberSettings
from coordinatord.testing.member.step import step
from coordinatord.testing.member.timer import NEVER, check_timeout
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import Record

log = logging.getLogger("coordinatord.testing.member")


class MemberError(Exception):
    """An error that Kafka's consumer would throw."""

    def __init__(self, error: ErrorCode, what: str) -> None:
        super().__init__(f"{error.name}: {what}" if what else error.name)
        self.error = error


class Client:
    """Consumer on asyncio; see the module's docstring. `on_change` is called when partitions are assigned, revoked or
    lost.
    """

    def __init__(
        self,
        bootstrap: str,
        settings: MemberSettings,
        *,
        client_id: str = "coordinatord-member",
        on_change: Callable[[Assigned | Revoked | Lost], None] | None = None,
        random: Callable[[], float] = random.random,
    ) -> None:
        self.member = Member(settings, random)
        self.client_id = client_id
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        addresses = [_address(each) for each in bootstrap.split(",")]
        self._connections = Connections(self.member, addresses, client_id, random, self._handle)
        self._wake: asyncio.TimerHandle | None = None
        self._wakes_at_ms = NEVER
        self._polling: asyncio.Future[Polled] | None = None
        self._committing: dict[int, asyncio.Future[ErrorCode]] = {}
        self._closing: asyncio.Future[None] | None = None
        self._call: tuple[str, asyncio.Task[Any] | None] | None = None  # the current call and its task
        self._calling_back = False
        self._failure: Exception | None = None  # for the next poll to raise

    # Calls of the application

    def subscribe(self, topics: Iterable[str] = (), pattern: str | None = None) -> None:
        """Subscribe to these topics, or to topics that match `pattern` (see events.Subscribe); without arguments, leave
        the group.
        """
        with self._acquired("subscribe"):
            self._run_step(Subscribe(topics, pattern))
            self._raise_failure()

    async def poll(self, timeout_s: float = 0.0) -> dict[TopicPartition, list[Record]]:
        """Return records as soon as some arrive, or {} after `timeout_s`. Raises `MemberError` where Kafka's consumer
        throws.
        """
        with self._acquired("poll"):
            timeout_ms = _milliseconds(timeout_s)
            self._raise_failure()
            polling: asyncio.Future[Polled] = self._loop.create_future()
            self._polling = polling
            try:
                self._run_step(Poll(timeout_ms))
                polled = await polling
            finally:
                self._polling = None
                if self.member.in_poll:  # cancelled, or failed
                    self._run_step(Wakeup())
            if polled.error is not None:
                raise MemberError(polled.error, polled.what)
            return polled.records

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None, timeout_s: float = 60.0) -> None:
        """Commit the consumed offsets, or `offsets`, and wait for the result (commitSync). Raises `MemberError` on
        failure.
        """
        with self._acquired("commit"):
            try:
                error = await self._commit(Commit(offsets, _milliseconds(timeout_s)))
            except asyncio.CancelledError:
                self._run_step(Wakeup())
                raise
        if error is not ErrorCode.NONE:
            raise MemberError(error, "OffsetCommit")

    def commit_async(self, offsets: Mapping[TopicPartition, int] | None = None) -> asyncio.Future[ErrorCode]:
        """Commit without waiting (commitAsync). The future completes while the network is read: during a call, or while
        heartbeats run.
        """
        with self._acquired("commit_async"):
            return self._commit(Commit(offsets))

    def seek(self, partition: TopicPartition, offset: int | str) -> None:
        """Set the position to an offset, or to "earliest" or "latest"."""
        with self._acquired("seek"):
            self._run_step(Seek(partition, offset))

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop returning records of these partitions."""
        with self._acquired("pause"):
            self._run_step(Pause(partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        with self._acquired("resume"):
            self._run_step(Resume(partitions))

    def rejoin(self, reason: str = "rebalance enforced by user") -> None:
        """Trigger a rebalance at the next poll."""
        with self._acquired("rejoin"):
            self._run_step(Rejoin(reason))

    @property
    def assignment(self) -> set[TopicPartition]:
        """Partitions that this member owns."""
        return set(self.member.assignment)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Next offset of each partition with a known position."""
        return consumed(self.member)

    @property
    def metrics(self) -> Metrics:
        """Measurements so far."""
        return self.member.metrics

    def partition_lag(self, partition: TopicPartition) -> int | None:
        """Return the number of records that are not consumed yet, at the time of the last fetch; None before it. Raises
        `ValueError` if the partition is not owned.
        """
        return self.member.partition_lag(partition)

    async def close(self, leave: bool | None = None, timeout_s: float = 30.0) -> None:
        """Commit (with auto-commit), leave the group, disconnect. `leave` as in events.Close."""
        with self._acquired("close"):
            event = Close(_milliseconds(timeout_s), leave)
            if not self.member.closed:
                self._closing = self._loop.create_future()
                self._run_step(event)
                await self._closing
            self.abort()
            self._raise_failure()

    def abort(self) -> None:
        """Disconnect without leaving, like a killed process."""
        self.member.closed = True
        if self._wake is not None:
            self._wake.cancel()
        self._connections.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
        else:
            self.abort()

    # Exclusive calls

    @contextmanager
    def _acquired(self, call: str) -> Iterator[None]:
        """Reject calls of other tasks. `on_change` may make calls that do not wait, as Kafka's listeners may."""
        task = asyncio.current_task()
        if self._call is not None:
            if not self._calling_back:
                under_way, whose = self._call
                raise ConcurrentModificationError(
                    f"KafkaConsumer is not safe for multi-threaded access: {call} by {_name(task)}, "
                    f"and {under_way} by {_name(whose)} has not returned yet"
                )
            yield
            return
        self._call = (call, task)
        try:
            yield
        finally:
            self._call = None

    # The shell

    def now_ms(self) -> int:
        """Return the time of the event loop's clock in milliseconds."""
        return self._connections.now_ms()

    def _run_step(self, event: Any) -> None:
        self._apply(step(self.member, event, self.now_ms()))

    def _handle(self, event: Received | Failed | Unsupported | Woken) -> None:
        """Handle an event of the network or the clock. No caller can catch an exception here, so a poll raises it."""
        if self.member.closed and self._closing is None:
            return
        try:
            self._run_step(event)
        except Exception as failure:
            log.exception("An error outside of the application's calls; a poll raises it")
            self._fail(failure)
            self._schedule()

    def _fail(self, failure: Exception) -> None:
        """Let the current poll raise the exception, or else the next one."""
        if self._polling is not None and not self._polling.done():
            self._polling.set_exception(failure)
        else:
            self._failure = self._failure or failure

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            self._schedule()
            raise failure

    def _apply(self, result: Result) -> None:
        for warning in result.warnings:
            log.warning("%s", warning)
        if result.disconnect:
            self._connections.hang_up_on_coordinator()
        failure = self._call_back(result.changes)
        for send in result.sends:
            self._connections.send(send)
        for each in result.committed:
            done = self._committing.pop(id(each.event), None)
            if done is not None and not done.done():
                done.set_result(each.error)
        polled = result.polled
        if polled is not None and failure is not None and not polled.records and polled.error is None:
            polled = None  # the poll raises the failure; with records or an error to return, the next poll does
        if polled is not None and self._polling is not None and not self._polling.done():
            self._polling.set_result(polled)
        if result.closed and self._closing is not None and not self._closing.done():
            self._closing.set_result(None)
        if failure is not None:
            self._fail(failure)
        self._schedule()

    def _call_back(self, changes: list[Assigned | Revoked | Lost]) -> Exception | None:
        """Call `on_change` for every change; return the first exception, as Kafka's consumer throws the first."""
        first: Exception | None = None
        if self._on_change is None:
            return None
        was, self._calling_back = self._calling_back, True
        for change in changes:
            try:
                self._on_change(change)
            except Exception as failure:
                log.exception("User provided listener failed on %s", type(change).__name__)
                first = first or failure
        self._calling_back = was
        return first

    def _commit(self, event: Commit) -> asyncio.Future[ErrorCode]:
        done = self._committing[id(event)] = self._loop.create_future()
        try:
            self._run_step(event)
        except Exception:
            del self._committing[id(event)]
            raise
        return done

    def _schedule(self) -> None:
        deadline_ms = self.member.next_deadline_ms if self._failure is None else NEVER
        if deadline_ms == self._wakes_at_ms:
            return
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        self._wakes_at_ms = deadline_ms
        if deadline_ms < NEVER:
            self._wake = self._loop.call_at((deadline_ms + 1) / 1000, self._woken)

    def _woken(self) -> None:
        self._wake, self._wakes_at_ms = None, NEVER
        self._handle(Woken())


def _milliseconds(timeout_s: float) -> int:
    check_timeout(-1 if -1 < timeout_s * 1000 < 0 else int(timeout_s * 1000))
    return int(timeout_s * 1000)


def _name(task: asyncio.Task[Any] | None) -> str:
    return "a callback" if task is None else task.get_name()


def _address(text: str) -> Address:
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"bootstrap server {text!r}: write it as host:port")
    return host.strip("[]"), int(port)

"""A usable consumer: the pure member on asyncio, with sockets and the monotonic clock.

For tests, the demo and load. It reads uncommitted, speaks plaintext, and belongs to one task: calls must not overlap.

    async with Client("localhost:9092", MemberSettings("my-group")) as consumer:
        consumer.subscribe(["t"])
        while True:
            for partition, records in (await consumer.poll(1.0)).items():
                ...
            await consumer.commit()
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from coordinatord.member.assignors.java_hash import TopicPartition
from coordinatord.member.committing import consumed
from coordinatord.member.events import (
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
    Wakeup,
    Woken,
)
from coordinatord.member.result import Assigned, Lost, Polled, Result, Revoked
from coordinatord.member.send import ANY_NODE, Send
from coordinatord.member.state import Member, MemberSettings
from coordinatord.member.step import step
from coordinatord.member.timer import NEVER
from coordinatord.member.wire import NoCommonVersion, Wire
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import Record

RECONNECT_BACKOFF_S = 0.05
"""reconnect.backoff.ms: a request to a node that has just failed fails after this time."""

Address = tuple[str, int]


class MemberError(Exception):
    """An error that Kafka's consumer would throw."""

    def __init__(self, error: ErrorCode, what: str) -> None:
        super().__init__(f"{error.name}: {what}" if what else error.name)
        self.error = error


class Client:
    """See the module's docstring. `on_change` is called when partitions are assigned, revoked or lost."""

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
        self._bootstrap = [_address(each) for each in bootstrap.split(",")]
        self._next_bootstrap = 0
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._wires: dict[tuple[int, bool], Wire] = {}
        self._connecting: set[asyncio.Task[None]] = set()
        self._timeouts: dict[Send, asyncio.TimerHandle] = {}
        self._wake: asyncio.TimerHandle | None = None
        self._wakes_at_ms = NEVER
        self._polling: asyncio.Future[Polled] | None = None
        self._committing: dict[int, asyncio.Future[ErrorCode]] = {}
        self._closing: asyncio.Future[None] | None = None

    # Called by the application

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics; with none, leave the group."""
        self._tell(Subscribe(topics))

    async def poll(self, timeout_s: float = 0.0) -> dict[TopicPartition, list[Record]]:
        """Returns records as soon as some arrive. Raises `MemberError` where Kafka's consumer throws."""
        self._polling = self._loop.create_future()
        self._tell(Poll(int(timeout_s * 1000)))
        try:
            polled = await self._polling
        except asyncio.CancelledError:
            self._tell(Wakeup())
            raise
        if polled.error is not None:
            raise MemberError(polled.error, polled.what)
        return polled.records

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None, timeout_s: float = 60.0) -> None:
        """commitSync: commit the consumed offsets unless others are given. Raises `MemberError` on failure."""
        event = Commit(offsets, int(timeout_s * 1000))
        done = self._committing[id(event)] = self._loop.create_future()
        self._tell(event)
        error = await done
        if error is not ErrorCode.NONE:
            raise MemberError(error, "OffsetCommit")

    def commit_async(self, offsets: Mapping[TopicPartition, int] | None = None) -> asyncio.Future[ErrorCode]:
        """commitAsync. The result arrives while the network is read: during a call, or while heartbeats run."""
        event = Commit(offsets)
        done = self._committing[id(event)] = self._loop.create_future()
        self._tell(event)
        return done

    def seek(self, partition: TopicPartition, offset: int | str) -> None:
        """Set the position to an offset, or to "earliest" or "latest"."""
        self._tell(Seek(partition, offset))

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions."""
        self._tell(Pause(partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        self._tell(Resume(partitions))

    def rejoin(self, reason: str = "rebalance enforced by user") -> None:
        """Trigger a rebalance at the next poll."""
        self._tell(Rejoin(reason))

    @property
    def assignment(self) -> set[TopicPartition]:
        """The partitions that this member owns."""
        return set(self.member.assignment)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of each partition with a known position."""
        return consumed(self.member)

    async def close(self, leave: bool | None = None, timeout_s: float = 30.0) -> None:
        """Commit (with auto-commit), leave, disconnect. `leave` as in events.Close."""
        if not self.member.closed:
            self._closing = self._loop.create_future()
            self._tell(Close(int(timeout_s * 1000), leave))
            await self._closing
        self.abort()

    def abort(self) -> None:
        """Disconnect without leaving, like a killed process."""
        self.member.closed = True
        if self._wake is not None:
            self._wake.cancel()
        for handle in self._timeouts.values():
            handle.cancel()
        self._timeouts.clear()
        for wire in list(self._wires.values()):
            wire.close()
        for task in self._connecting:
            task.cancel()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
        else:
            self.abort()

    # The shell

    def now_ms(self) -> int:
        """The event loop's clock."""
        return int(self._loop.time() * 1000)

    def _tell(self, event: Any) -> None:
        self._apply(step(self.member, event, self.now_ms()))

    def _apply(self, result: Result) -> None:
        if result.disconnect:
            self._hang_up()
        for change in result.changes:
            if self._on_change is not None:
                self._on_change(change)
        for send in result.sends:
            self._send(send)
        for each in result.committed:
            done = self._committing.pop(id(each.event), None)
            if done is not None and not done.done():
                done.set_result(each.error)
        if result.polled is not None and self._polling is not None and not self._polling.done():
            self._polling.set_result(result.polled)
        if result.closed and self._closing is not None and not self._closing.done():
            self._closing.set_result(None)
        self._schedule()

    def _schedule(self) -> None:
        deadline_ms = self.member.next_deadline_ms
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
        self._tell(Woken())

    def _send(self, send: Send) -> None:
        self._timeouts[send] = self._loop.call_later(send.timeout_ms / 1000, self._timed_out, send)
        key = (send.to, send.group)
        wire = self._wires.get(key)
        if wire is None:
            wire = self._wires[key] = Wire(self.client_id, self._answered, self._lost)
            task = self._loop.create_task(wire.connect(*self._address_of(send)))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)
        wire.ask(send, send.request)

    def _address_of(self, send: Send) -> Address:
        nodes = self.member.cluster.nodes
        if send.group:
            return self.member.coordinator_address
        if send.to in nodes:
            return nodes[send.to]
        assert send.to == ANY_NODE
        self._next_bootstrap += 1
        return self._bootstrap[self._next_bootstrap % len(self._bootstrap)]

    def _answered(self, send: Send, response: Any) -> None:
        handle = self._timeouts.pop(send, None)
        if handle is not None:
            handle.cancel()
        if self.member.closed and self._closing is None:
            return
        if isinstance(response, NoCommonVersion):
            self._loop.call_soon(self._refused, send, str(response))  # the step that sent it may still be running
        elif response is not None:
            self._tell(Received(send, response))
        elif not send.abandoned:
            # Wait: otherwise nodes that refuse connections would be asked again and again.
            self._loop.call_later(RECONNECT_BACKOFF_S, self._failed, send)

    def _refused(self, send: Send, sentence: str) -> None:
        """Tell the application of a permanent failure, like Kafka's UnsupportedVersionException."""
        if self._polling is not None and not self._polling.done():
            self._polling.set_exception(MemberError(ErrorCode.UNSUPPORTED_VERSION, sentence))
            self._tell(Wakeup())
        if not send.abandoned:
            self._failed(send)

    def _failed(self, send: Send) -> None:
        if not self.member.closed or self._closing is not None:
            self._tell(Failed(send))

    def _timed_out(self, send: Send) -> None:
        """As in Kafka, a request that times out closes the connection."""
        self._timeouts.pop(send, None)
        wire = self._wires.get((send.to, send.group))
        if wire is not None:
            wire.close()

    def _lost(self, wire: Wire) -> None:
        for key, known in list(self._wires.items()):
            if known is wire:
                del self._wires[key]

    def _hang_up(self) -> None:
        for (_, group), wire in list(self._wires.items()):
            if group:
                wire.close()


def _address(text: str) -> Address:
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"bootstrap server {text!r}: write it as host:port")
    return host.strip("[]"), int(port)

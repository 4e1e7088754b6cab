"""A coordinator with its handlers and nothing under it: topics are a table, the log is a list, time stands still.
Whether a producer may write is tests/coordination/transactions' business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import md5
from typing import Any

from coordinatord.base.observe.metrics import Metrics
from coordinatord.coordination.group.result import TimerKey
from coordinatord.coordination.group.state import GroupSettings
from coordinatord.coordination.runtime.partitions import Partitions
from coordinatord.coordination.runtime.runtime import Runtime
from coordinatord.coordination.service.apis.admin import GroupAdmin
from coordinatord.coordination.service.apis.find_coordinator import FindCoordinator
from coordinatord.coordination.service.apis.membership import Membership
from coordinatord.coordination.service.apis.offsets import Offsets
from coordinatord.coordination.service.groups import Coordinator
from coordinatord.server.access.authorized_fastpath import repeating
from coordinatord.server.access.guard import guarded
from coordinatord.server.fastpath import shortcuts
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.net.connection import Connection
from coordinatord.transport.net.request import RequestContext
from coordinatord.transport.net.routes import Shortcut, ShortcutMaker
from coordinatord.transport.security.authorizer import Acl, Authorizer, record_of
from coordinatord.transport.security.principal import Principal
from kafka_wire.api_key import ApiKey
from kafka_wire.framing import Frames
from kafka_wire.records.batch import Records
from kafka_wire.records.cluster_metadata import RemoveAccessControlEntryRecord
from kafka_wire.records.keys import decode_key, decode_value
from kafka_wire.registry import Codec
from tests.support.shell import Gate, Turns, Wire, make_door, read_records

PARTITIONS = 50
REPEATED = (ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.OFFSET_COMMIT)


class TopicTable:
    """Topics by name: (id, number of partitions)."""

    def __init__(self, **topics: int) -> None:
        self.table = {name: (bytes([number + 1] * 16), count) for number, (name, count) in enumerate(topics.items())}
        self.deletions = 0

    def topic_id(self, name: str) -> bytes | None:
        return self.table[name][0] if name in self.table else None

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name, (known, _) in self.table.items() if known == topic_id), None)

    def id_and_size(self, name: str) -> tuple[bytes, int] | None:
        return self.table.get(name)

    def exists(self, name: str, partition: int) -> bool:
        return name in self.table and 0 <= partition < self.table[name][1]


class FakeTimers:
    """Remembers the timers that are set."""

    def __init__(self) -> None:
        self.armed: dict[TimerKey, int] = {}

    def schedule(self, key: TimerKey, deadline_ms: int) -> None:
        self.armed[key] = deadline_ms

    def cancel(self, key: TimerKey) -> None:
        self.armed.pop(key, None)


class Counted:
    """A shortcut, and how many requests of its API shortcuts have answered."""

    def __init__(self, inner: Shortcut, hits: Counter[int], api_key: int) -> None:
        self.inner, self.hits, self.api_key = inner, hits, api_key

    def answer(self, connection: Connection, frames: Frames, first: int, stop: int) -> int:
        count = self.inner.answer(connection, frames, first, stop)
        self.hits[self.api_key] += count
        return count

    def learn(self, context: RequestContext, request: Any, buf: bytes, start: int, end: int) -> None:
        self.inner.learn(context, request, buf, start, end)


class World:
    """What a test looks at: `log` has (partition, key, value), `gate` says what is durable; at first all of it is."""

    def __init__(
        self,
        *,
        durable: bool = True,
        active: bool = True,
        with_shortcuts: bool = True,
        users: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        """`users`: there are ACLs (`permit`), and connections are theirs in turn, each time from another address."""
        self.users = users
        self.authorizer = Authorizer()
        self.wires = 0
        self.hits: Counter[int] = Counter()
        self.turns = Turns()
        self.gate = Gate()
        self.gate.flushed_epoch = 1 << 40 if durable else 0
        self.timers = FakeTimers()
        self.topics = TopicTable(orders=4, clicks=2)
        self.now = 1_000_000
        self.log: list[tuple[int, Any, Any]] = []
        self.epoch = 0
        self.ids = iter(range(1, 1_000_000))
        self.nodes = Nodes(7)
        self.nodes.advertise("PLAINTEXT", ("coordinator.test", 9092))
        limits = {name: settings.pop(name) for name in ("max_groups", "max_pending_ids") if name in settings}
        runtime = Runtime(self.gate, self.timers, lambda: self.now, Metrics())  # type: ignore[arg-type]  # no alarms
        self.coordinator = Coordinator(
            runtime,
            self,  # type: ignore[arg-type]  # nothing is read from it
            Partitions(PARTITIONS),
            group_settings=GroupSettings(**{"initial_rebalance_delay_ms": 0, **settings}),
            max_groups=limits.get("max_groups", 1000),
            max_pending_ids=limits.get("max_pending_ids", 1000),
            new_id=lambda: f"id{next(self.ids)}",
        )
        if active:
            self.coordinator.partitions.made(PARTITIONS)
        self.membership = Membership(self.coordinator, max_group_id_bytes=249, max_metadata_bytes=1000)
        self.offsets = Offsets(self.coordinator, self.topics)
        handlers: dict[int, Any] = {
            **FindCoordinator(self.nodes, self.coordinator.partitions, Partitions(1)).handlers(),
            **self.membership.handlers(),
            **self.offsets.handlers(),
            **GroupAdmin(self.coordinator).handlers(),
        }
        if users:
            handlers = guarded(handlers, self.authorizer, self.topics, creates_topics=False, repeated=REPEATED)
        self.door = make_door(
            handlers,
            self.turns,
            self.gate,
            max_frame_bytes=1 << 20,
            max_connections=100,
            now_ms=lambda: self.now,
            shortcuts=self._counted_shortcuts() if with_shortcuts else None,
        )
        self.router = self.door.router
        self.metrics = self.door.metrics

    def _counted_shortcuts(self) -> dict[int, ShortcutMaker]:
        def counted(api_key: int, make: ShortcutMaker) -> ShortcutMaker:
            def made(codec: Codec) -> Shortcut | None:
                shortcut = make(codec)
                return None if shortcut is None else Counted(shortcut, self.hits, api_key)

            return made

        makers = shortcuts(self.coordinator, self.topics)
        if self.users:
            makers = repeating(makers, self.authorizer)
        return {key: counted(key, make) for key, make in makers.items()}

    def shortcut(self, api_key: int, version: int) -> Any:
        """The shortcut of a version, as it is."""
        counted = self.router.routes[(api_key << 16 | version).to_bytes(4, "big")].shortcut
        return counted.inner if isinstance(counted, Counted) else counted

    def append(self, partition: int, records: Records, now_ms: int, producer: tuple[int, int] | None = None) -> int:
        for key_bytes, value_bytes in read_records(records, now_ms):
            key = decode_key(key_bytes)
            self.log.append((partition, key, None if value_bytes is None else decode_value(key, value_bytes)))
        self.epoch += 1
        return self.epoch

    def wire(self) -> Wire:
        wire = Wire(self.door, self.turns)
        if self.users:
            wire.connection.principal = Principal("User", self.users[self.wires % len(self.users)])
            wire.connection.client_host = f"/10.0.0.{self.wires // len(self.users) % 2 + 1}"
            self.wires += 1
        return wire

    def permit(self, acl: Acl, *, remove: bool = False) -> None:
        """Add an ACL, or remove it; nothing if it is there, or not there, already."""
        if (acl in self.authorizer) is remove:
            acl_id = md5(repr(acl).encode()).digest()
            self.authorizer.replay(RemoveAccessControlEntryRecord(acl_id) if remove else record_of(acl_id, acl))

    def ask(self, message: Any, version: int) -> Any:
        """One request on a connection of its own, which must be answered at once."""
        wire = self.wire()
        wire.send(message, version)
        ((_, response),) = wire.answers
        return response

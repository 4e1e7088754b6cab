"""What must hold of share groups, checked after every step of a share partition, and at every response.

A model of each share partition follows the events and the results of the steps, and says what they may be; it shares no
code with the state machine. Names in brackets are those of the invariants in README.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coordinatord.base.clocks.timers import TICK_MS
from coordinatord.coordination.share.leader import ShareKey, SharePartitionActor
from coordinatord.coordination.share.partition import events
from coordinatord.coordination.share.partition.held import held
from coordinatord.coordination.share.partition.result import Result
from coordinatord.coordination.share.persister import ARCHIVED, AVAILABLE
from kafka_wire.errors import ErrorCode
from tests.testing.simulation.invariants import Violated
from tests.testing.simulation.share_members import ACCEPT, REJECT, RENEW, Ack, Key

if TYPE_CHECKING:
    from tests.testing.simulation.nodes import Node, SimulatedDaemon
    from tests.testing.simulation.share_members import ShareMember
    from tests.testing.simulation.share_worlds import ShareWorld

LATE_MS = 2 * TICK_MS + 5
"""How late a lock may end: a tick of the wheel, and one of the timer behind it."""


@dataclass(slots=True)
class Record:
    """What the model knows of one record."""

    count: int = 0  # of its deliveries, as it was last told
    actor: SharePartitionActor | None = None  # whose memory that is
    durable_count: int = 0
    member: str = ""  # that has acquired it
    until_ms: int = 0
    sent: set[int] = field(default_factory=set)  # types of acknowledgements that members have sent
    is_done: bool = False  # a member knows that it is accepted or rejected
    is_durable: bool = False  # a terminal state is, or that its dead letter is due
    is_archived: bool = False  # that is durable


@dataclass(slots=True)
class Model:
    """One share partition, over all lives of the node."""

    records: dict[int, Record] = field(default_factory=dict)
    durable_start: int = 0
    starts: dict[SharePartitionActor, int] = field(default_factory=dict)

    def record(self, offset: int) -> Record:
        return self.records.setdefault(offset, Record())


class _NothingUnheard:
    """Stands for unheard.Unheard."""

    def arrived(self, *_: Any) -> None:
        """Do nothing."""


class ShareWatch:
    """See the module."""

    def __init__(self, world: ShareWorld) -> None:
        self.world = world
        self.models: dict[ShareKey, Model] = {}
        self.unheard = _NothingUnheard()
        self.checks = 0
        self.rebalances = 0
        self.deliveries = 0
        self.redeliveries = 0

    def fail(self, what: str) -> None:
        self.world.story.say("WATCH", what)
        raise Violated(what)

    # Of the world

    def started(self, node: Node, daemon: SimulatedDaemon) -> None:
        assert daemon.share is not None
        daemon.share.delivery.partitions.observers.append(Observer(self, node))

    def ended(self, node: Node, daemon: SimulatedDaemon | None) -> None:
        if daemon is not None and daemon.failed is not None and not isinstance(daemon.failed, OSError):
            self.fail(f"{node.name} has failed: {daemon.failed!r}")

    def look(self) -> None:
        """No lock outlives its time, where the node is not hindered (LocksEnd)."""
        node = self.world.machine.nodes[0]
        if node.daemon is None or node.daemon.share is None or node.daemon.failed is not None:
            return
        now_ms, partitions = node.clock(), node.daemon.share.delivery.partitions
        if self.world.engine.now_ms - node.disturbed_ms < 1_000:
            return
        for key in self.models:
            actor = partitions.find(key)
            for each in () if actor is None or not actor.is_active else held(actor.share):
                self.checks += 1
                if each.deadline_ms + LATE_MS < now_ms:
                    self.fail(f"{each} of {key[0]}-{key[2]} is locked at {now_ms}")

    def delivered(self, *_: Any) -> None:
        """Of the network: a request was read."""

    def over(self, *_: Any) -> None:
        """Of the network: a connection is."""

    # What members see

    def acknowledging(self, member: ShareMember, key: Key, batches: Sequence[Ack]) -> None:
        """A member sends acknowledgements."""
        for offset, type_ in _each(batches):
            self.model(member, key).record(offset).sent.add(type_)

    def acknowledged(self, member: ShareMember, key: Key, batches: Sequence[Ack]) -> None:
        """The response without an error has arrived."""
        for offset, type_ in _each(batches):
            if type_ in (ACCEPT, REJECT):
                self.model(member, key).record(offset).is_done = True

    def delivered_records(self, member: ShareMember, key: Key, acquired: Any) -> None:
        """A fetch has returned records that the member has acquired (AcknowledgedOnce, DeliveryLimit)."""
        self.deliveries += 1
        self.checks += 1
        if acquired.delivery_count > 1:
            self.redeliveries += 1
        if acquired.delivery_count > self.world.limit:
            self.fail(f"{member.name} gets {acquired}: the limit is {self.world.limit}")

    def model(self, member: ShareMember, key: Key) -> Model:
        return self.models.setdefault((member.group_id, *key), Model())

    # At the end

    def at_rest(self, key: ShareKey, end_offset: int) -> None:
        """Each record has ended for a reason (NothingLost)."""
        model = self.models.setdefault(key, Model())
        for offset in range(end_offset):
            record = model.record(offset)
            self.checks += 1
            if not record.sent & {ACCEPT, REJECT} and record.count < self.world.limit:
                self.fail(f"offset {offset} of {key[0]}-{key[2]} was never accepted: {record.count} deliveries")

    def have_letters(self, letters: set[tuple[str, int, int]]) -> None:
        """Each record that is archived has a dead letter, and no other has one (EachHasALetter)."""
        for key, model in self.models.items():
            for offset, record in model.records.items():
                self.checks += 1
                if record.is_archived != ((key[0], key[2], offset) in letters):
                    has = "has no dead letter" if record.is_archived else "has a dead letter, and is not archived"
                    self.fail(f"offset {offset} of {key[0]}-{key[2]} {has}")


class Observer:
    """Follows the steps of one life of a node."""

    def __init__(self, watch: ShareWatch, node: Node) -> None:
        self.watch = watch
        self.node = node
        self.writes: dict[tuple[SharePartitionActor, int], Any] = {}
        self.has_failed = False
        """The log has: the node stops, and what it does until then is no matter."""

    def before(self, actor: SharePartitionActor, event: events.Event) -> None:
        """Do nothing."""

    def after(self, actor: SharePartitionActor, event: events.Event, result: Result) -> None:
        """Follow a step, and compare."""
        if self.has_failed:
            return
        model = self.watch.models.setdefault(actor.key, Model())
        if isinstance(event, events.Acquire):
            self._acquired(actor, model, event, result)
        elif isinstance(event, events.Acknowledge) and result.error is ErrorCode.NONE:
            self._acknowledged(actor, model, event)
        elif isinstance(event, events.Release):
            for record in self._held(actor, model):
                if record.member == event.member_id:
                    record.member = ""
        elif isinstance(event, events.LockTimeout):
            now_ms = self.node.clock()
            for record in self._held(actor, model):
                if record.until_ms <= now_ms:
                    record.member = ""
        elif isinstance(event, events.Written):
            self._written(actor, model, event)
        if result.write is not None:
            self.writes[actor, result.write.write_id] = result.write
        if not self.has_failed:
            self._compare(actor, model)

    @staticmethod
    def _held(actor: SharePartitionActor, model: Model) -> Iterator[Record]:
        return (each for each in model.records.values() if each.actor is actor and each.member)

    def _acquired(self, actor: SharePartitionActor, model: Model, event: events.Acquire, result: Result) -> None:
        watch = self.watch
        for first, last, count in result.acquired:
            for offset in range(first, last + 1):
                record = model.record(offset)
                what = f"{event.member_id} acquires offset {offset} of {actor.key[0]}-{actor.key[2]}"
                watch.checks += 1
                if record.actor is actor and record.member:
                    watch.fail(f"{what}, which {record.member} has")
                if record.is_done:
                    watch.fail(f"{what}, which was acknowledged")
                if record.is_durable:
                    watch.fail(f"{what}, whose end is durable")
                if count > watch.world.limit:
                    watch.fail(f"{what} for the {count}. time: the limit is {watch.world.limit}")
                least = record.count if record.actor is actor else min(record.durable_count, record.count)
                if not least < count <= record.count + 1:
                    watch.fail(f"{what} for the {count}. time after {record.count} ({record.durable_count} durable)")
                record.count, record.actor, record.member = count, actor, event.member_id
                record.until_ms = self.node.clock() + watch.world.lock_ms

    def _acknowledged(self, actor: SharePartitionActor, model: Model, event: events.Acknowledge) -> None:
        for batch in event.batches:
            for offset in range(max(batch.first, actor.share.start_offset), batch.last + 1):
                record = model.record(offset)
                if record.actor is not actor or record.member != event.member_id:
                    self.watch.fail(
                        f"{event.member_id} acknowledges offset {offset}, which {record.member or 'nobody'} has"
                    )
                if batch.types[0] == RENEW:
                    record.until_ms = self.node.clock() + self.watch.world.lock_ms
                else:
                    record.member = ""

    def _written(self, actor: SharePartitionActor, model: Model, event: events.Written) -> None:
        write = self.writes.pop((actor, event.write_id), None)
        if write is None:
            return
        if not event.committed:
            self.has_failed = True
            return
        model.durable_start = max(model.durable_start, write.start_offset)
        for first, last, state, count in write.batches:
            for offset in range(first, last + 1):
                record = model.record(offset)
                record.durable_count = max(record.durable_count, count)
                record.is_durable = record.is_durable or state != AVAILABLE
                record.is_archived = record.is_archived or state == ARCHIVED

    def _compare(self, actor: SharePartitionActor, model: Model) -> None:
        """The start offset only rises; members have what the model says (StartRises, LocksHold)."""
        watch, share = self.watch, actor.share
        if not actor.is_active:
            return
        floor = model.starts.get(actor, model.durable_start)
        watch.checks += 1
        if share.start_offset < floor:
            watch.fail(f"the start offset of {actor.key[0]}-{actor.key[2]} falls from {floor} to {share.start_offset}")
        model.starts = {actor: share.start_offset}
        real = {offset: each.member_id for each in held(share) for offset in range(each.first, each.last + 1)}
        told = {offset: each.member for offset, each in model.records.items() if each.actor is actor and each.member}
        if real != told:
            offset = min(each for each in {*real, *told} if real.get(each) != told.get(each))
            has, should = real.get(offset, "nobody"), told.get(offset, "nobody")
            watch.fail(f"{has} has offset {offset} of {actor.key[0]}-{actor.key[2]}, and {should} should")


def _each(batches: Sequence[Ack]) -> Iterator[tuple[int, int]]:
    for first, last, type_ in batches:
        for offset in range(first, last + 1):
            yield offset, type_

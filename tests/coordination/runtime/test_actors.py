"""The floor that coordinators stand on, with the smallest tenant that there can be: counters, by name.

A counter exists from its first `Add`. A `Freeze` puts something of another kind in its place, in one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from coordinatord.base.bounds.mapping import text_bytes
from coordinatord.base.observe.metrics import Metrics
from coordinatord.broker.log.loader import ReplayedBatch
from coordinatord.coordination.runtime.actors import MAX_ID_BYTES, Actor, Actors, later, respond_after
from coordinatord.coordination.runtime.partitions import ACTIVE, FAILED, LOADING, Partitions
from coordinatord.coordination.runtime.runtime import Runtime
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import KeyValues, Records
from tests.coordination.transactions.world import NoTimers
from tests.support.shell import Gate, read_records

PARTITIONS = 2


@dataclass
class Add:
    many: int


@dataclass
class Freeze:
    pass


@dataclass
class End:
    """`reply_to` is answered by the next step."""

    reply_to: Any = None


@dataclass
class Result:
    reply: Any = None
    value: bytes | None = b""
    replies: list[Any] = field(default_factory=list)
    becomes: Any = None


class Counter:
    exists = False
    count = 0
    parked: Any = None

    def step(self, event: Any) -> Result:
        if isinstance(event, Add):
            if event.many < 0:
                raise OSError("no room")
            self.exists = True
            self.count += event.many
            return Result(self.count, b"%d" % self.count)
        if isinstance(event, Freeze):
            return Result("frozen", b"frozen", becomes=Frozen(self.count))
        if event.reply_to is not None:
            self.parked = event.reply_to
            return Result()
        self.exists = False
        return Result("gone", None, [(self.parked, "gone")] if self.parked else [])


@dataclass
class Frozen:
    count: int
    exists: bool = True

    def step(self, event: Any) -> Result:
        return Result(f"still {self.count}")


def step(state: Counter | Frozen, event: Any, now_ms: int) -> Result:
    return state.step(event)


class CounterActor(Actor["Counters"]):
    __slots__ = ("name",)

    def __init__(self, coordinator: Counters, name: str, partition: int, epoch: int) -> None:
        super().__init__(coordinator, Counter(), partition, epoch)
        self.name = name

    @property
    def id(self) -> str:
        return self.name

    def apply(self, result: Result, now_ms: int) -> None:
        if result.becomes is not None:
            self.state = result.becomes
        if result.value != b"":
            self.append(KeyValues([(self.name.encode(), result.value)]), now_ms)
        if result.replies:
            self.coordinator.parked.answer_at(self.epoch, result.replies)


class Counters(Actors[CounterActor]):
    told = 0

    def new_actor(self, id_: str, partition: int) -> CounterActor:
        return CounterActor(self, id_, partition, self.forgotten_epoch)

    def is_allowed(self, id_: str) -> ErrorCode:
        return ErrorCode.INVALID_REQUEST if " " in id_ else ErrorCode.NONE

    def log_limit(self) -> None:
        self.told += 1

    def unloading(self) -> End:
        return End()

    def replay(self, partition: int, batches: Iterable[ReplayedBatch]) -> Iterator[int]:
        for _ in batches:
            yield 1


class ListLog:
    topic = "__counters"

    def __init__(self) -> None:
        self.gate = Gate()
        self.records: list[tuple[int, bytes, bytes | None]] = []

    def append(self, partition: int, records: Records, now_ms: int, producer: Any = None) -> int:
        self.records += [(partition, key, value) for key, value in read_records(records, now_ms)]
        return len(self.records)

    def end_offset(self, partition: int) -> int:
        return sum(each == partition for each, _, _ in self.records)

    def delete_before(self, partition: int, offset: int) -> int:
        raise NotImplementedError

    def size_bytes(self, partition: int) -> int:
        return 0

    def read(self, partition: int) -> Iterator[ReplayedBatch]:
        return iter(())


class Context:
    """A request, and the connection that it came by."""

    api_version = 0
    codec = None

    def __init__(self, gate: Gate) -> None:
        self.connection = self.line = self
        self.gate = gate
        self.answers: list[Any] = []

    def keep(self) -> tuple[bytes, int, int]:
        return b"", 0, 0

    def answer_at(self, epoch: int, response: Any, failure: Any) -> None:
        self.gate.hold(epoch, lambda: self.answers.append(response), lambda: self.answers.append("failed"))

    def answer_parked(self, context: Any, response: Any, now_s: float) -> None:
        self.answers.append(response)


def served(limit: int = 10, count: int = PARTITIONS) -> Counters:
    log = ListLog()
    made = Counters(Runtime(log.gate, NoTimers(), lambda: 7, Metrics()), log, Partitions(count), limit, step)
    made.partitions.made(count)
    return made


def gate(counters: Counters) -> Gate:
    assert isinstance(counters.gate, Gate)
    return counters.gate


def actor(counters: Counters, name: str = "a") -> CounterActor:
    found = counters.actor_for(name)
    assert isinstance(found, CounterActor)
    return found


def respond(one: CounterActor, response: Any) -> tuple[Any, Context]:
    context = Context(gate(one.coordinator))
    return one.respond(context, response), context  # type: ignore[arg-type]


def test_who_does_not_come_to_exist_is_forgotten() -> None:
    counters = served()
    one = actor(counters)
    assert counters.find("a") is one
    assert one.tell(End()) == "gone"
    assert counters.find("b") is None or counters.actors == {}
    two = actor(counters)
    assert two is not one
    assert two.tell(Add(3)) == 3
    assert counters.actor_for("a") is counters.find("a") is two


def test_a_step_that_raises_has_done_nothing() -> None:
    counters = served()
    with pytest.raises(OSError, match="no room"):
        actor(counters).tell(Add(-1))
    assert counters.actors == {}
    assert counters.log.records == []  # type: ignore[attr-defined]


def test_an_answer_waits_for_what_its_actor_has_written_and_for_nothing_else() -> None:
    counters = served()
    one, other = actor(counters), actor(counters, "b")
    one.tell(Add(1))
    assert counters.log.records == [(one.partition, b"a", b"1")]  # type: ignore[attr-defined]
    now, context = respond(one, "one")
    assert (now, context.answers) == (None, [])
    assert respond(other, "two")[0] == "two"
    gate(counters).flush(1)
    assert context.answers == ["one"]
    assert respond(one, "again")[0] == "again"


def test_what_is_told_of_several_waits_for_the_last() -> None:
    counters = served()
    one, other = actor(counters), actor(counters, "b")
    one.tell(Add(1))
    other.tell(Add(1))
    latest = later(later(None, other), one)
    assert latest is other
    context = Context(gate(counters))
    assert respond_after(None, context, "nobody") == "nobody"  # type: ignore[arg-type]
    assert respond_after(latest, context, "both") is None  # type: ignore[arg-type]
    gate(counters).flush(1)
    assert context.answers == []
    gate(counters).flush(2)
    assert context.answers == ["both"]


def test_that_somebody_is_gone_is_told_when_it_is_durable() -> None:
    counters = served()
    one = actor(counters)
    one.tell(Add(1))
    one.tell(End())
    assert counters.actors == {}
    absent = counters.find("a")
    assert isinstance(absent, CounterActor)
    assert not absent.state.exists
    assert respond(absent, "no such counter")[0] is None
    assert respond(actor(counters), "a new one")[0] is None
    gate(counters).flush(2)
    assert counters.find("b") is counters.absent() is None


def test_a_parked_request_is_answered_by_a_later_step_once_that_is_durable() -> None:
    counters = served()
    one = actor(counters)
    one.tell(Add(1))
    context = Context(gate(counters))
    assert one.tell(End(context)) is None
    one.tell(End())
    assert (context.answers, counters.parked.held_count) == ([], 1)
    gate(counters).flush(2)
    assert (context.answers, counters.parked.held_count) == (["gone"], 0)


def test_a_step_may_put_something_of_another_kind_in_its_place() -> None:
    counters = served()
    one = actor(counters)
    one.tell(Add(2))
    assert one.tell(Freeze()) == "frozen"
    assert one.tell(Add(2)) == "still 2"
    assert counters.find("a") is one
    assert respond(one, "frozen")[0] is None, "its answers wait as before"


def test_why_there_is_nobody() -> None:
    counters = served(limit=1)
    assert counters.actor_for("a b") is ErrorCode.INVALID_REQUEST
    actor(counters).tell(Add(1))
    assert counters.actor_for("b") is ErrorCode.POLICY_VIOLATION
    assert counters.told == 1
    partition = counters.partitions.of("c")
    for state, error in ((LOADING, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), (FAILED, ErrorCode.NOT_COORDINATOR)):
        counters.partitions.states[partition] = state
        assert counters.actor_for("c") is counters.find("c") is counters.availability(partition) is error
    nothing = served(count=0)
    assert nothing.actor_for("a") is nothing.find("a") is ErrorCode.NOT_COORDINATOR, "its topic is not made yet"


def test_ids_are_bounded_in_bytes() -> None:
    counters = served()
    for name in ("a", "\U0001f600" * 100):
        actor(counters, name).tell(Add(1))
    assert counters.id_bytes == text_bytes("a") + text_bytes("\U0001f600" * 100)
    assert counters.reached_limit("max.counters") != "max.counters"
    counters.id_bytes += MAX_ID_BYTES
    assert counters.actor_for("b") is ErrorCode.POLICY_VIOLATION
    assert counters.told == 1
    assert isinstance(counters.actor_for("a"), CounterActor), "it is there"
    counters.id_bytes -= MAX_ID_BYTES
    actor(counters, "b").tell(End())
    for one in list(counters.actors.values()):
        one.tell(End())
        counters.forget(one)
        counters.forget(one)
    assert (counters.id_bytes, counters.actors) == (0, {})


def test_who_drains_answers_what_is_parked_and_serves_nobody() -> None:
    counters = served()
    one = actor(counters)
    one.tell(Add(1))
    context = Context(gate(counters))
    one.tell(End(context))
    gate(counters).flush(99)
    counters.drain()
    assert context.answers == ["gone"]
    refused = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert counters.actor_for("a") is counters.find("a") is counters.find("b") is refused
    assert counters.availability(0) is refused


def test_a_load_that_ends_is_served_and_one_that_breaks_has_failed() -> None:
    counters = served()
    counters.partitions.states = [LOADING, LOADING]

    def broken() -> Iterator[Any]:
        yield None
        raise OSError("the disk is gone")

    assert list(counters.load(0, iter([None, None]))) == [1, 1]  # type: ignore[arg-type]
    with pytest.raises(OSError, match="the disk is gone"):
        list(counters.load(1, broken()))
    assert counters.partitions.states == [ACTIVE, FAILED]
    dropped = counters.load(0, broken())
    next(dropped)
    dropped.close()  # type: ignore[attr-defined]
    assert counters.partitions.states[0] == ACTIVE, "the node stops: nothing is wrong with the partition"


def test_what_cannot_be_read_is_told_of_once_a_kind() -> None:
    counters = served()
    assert [counters.count_unread(kind) for kind in ("x", "x", "y")] == [True, False, True]
    assert counters.unread == {"x": 2, "y": 1}

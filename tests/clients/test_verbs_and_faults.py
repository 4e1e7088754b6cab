"""Every verb and fault of coordinatord.testing, with a client of each Python stack; and that others notice nothing.

A bystander is a client of the same stack in another group, with another client id. What a verb or a fault does to one
client may change nothing for the bystander: it goes on in its generation, and reads and writes meanwhile. A restart and
a jump of the clock are everybody's.
"""

# ruff: noqa: E402  # who has not all four libraries runs none of these
from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.support.waiting import PATIENCE_S, wait_until

for library in ("kafka", "aiokafka", "confluent_kafka", "faststream.kafka"):
    pytest.importorskip(library)

from coordinatord.testing import Fault, Group, Kafka
from tests.clients.stacks import STACKS, TOPIC, Send, Stack

pytestmark = [
    pytest.mark.clients,
    pytest.mark.kafka(topics={TOPIC: 1}),
    # A client that is closed while it looks for its coordinator does not leave.
    pytest.mark.filterwarnings("ignore::coordinatord.testing.KafkaLeftovers"),
]
GROUP, OTHER_GROUP = "billing", "audit"
CLIENT, OTHER_CLIENT = "a", "other"


@pytest.fixture(params=STACKS, ids=str)
def stack(request: pytest.FixtureRequest) -> Stack:
    found: Stack = request.param
    return found


# Verbs


def rebalance(kafka: Kafka, group: Group) -> None:
    before = group.view.generation
    with group.rebalance("deploy"):
        pass
    assert group.view.generation > before


def expire(kafka: Kafka, group: Group) -> None:
    gone = group.expire(group.members[0].member_id)
    group.until(lambda view: view.is_stable and [each.member_id for each in view.members] not in ([], [gone]))
    assert "session expired" in {each.trigger for each in group.rebalances}


def kick(kafka: Kafka, group: Group) -> None:
    gone = group.kick(group.members[0].member_id)
    group.until(lambda view: view.is_stable and [each.member_id for each in view.members] not in ([], [gone]))
    assert gone not in {each.member_id for each in group.members}


def move(kafka: Kafka, group: Group) -> None:
    """The client finds it again and is still the same member."""
    before = {each.member_id for each in group.members}
    group.move()
    group.until_stable(members=1)
    assert {each.member_id for each in group.members} == before


def loading(kafka: Kafka, group: Group) -> None:
    """Meanwhile nothing is committed."""
    before = {each.member_id for each in group.members}
    with group.loading():
        kafka.put(TOPIC, ["while loading"])
        until_asked(kafka, group, "Heartbeat")
    group.until_stable(members=1)
    assert {each.member_id for each in group.members} == before


def restart(kafka: Kafka, group: Group) -> None:
    kafka.restart()


def crash(kafka: Kafka, group: Group) -> None:
    kafka.restart(crash=True)


def advance(kafka: Kafka, group: Group) -> None:
    """The session is over on the server's clock, and the client joins again."""
    gone = group.members[0].member_id
    kafka.advance(minutes=10)
    group.until(lambda view: view.is_stable and [each.member_id for each in view.members] not in ([], [gone]))


OF_ONE_GROUP = [rebalance, expire, kick, move, loading]
OF_ALL = [restart, crash, advance]


@pytest.mark.parametrize("verb", OF_ONE_GROUP, ids=lambda verb: verb.__name__)
def test_a_verb_does_it_to_one_group(kafka: Kafka, stack: Stack, verb: Callable[[Kafka, Group], None]) -> None:
    with settled(kafka, stack, CLIENT, GROUP) as values, settled(kafka, stack, OTHER_CLIENT, OTHER_GROUP) as others:
        before = kafka.group(OTHER_GROUP).view
        verb(kafka, kafka.group(GROUP))
        goes_on(kafka, values, GROUP)
        goes_on(kafka, others, OTHER_GROUP)
        after = kafka.group(OTHER_GROUP).view
        assert (after.generation, after.members) == (before.generation, before.members)


@pytest.mark.parametrize("verb", OF_ALL, ids=lambda verb: verb.__name__)
def test_a_verb_that_is_for_all(kafka: Kafka, stack: Stack, verb: Callable[[Kafka, Group], None]) -> None:
    """A server has one clock, and stops as a whole: there are no others."""
    with settled(kafka, stack, CLIENT, GROUP) as values:
        verb(kafka, kafka.group(GROUP))
        goes_on(kafka, values, GROUP)


def test_a_transaction_expires(kafka: Kafka, stack: Stack) -> None:
    if stack.transacting is None:
        pytest.skip(f"{stack} writes no transactions: it hands a message over and acknowledges it")
    with stack.transacting(kafka, CLIENT, "t1") as ours, stack.transacting(kafka, OTHER_CLIENT, "t2") as other:
        ours.send(b"ours")
        other.send(b"the other's")
        kafka.transaction("t1").expire()
        with pytest.raises(Exception):  # noqa: B017, PT011  # each library has its own
            ours.commit()
        other.commit()
        assert kafka.records(TOPIC, committed=True) == [b"the other's"]


# Faults


def test_fail(kafka: Kafka, stack: Stack) -> None:
    """A commit that is refused for now is tried again."""
    with settled(kafka, stack, CLIENT, GROUP) as values, settled(kafka, stack, OTHER_CLIENT, OTHER_GROUP) as others:
        before = kafka.group(OTHER_GROUP).view
        with kafka.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", group=GROUP, times=2) as fault:
            goes_on(kafka, others, OTHER_GROUP)
            goes_on(kafka, values, GROUP)
            fault.arrived(2)
        assert kafka.group(OTHER_GROUP).view.generation == before.generation


def test_blackhole(kafka: Kafka, stack: Stack) -> None:
    with settled(kafka, stack, CLIENT, GROUP) as values, settled(kafka, stack, OTHER_CLIENT, OTHER_GROUP) as others:
        before = kafka.group(OTHER_GROUP).view
        with kafka.blackhole(CLIENT) as hole:
            hole.arrived()
            kafka.group(GROUP).expire(kafka.group(GROUP).members[0].member_id)
            goes_on(kafka, others, OTHER_GROUP)
            assert kafka.group(GROUP).members == ()
        goes_on(kafka, values, GROUP)
        assert kafka.group(OTHER_GROUP).view.generation == before.generation


def test_delay(kafka: Kafka, stack: Stack, side: ThreadPoolExecutor) -> None:
    with writers(kafka, stack) as (send, others_send):
        began = time.monotonic()
        with kafka.delay("Produce", 0.1, client=CLIENT, times=1):
            sent = side.submit(send, b"late")
            others_send(b"the other's")
            sent.result(PATIENCE_S)
        assert time.monotonic() - began >= 0.1
    assert sorted(each or b"" for each in kafka.records(TOPIC)) == [b"late", b"the other's"]


def test_hold(kafka: Kafka, stack: Stack, side: ThreadPoolExecutor) -> None:
    with writers(kafka, stack) as (send, others_send), kafka.hold("Produce", client=CLIENT) as held:
        sent = side.submit(send, b"held")
        held.arrived()
        others_send(b"the other's")
        assert not sent.done()
        held.release()
        sent.result(PATIENCE_S)
    assert kafka.records(TOPIC) == [b"the other's", b"held"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_drop(kafka: Kafka, stack: Stack, side: ThreadPoolExecutor, after: bool) -> None:
    """It is sent again, and taken once, since the producer is idempotent."""

    def act(fault: Fault, send: Send, others_send: Send) -> None:
        sent = side.submit(send, b"lost")
        fault.arrived()
        others_send(b"the other's")
        assert not sent.done()
        assert (b"lost" in kafka.records(TOPIC)) is after
        waiting.append(sent)

    waiting = []
    with writers(kafka, stack) as (send, others_send):
        with kafka.drop("Produce", after=after, client=CLIENT, times=1) as fault:
            act(fault, send, others_send)
        waiting[0].result(PATIENCE_S)
    assert sorted(each or b"" for each in kafka.records(TOPIC)) == [b"lost", b"the other's"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "not idempotent"])
def test_disconnect(kafka: Kafka, stack: Stack, after: bool, idempotent: bool) -> None:
    with writers(kafka, stack, idempotent) as (send, others_send):
        with kafka.disconnect("Produce", after=after, client=CLIENT, times=1) as fault:
            send(b"again")
            others_send(b"the other's")
        assert fault.hits == 1
    copies = 2 if after and not idempotent else 1
    assert sorted(each or b"" for each in kafka.records(TOPIC)) == [*[b"again"] * copies, b"the other's"]


def test_duplicate(kafka: Kafka, stack: Stack) -> None:
    with writers(kafka, stack, idempotent=False) as (send, others_send), kafka.duplicate("Produce", client=CLIENT):
        send(b"twice")
        others_send(b"the other's")
    assert kafka.records(TOPIC) == [b"twice", b"twice", b"the other's"]


# What they share


@pytest.fixture
def side() -> Iterator[ThreadPoolExecutor]:
    """For what takes its time."""
    with ThreadPoolExecutor(2) as pool:
        yield pool


@contextmanager
def settled(kafka: Kafka, stack: Stack, client: str, group: str) -> Iterator[list[bytes]]:
    """A consumer that has joined, read and committed."""
    with stack.consuming(kafka, client, group) as values:
        goes_on(kafka, values, group)
        yield values


def goes_on(kafka: Kafka, values: list[bytes], group: str) -> None:
    """The consumer reads what comes now, and commits it."""
    value = f"for {group} after {len(kafka.records(TOPIC))}"
    kafka.put(TOPIC, [value])
    end = kafka.end_offsets(TOPIC)
    wait_until(lambda: value.encode() in values)
    kafka.group(group).until(lambda _: kafka.committed(group) == end, what=f"{end} committed")


@contextmanager
def writers(kafka: Kafka, stack: Stack, idempotent: bool = True) -> Iterator[tuple[Send, Send]]:
    """A producer, and the bystander."""
    with (
        stack.writing(kafka, CLIENT, idempotent) as send,
        stack.writing(kafka, OTHER_CLIENT, idempotent) as others_send,
    ):
        yield send, others_send


def until_asked(kafka: Kafka, group: Group, api: str) -> None:
    """Wait until the group is asked once more."""
    with kafka.delay(api, 0, group=group.group_id) as fault:
        fault.arrived()

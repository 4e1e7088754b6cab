"""Transactions of every client that has them: what is committed is seen, what is aborted is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.clients.families.clients import Client
from tests.clients.families.program import Program, wait_for, wait_for_assignment, wait_for_values
from tests.clients.kinds import MakeTopic, Name, Produce
from tests.support.waiting import wait_until

pytestmark = pytest.mark.clients

PARTITIONS = 2
RECORDS = 40
COPIED = 400
COPY_SESSION_TIMEOUT_MS = 15_000


def everything_in(bootstrap: str, topic: str, isolation: str) -> list[str]:
    """All that a kafka-python consumer reads up to the end that this isolation level shows."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None, isolation_level=isolation
    )
    partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
    consumer.assign(partitions)
    ends = consumer.end_offsets(partitions)
    seen: list[str] = []

    def at_the_end() -> bool:
        for records in consumer.poll(timeout_ms=100).values():
            seen.extend(record.value.decode() for record in records)
        return all(consumer.position(each) >= ends[each] for each in partitions)

    wait_until(at_the_end, f"the end of {topic}", seen=lambda: (len(seen), ends))
    consumer.close()
    return seen


@pytest.mark.scenario("transactions")
def test_a_transactional_producer(
    client: Client, bootstrap: str, make_topic: MakeTopic, name: Name, start: Callable[..., Program]
) -> None:
    """One transaction is committed, the next one aborted."""
    topic = make_topic(PARTITIONS)
    settings = {"topic": topic, "compression": "none", "prefix": "value", "count": RECORDS}
    program = start(mode="produce", bootstrap=bootstrap, transactional_id=name("transactions"), **settings)
    assert program.finished() == 0, program.story()
    committed = Counter(f"value-{number:06d}" for number in range(RECORDS))
    assert Counter(everything_in(bootstrap, topic, "read_committed")) == committed
    both = committed + Counter(f"aborted-{value}" for value in committed)
    assert Counter(everything_in(bootstrap, topic, "read_uncommitted")) == both


@pytest.fixture
def transactional(bootstrap: str, name: Name) -> Iterator[KafkaProducer]:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name("writer"))
    producer.init_transactions()
    yield producer
    producer.close(timeout=10)


@pytest.mark.scenario("read committed")
def test_read_committed(
    client: Client,
    bootstrap: str,
    make_topic: MakeTopic,
    name: Name,
    join: Callable[..., Program],
    transactional: KafkaProducer,
) -> None:
    """A member never sees what is aborted, and what is open only when it is committed."""
    topic = make_topic(PARTITIONS)

    def write(mark: str) -> list[bytes]:
        values = [b"%s-%06d" % (mark.encode(), number) for number in range(RECORDS)]
        for number, value in enumerate(values):
            transactional.send(topic, value, partition=number % PARTITIONS)
        transactional.flush(timeout=30)
        return values

    member = join(bootstrap, name("group"), topic, isolation="read_committed")
    wait_for_assignment([member], PARTITIONS)
    transactional.begin_transaction()
    write("aborted")
    transactional.abort_transaction()
    transactional.begin_transaction()
    first = write("first")
    transactional.commit_transaction()
    wait_for_values([member], first)
    transactional.begin_transaction()
    second = write("second")
    assert Counter(member.values) == Counter(value.decode() for value in first)
    transactional.commit_transaction()
    wait_for_values([member], second)
    assert Counter(member.values) == Counter(value.decode() for value in first + second)


@pytest.mark.scenario("copy")
def test_read_process_write_exactly_once(
    client: Client, bootstrap: str, make_topic: MakeTopic, name: Name, join: Callable[..., Program], produce: Produce
) -> None:  # fmt: skip
    """Transactions that have the group's offsets in them: one of two members is killed within one, and comes back."""
    topic, target, group = make_topic(PARTITIONS), make_topic(PARTITIONS), name("group")

    def copy(number: int) -> Program:
        words = {"transactional_id": f"{group}-{number}", "target": target, "isolation": "read_committed"}
        return join(bootstrap, group, topic, mode="copy", session_timeout_ms=COPY_SESSION_TIMEOUT_MS, **words)

    programs = [copy(0), copy(1)]
    wait_for_assignment(programs, PARTITIONS)
    values = produce(topic, COPIED, PARTITIONS)
    wait_for(programs, lambda: all(each.of_kind("COMMITTED") for each in programs), "a transaction of each")
    programs.pop().kill()
    values += produce(topic, COPIED, PARTITIONS)
    programs.append(copy(1))
    expected = Counter(value.decode() for value in values)
    seen: Counter[str] = Counter()

    def all_there() -> bool:
        seen.clear()
        seen.update(everything_in(bootstrap, target, "read_committed"))
        return seen.keys() == expected.keys()

    wait_for(programs, all_there, "all copies", timeout_s=300)
    assert seen == expected, "each once"
    for each in programs:
        each.close()

"""A group's coordinator moves from one node to another while real clients are members, and commit.

Two members, of one library each or of two libraries in one group, on two workers. Nothing that was committed is lost;
as long as the members stay in their generation, nothing is seen twice. A group beside it notices nothing.
"""

# ruff: noqa: E402  # who has not all four libraries runs none of these
from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.waiting import PATIENCE_S, wait_until

for library in ("kafka", "aiokafka", "confluent_kafka", "faststream.kafka"):
    pytest.importorskip(library)

from coordinatord.testing import Kafka
from tests.clients.stacks import STACKS, TOPIC
from tests.server.workers.processes import group_of, worker_of_group

pytestmark = [
    pytest.mark.clients,
    pytest.mark.filterwarnings("ignore::coordinatord.testing.KafkaLeftovers"),
]
PARTITIONS = 4
VALUES = 40
BY_NAME = {str(each): each for each in STACKS}
PAIRS = [(each, each) for each in BY_NAME] + [("kafka-python", "confluent-kafka")]


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with Kafka("process", topics={TOPIC: PARTITIONS}, settings={"workers": 2}) as started:
        yield started


def until(holds: Callable[[], object], what: Callable[[], object]) -> None:
    wait_until(holds, seen=what)


def read_and_committed(kafka: Kafka, word: str, groups: dict[str, list[list[bytes]]]) -> None:
    """Values come; each group's members read them all, and commit."""
    kafka.put(TOPIC, [f"{word} {number}" for number in range(VALUES)])
    ends = kafka.end_offsets(TOPIC)
    wanted = {f"{word} {number}".encode() for number in range(VALUES)}
    for group, members in groups.items():
        until(lambda m=members: wanted <= {each for values in m for each in values}, lambda m=members: m)  # type: ignore[misc]
        kafka.group(group).until(
            lambda _, g=group: kafka.committed(g) == ends,
            what=f"{ends} committed",
            timeout=PATIENCE_S,  # type: ignore[misc]
        )


@pytest.mark.parametrize("stacks", PAIRS, ids="+".join)
def test_a_group_goes_on_at_another_node(kafka: Kafka, stacks: tuple[str, str]) -> None:
    one, two = (BY_NAME[each] for each in stacks)
    name, other = group_of(0, 2, "billing"), group_of(0, 2, "audit")
    group = kafka.group(name)
    with (
        one.consuming(kafka, "a", name) as first,
        two.consuming(kafka, "b", name) as second,
        two.consuming(kafka, "other", other) as others,
    ):
        groups = {name: [first, second], other: [others]}
        group.until_stable(members=2, timeout=PATIENCE_S)
        kafka.group(other).until_stable(members=1, timeout=PATIENCE_S)
        read_and_committed(kafka, "before", groups)
        before, committed, bystander = group.view, kafka.committed(name), kafka.group(other).view
        seen = len(first) + len(second)
        group.move()
        assert (before.node, group.node) == (0, 1)
        assert kafka.committed(name).keys() == committed.keys()
        assert all(offset >= committed[each] for each, offset in kafka.committed(name).items())
        read_and_committed(kafka, "after", groups)
        after = group.until_stable(members=2, timeout=PATIENCE_S).result
        assert after.node == 1
        assert {each.member_id for each in after.members} == {each.member_id for each in before.members}
        if after.generation == before.generation:
            assert len(first) + len(second) == seen + VALUES, "each value once"
        now = kafka.group(other).view
        assert (now.node, now.generation, now.members) == (0, bystander.generation, bystander.members)
        assert sorted(others) == sorted({*others}), "the bystander has seen each value once"


def test_a_transaction_commits_offsets_at_the_node_where_the_group_is_then(kafka: Kafka) -> None:
    """The offsets are written at the old node, and decided at the new one."""
    import confluent_kafka

    name = group_of(0, 2, "exactly once")
    assert worker_of_group(name, 2) == 0
    kafka.put(TOPIC, ["in"], partition=0)
    common = {"bootstrap.servers": kafka.bootstrap_servers}
    consumer = confluent_kafka.Consumer(
        common | {"group.id": name, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    producer = confluent_kafka.Producer(common | {"transactional.id": "t1"})
    try:
        consumer.subscribe([TOPIC])
        message = None
        ends_s = time.monotonic() + PATIENCE_S
        while message is None and time.monotonic() < ends_s:
            message = consumer.poll(0.1)
        assert message is not None
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce(TOPIC, b"out", partition=1)
        read = [confluent_kafka.TopicPartition(TOPIC, 0, 1)]
        producer.send_offsets_to_transaction(read, consumer.consumer_group_metadata(), PATIENCE_S)
        kafka.group(name).move()
        assert kafka.group(name).node == 1
        assert kafka.committed(name) == {}, "it is open"
        producer.commit_transaction(PATIENCE_S)
        until(lambda: kafka.committed(name) == {(TOPIC, 0): 1}, lambda: kafka.committed(name))
        assert b"out" in kafka.records(TOPIC, committed=True)
        kafka.group(name).move()
        assert kafka.committed(name) == {(TOPIC, 0): 1}
    finally:
        consumer.close()

"""What a first user does wrong, or in another order, gets a sentence or just works."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from coordinatord.testing import Kafka, KafkaError, NotInTime
from tests.server.control.world import GROUP, TOPIC, Client, coordinator


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with coordinator() as started:
        yield started


@pytest.mark.parametrize(
    "use", [lambda it: it.bootstrap_servers, lambda it: it.put("t", ["a"]), lambda it: it.records("t")]
)
def test_a_server_that_does_not_run(use: Callable[[Kafka], object]) -> None:
    kafka = Kafka()
    for _ in range(2):
        with pytest.raises(KafkaError, match="The server does not run"):
            use(kafka)
        kafka.start()
        kafka.stop()


def test_what_was_stopped_starts_with_what_it_had() -> None:
    kafka = Kafka(topics={TOPIC: 1})
    with kafka:
        kafka.put(TOPIC, ["a"])
    with kafka:
        assert kafka.records(TOPIC) == [b"a"]


def test_topics_have_numbers() -> None:
    with pytest.raises(KafkaError, match=r"topics= says how many partitions each topic has, .*, not \['orders'\]"):
        Kafka(topics=["orders"])  # type: ignore[arg-type]


@pytest.mark.parametrize("values", ["coffee", b"coffee", {"a": 1}])
def test_one_value_is_no_list(kafka: Kafka, values: object) -> None:
    with pytest.raises(KafkaError, match="put takes a list of values: "):
        kafka.put(TOPIC, values)  # type: ignore[arg-type]
    assert kafka.records(TOPIC) == []


def test_a_tombstone_is_not_decoded(kafka: Kafka) -> None:
    kafka.put(TOPIC, [1, None, 2])
    assert kafka.records(TOPIC, decode=int) == [1, None, 2]


def test_a_restart_while_the_coordinator_is_being_loaded(kafka: Kafka) -> None:
    client = Client(kafka, "a").join()
    with kafka.group(GROUP).loading():
        kafka.restart(crash=True)
        assert client.heartbeat() == 0


def test_a_fault_with_a_misspelled_restriction(kafka: Kafka) -> None:
    with pytest.raises(TypeError, match="'time'"):
        kafka.fail("OffsetCommit", "NOT_COORDINATOR", time=3)  # type: ignore[call-arg]


def test_a_fault_that_is_waited_for_says_what_came_instead(kafka: Kafka) -> None:
    client = Client(kafka, "a").join()
    with kafka.hold("OffsetCommit", optional=True) as held:
        client.heartbeat()
        with pytest.raises(NotInTime, match="There is: 0 hits; in its block there came from a 1 Heartbeat"):
            held.arrived(timeout=0.01)

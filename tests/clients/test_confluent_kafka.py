"""What confluent-kafka (librdkafka) asks about all topics, and does with the answer."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient

from tests.clients.librdkafka import admin_client

pytestmark = pytest.mark.clients

TIMEOUT_S = 30


@pytest.fixture
def word() -> str:
    """What the names of a test's topics begin with."""
    return f"orders-{secrets.token_hex(3)}"


@pytest.fixture
def create(admin: KafkaAdminClient) -> Callable[[str, int], None]:
    def make(topic: str, partitions: int) -> None:
        admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}})
        admin.wait_for_topics([topic])

    return make


def test_all_topics_are_listed(
    confluent_kafka: Any, bootstrap: str, word: str, create: Callable[[str, int], None]
) -> None:
    create(f"{word}-one", 1)
    create(f"{word}-two", 2)
    told = admin_client(bootstrap).list_topics(timeout=TIMEOUT_S).topics
    partitions = {name: len(topic.partitions) for name, topic in told.items() if name.startswith(word)}
    assert partitions == {f"{word}-one": 1, f"{word}-two": 2}


@pytest.fixture
def subscribed(confluent_kafka: Any, bootstrap: str, word: str) -> Iterator[Any]:
    """A member that has subscribed to `^orders-….*`, and looks for new topics each second."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"{word}-group", "topic.metadata.refresh.interval.ms": 1_000}
    )
    consumer.subscribe([f"^{word}.*"])
    yield consumer
    consumer.close()


def wait_for_topics(consumer: Any, topics: set[str]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while (assigned := {each.topic for each in consumer.assignment()}) != topics:
        assert time.monotonic() < deadline_s, assigned
        consumer.poll(0.1)


def test_a_subscription_by_an_expression_has_the_topics_that_are_there_and_those_that_come(
    subscribed: Any, word: str, create: Callable[[str, int], None]
) -> None:
    create(f"not-{word}", 1)
    create(f"{word}-one", 1)
    wait_for_topics(subscribed, {f"{word}-one"})
    create(f"{word}-two", 1)
    wait_for_topics(subscribed, {f"{word}-one", f"{word}-two"})

"""Fixtures of the tests with real clients: a broker per module, topics and members that end with their test."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from tests.clients.brokers import QUICK_CONSUMER_SETTINGS, QUICK_SETTINGS, Broker, running_choice
from tests.clients.kinds import Name
from tests.clients.members import ConsumerProcess, Member


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """What `--broker` names, with short delays."""
    settings = {**QUICK_SETTINGS, **QUICK_CONSUMER_SETTINGS}
    with running_choice(request.config, tmp_path_factory.mktemp("broker"), settings) as it:
        yield it


@pytest.fixture(scope="module")
def default_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """What `--broker` names, with Kafka's defaults."""
    with running_choice(request.config, tmp_path_factory.mktemp("broker"), {}) as it:
        yield it


@pytest.fixture
def bootstrap(broker: Broker) -> str:
    return broker.bootstrap


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


@pytest.fixture
def confluent_kafka() -> Any:
    if os.environ.get("CI") == "true":
        import confluent_kafka
    else:
        confluent_kafka = pytest.importorskip("confluent_kafka", reason="pip install '.[clients]'")
    return confluent_kafka


@pytest.fixture
def name(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """`name("topic")` is a name that no other test has, and no other run against the same broker."""
    word, run = request.function.__name__.removeprefix("test_"), secrets.token_hex(3)
    return lambda what: f"{word}-{run}-{what}"


@pytest.fixture
def make_topic(admin: KafkaAdminClient, name: Name) -> Callable[..., str]:
    """`make_topic(partitions)` creates a topic and waits until it is known."""
    made = 0

    def make(partitions: int = 1, **configs: str) -> str:
        nonlocal made
        made += 1
        topic = name(f"topic-{made}")
        admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1, "configs": configs}})
        admin.wait_for_topics([topic])
        return topic

    return make


@pytest.fixture
def producer(bootstrap: str) -> Iterator[KafkaProducer]:
    """A producer with its defaults: idempotent, acks=all."""
    client = KafkaProducer(bootstrap_servers=bootstrap)
    yield client
    client.close(timeout=10)


@pytest.fixture
def produce(producer: KafkaProducer) -> Callable[..., list[bytes]]:
    """`produce(topic, count, partitions)` writes numbered values round-robin and gives them back, acknowledged."""
    written = 0

    def write(topic: str, count: int, partitions: int = 1) -> list[bytes]:
        nonlocal written
        values = [b"value-%06d" % (written + number) for number in range(count)]
        written += count
        sent = [producer.send(topic, value, partition=n % partitions) for n, value in enumerate(values)]
        producer.flush(timeout=30)
        for future in sent:
            future.get(timeout=10)
        return values

    return write


@pytest.fixture
def member(bootstrap: str) -> Iterator[Callable[..., Member]]:
    """`member(group, topic, ..., **settings)` is a consumer in a thread, closed when the test ends."""
    started: list[Member] = []

    def start(group: str, *topics: str, **settings: Any) -> Member:
        settings = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 200, **settings}
        one = Member(bootstrap, group, *topics, **settings)
        started.append(one)
        return one

    yield start
    for one in started:
        one._stopping.set()
    for one in started:
        one._thread.join(20)


@pytest.fixture
def consumer_process() -> Iterator[Callable[..., ConsumerProcess]]:
    """`consumer_process(bootstrap, group, topic, ...)` is a consumer in a process, killed when the test ends."""
    started: list[ConsumerProcess] = []

    def start(bootstrap: str, group: str, *topics: str, **settings: Any) -> ConsumerProcess:
        one = ConsumerProcess(bootstrap, group, *topics, **settings)
        started.append(one)
        return one

    yield start
    for one in started:
        if one.process.poll() is None:
            one.kill()

"""Consumers of librdkafka with `group.protocol=consumer` (KIP-848): who owns what, whatever becomes of them.

Each step ends when the living members own all partitions, each one once, in even shares; then what is written is read
once by the group, from where it was committed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.brokers import Broker, running_choice
from tests.clients.librdkafka import admin_client
from tests.conftest import KAFKA

pytestmark = pytest.mark.clients

PARTITIONS = 6
SETTLE_S = 60
SETTINGS = {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}

VICTIM = """
import sys
from confluent_kafka import Consumer
bootstrap, group, topic = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": "consumer"})
consumer.subscribe([topic])
while True:
    consumer.poll(0.1)
    print(len(consumer.assignment()), flush=True)
"""


@pytest.fixture
def consumer_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    settings = dict(SETTINGS)
    if request.config.getoption("--broker") == KAFKA:
        settings["group.consumer.max.heartbeat.interval.ms"] = "15000"
    with running_choice(request.config, tmp_path, settings) as it:
        yield it


class Story:
    """A topic, a group and its members."""

    def __init__(self, kafka: Any, broker: Broker) -> None:
        from confluent_kafka.admin import NewTopic

        self.kafka = kafka
        self.broker = broker
        word = secrets.token_hex(3)
        self.topic, self.group = f"orders-{word}", f"group-{word}"
        self.members: dict[str, Any] = {}
        self.written: list[bytes] = []
        self.read: list[bytes] = []
        self.admin = admin_client(broker.bootstrap)
        for future in self.admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)]).values():
            future.result(SETTLE_S)

    def join(self, name: str, protocol: str = "consumer", **settings: object) -> None:
        consumer = self.kafka.Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "group.id": self.group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 200,
                "reconnect.backoff.max.ms": 500,
                **settings,
            }
        )
        consumer.subscribe([self.topic])
        self.members[name] = consumer

    def leave(self, name: str) -> None:
        self.members.pop(name).close()

    def poll(self) -> None:
        for member in self.members.values():
            message = member.poll(0.02)
            if message is not None:
                assert message.error() is None, message.error()
                self.read.append(message.value())

    def settle(self, elsewhere: int = 0) -> dict[str, frozenset[int]]:
        """Poll until the members own all partitions but those that somebody else has, evenly."""
        deadline_s = time.monotonic() + SETTLE_S
        while True:
            self.poll()
            owned = {
                name: frozenset(each.partition for each in member.assignment()) for name, member in self.members.items()
            }
            sizes = [len(each) for each in owned.values()]
            of_all = frozenset().union(*owned.values())
            if len(of_all) == sum(sizes) == PARTITIONS - elsewhere and max(sizes) - min(sizes) <= 1:
                return owned
            assert time.monotonic() < deadline_s, (owned, self.broker.log_tail(2_000))

    def exchange(self, count: int = 60) -> None:
        """Write values, and read each one of them."""
        producer = self.kafka.Producer({"bootstrap.servers": self.broker.bootstrap})
        values = [f"{len(self.written) + number}".encode() for number in range(count)]
        for number, value in enumerate(values):
            producer.produce(self.topic, value, partition=number % PARTITIONS)
        assert producer.flush(SETTLE_S) == 0
        self.written += values
        deadline_s = time.monotonic() + SETTLE_S
        while not set(self.written) <= set(self.read):
            self.poll()
            assert time.monotonic() < deadline_s, sorted(set(self.written) - set(self.read))
        for member in self.members.values():
            with contextlib.suppress(self.kafka.KafkaException):  # nothing to commit
                member.commit(asynchronous=False)

    def described(self) -> Any:
        return self.admin.describe_consumer_groups([self.group])[self.group].result(SETTLE_S)

    def close(self) -> None:
        for member in self.members.values():
            member.close()


@pytest.fixture
def story(confluent_kafka: Any, consumer_broker: Broker) -> Iterator[Story]:
    made = Story(confluent_kafka, consumer_broker)
    yield made
    made.close()


def test_three_join_one_leaves(story: Story) -> None:
    for name in "abc":
        story.join(name)
        story.settle()
    story.exchange()
    story.leave("b")
    assert {len(each) for each in story.settle().values()} == {3}
    story.exchange()
    assert sorted(story.read) == sorted(story.written), "nothing twice: all was committed"
    described = story.described()
    assert (described.type.name, described.state.name, len(described.members)) == ("CONSUMER", "STABLE", 2)
    for name in "ac":
        story.leave(name)
    assert story.described().state.name == "EMPTY"


def test_one_is_killed(story: Story) -> None:
    story.join("a")
    command = [sys.executable, "-c", VICTIM, story.broker.bootstrap, story.group, story.topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
        try:
            assert victim.stdout is not None
            os.set_blocking(victim.stdout.fileno(), False)
            story.settle(elsewhere=PARTITIONS // 2)
        finally:
            victim.kill()
    assert len(story.settle()["a"]) == PARTITIONS, "the session of the killed one has ended"
    story.exchange()


def test_a_static_member_restarts(story: Story) -> None:
    for name in "ab":
        story.join(name, **{"group.instance.id": name})
    before = story.settle()
    story.exchange()
    story.leave("b")
    began_s = time.monotonic()
    while time.monotonic() < began_s + 1:  # its session is longer than that
        story.poll()
        assert {each.partition for each in story.members["a"].assignment()} == before["a"]
    story.join("b", **{"group.instance.id": "b"})
    assert story.settle() == before
    story.exchange()
    assert sorted(story.read) == sorted(story.written)


def test_an_expression_is_resolved_by_the_coordinator(story: Story) -> None:
    story.topic = f"^{story.topic}$"
    for name in "ab":
        story.join(name)
    story.topic = story.topic[1:-1]
    story.settle()
    story.exchange()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_the_daemon_is_restarted(story: Story, how: str) -> None:
    daemon = story.broker.daemon
    if daemon is None:
        pytest.skip("stops our daemon")
    for name in "abc":
        story.join(name)
    before = story.settle()
    story.exchange()
    daemon.stop() if how == "stop" else daemon.kill()
    time.sleep(1)
    daemon.start()
    story.exchange()
    assert story.settle() == before, "members, epochs and assignments were in the log"


def test_a_rolling_restart_changes_the_protocol_and_back(story: Story) -> None:
    names = "abc"
    how = {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 200, "partition.assignment.strategy": "range"}
    for name in names:
        story.join(name, "classic", **how)
    story.settle()
    story.exchange()
    for protocol, settings in (("consumer", {}), ("classic", how)):
        for name in names:
            story.leave(name)
            story.settle()
            story.join(name, protocol, **settings)
            story.settle()
            story.exchange()
        assert story.described().type.name == protocol.upper()
    assert set(story.read) == set(story.written)

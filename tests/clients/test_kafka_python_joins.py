"""kafka-python's consumer is silent after a poll that ended in its second join, unless that is mended."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer
from kafka.coordinator.consumer import ConsumerCoordinator

from coordinatord.testing import Kafka
from tests.clients import kafka_python_joins
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.clients

POLL_MS = 100
SILENT_S = 3.0
ATTEMPTS = 10
"""On a busy machine a consumer may know its topic before it joins."""


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with Kafka("thread", topics={"orders": 1}) as started:
        started.put("orders", ["hello"])
        yield started


@contextlib.contextmanager
def between_two_polls(kafka: Kafka, group: str) -> Iterator[KafkaConsumer | None]:
    """A consumer whose poll has ended while it waited for the second answer to SyncGroup, which it has now; None if it
    has not joined twice.
    """
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=kafka.bootstrap_servers, client_id=group, group_id=group,
        auto_offset_reset="earliest", fetch_max_wait_ms=20,
    )  # fmt: skip
    with contextlib.closing(consumer):
        with kafka.hold("SyncGroup", group=group, nth=2, optional=True) as second:
            ends_s = time.monotonic() + PATIENCE_S
            found = {}
            while not second.hits and not found:
                assert time.monotonic() < ends_s, "it neither joins again nor gets its record"
                found = consumer.poll(POLL_MS)
            consumer.poll(POLL_MS)
        yield None if found else consumer


def has_record_within(consumer: KafkaConsumer, seconds: float) -> bool:
    ends_s = time.monotonic() + seconds
    while time.monotonic() < ends_s:
        if consumer.poll(POLL_MS):
            return True
    return False


@pytest.mark.timeout(600)
def test_the_consumer_as_it_is_is_silent(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """When this fails, kafka-python needs to be mended no more."""
    monkeypatch.setattr(ConsumerCoordinator, "need_rejoin", kafka_python_joins.own())
    for number in range(ATTEMPTS):
        with between_two_polls(kafka, f"as-it-is-{number}") as consumer:
            if consumer is not None and not has_record_within(consumer, SILENT_S):
                return
    raise AssertionError("each consumer has got its record")


@pytest.mark.timeout(600)
def test_the_mended_one_is_not(kafka: Kafka) -> None:
    kafka_python_joins.finish_joins()
    for number in range(ATTEMPTS):
        with between_two_polls(kafka, f"mended-{number}") as consumer:
            if consumer is not None:
                assert has_record_within(consumer, PATIENCE_S)
                return
    raise AssertionError("no consumer has joined twice")

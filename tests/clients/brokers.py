"""One name for what a client test talks to: our daemon, Kafka itself, or something that runs elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import KAFKA, OURS
from tests.daemon import Daemon, running
from tests.reference.broker import KafkaBroker, kafka_libs, running_broker

QUICK_SETTINGS: Mapping[str, str] = {
    # Tests create many groups, and few of them are about the three seconds that a new one waits for its members.
    "group.initial.rebalance.delay.ms": "150",
    "group.min.session.timeout.ms": "500",
    "num.partitions": "2",
}
QUICK_CONSUMER_SETTINGS: Mapping[str, str] = {
    # By the consumer protocol: a group's own setting may be as short, and nobody waits for an assignment.
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.assignment.interval.ms": "0",
}


@dataclass(slots=True)
class Broker:
    """`daemon` is set when it is ours, `kafka` when it is Kafka's; neither when it runs elsewhere."""

    bootstrap: str
    daemon: Daemon | None = None
    kafka: KafkaBroker | None = None

    @property
    def nodes(self) -> int:
        """How many nodes it has; three partitions are spread over all of them."""
        return self.daemon.workers if self.daemon is not None else 1

    def log_tail(self, characters: int) -> str:
        source = self.daemon or self.kafka
        return source.log_tail(characters) if source is not None else ""


@contextlib.contextmanager
def running_choice(
    config: pytest.Config, directory: Path, settings: Mapping[str, str], choice: str | None = None
) -> Iterator[Broker]:
    """The broker that `--broker` names, or `choice`, with `settings` unless it runs elsewhere. Ours has `--workers`."""
    choice = choice or config.getoption("--broker")
    if choice == OURS:
        with running(directory, settings, workers=config.getoption("--workers")) as daemon:
            yield Broker(daemon.bootstrap, daemon=daemon)
    elif choice == KAFKA:
        with running_broker(kafka_libs(), directory, settings) as kafka:
            yield Broker(kafka.bootstrap, kafka=kafka)
    else:
        yield Broker(choice)

"""What consumers of the consumer protocol send while nothing changes is answered by its shortcut."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinatord.server.fastpath.consumer_heartbeats import ConsumerHeartbeats
from coordinatord.transport.net.connection import Connection
from kafka_wire.framing import Frames
from tests.clients.librdkafka import admin_client
from tests.support.served import Served
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.clients, pytest.mark.interpreted]

LEAST = 20
INTERVAL_MS = 200


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(
        tmp_path,
        group_consumer_min_heartbeat_interval_ms=INTERVAL_MS,
        group_consumer_heartbeat_interval_ms=INTERVAL_MS,
        group_consumer_assignment_interval_ms=0,
    )
    yield made
    made.stop()


@pytest.mark.parametrize("instance_id", [None, "static"])
def test_librdkafkas_heartbeats_are_the_same_bytes(
    served: Served, monkeypatch: pytest.MonkeyPatch, instance_id: str | None
) -> None:
    """All but the first in each epoch. (A member without partitions says all, each time.)"""
    confluent_kafka = pytest.importorskip("confluent_kafka", reason="pip install '.[clients]'")
    from confluent_kafka.admin import NewTopic

    seen: Counter[bool] = Counter()
    answer = ConsumerHeartbeats.answer

    def counted(self: ConsumerHeartbeats, connection: Connection, frames: Frames, first: int, stop: int) -> int:
        count = answer(self, connection, frames, first, stop)
        seen[count > 0] += max(1, count)
        return count

    monkeypatch.setattr(ConsumerHeartbeats, "answer", counted)
    admin = admin_client(served.bootstrap)
    admin.create_topics([NewTopic("orders", 4, 1)])["orders"].result(30)
    settings: dict[str, Any] = {
        "bootstrap.servers": served.bootstrap,
        "group.id": "steady",
        "group.protocol": "consumer",
    }
    consumers = []
    for number in range(2):
        own = {} if instance_id is None else {"group.instance.id": f"{instance_id}-{number}"}
        consumer = confluent_kafka.Consumer({**settings, **own})
        consumer.subscribe(["orders"])
        consumers.append(consumer)
    try:
        _poll(consumers, lambda: all(len(consumer.assignment()) == 2 for consumer in consumers))
        _poll(consumers, lambda: seen[True] >= LEAST)
        seen.clear()
        _poll(consumers, lambda: seen[True] >= LEAST)
        assert sum(len(consumer.assignment()) for consumer in consumers) == 4
        assert seen[False] == 0
    finally:
        for consumer in consumers:
            consumer.close()


def _poll(consumers: list[Any], until: Any) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < deadline_s, "the shortcut answers nobody"
        for consumer in consumers:
            consumer.poll(0.05)

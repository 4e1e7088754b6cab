"""What consumers of the consumer protocol send while nothing changes is answered by its shortcut."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinatord.base.config import Settings
from coordinatord.base.config.address import parse_listeners
from coordinatord.base.observe.health import HealthState
from coordinatord.server.daemon.daemon import Daemon
from coordinatord.server.fastpath.consumer_heartbeats import ConsumerHeartbeats
from coordinatord.transport.net.connection import Connection
from kafka_wire.framing import Frames
from tests.clients.librdkafka import admin_client
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.clients, pytest.mark.interpreted]

LEAST = 20
INTERVAL_MS = 200


class Served:
    """A daemon with a thread and an event loop of its own."""

    def __init__(self, data_dir: Path) -> None:
        self._settings = dataclasses.replace(
            Settings(),
            log_dirs=str(data_dir),
            listeners=parse_listeners("127.0.0.1:0"),
            log_flush="never",
            group_consumer_min_heartbeat_interval_ms=INTERVAL_MS,
            group_consumer_heartbeat_interval_ms=INTERVAL_MS,
            group_consumer_assignment_interval_ms=0,
        )
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._is_up.wait(30)

    async def _serve(self) -> None:
        daemon = Daemon(self._settings, asyncio.get_running_loop())
        await daemon.start()
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        self.bootstrap = f"127.0.0.1:{daemon.bound[0][2]}"
        while daemon.health.state is not HealthState.READY:  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0.01)
        self._is_up.set()
        await self._ended.wait()
        await daemon.stop()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(30)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
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

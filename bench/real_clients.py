"""Consumers of librdkafka in a process of their own: they live in one group of a server, which costs it something.

    python -m bench.real_clients '{"port": 9092, "pid": 4711, "consumers": 60, …}'

Its first argument is the `Order`. When all consumers have partitions and records it says `ready`; then it answers each
line of its input, `{"seconds": …}`, with what went on meanwhile, and ends with its input. Every line is JSON. Whatever
goes wrong is its last line, `{"failed": …}`.

The consumers have librdkafka's defaults (a heartbeat in 3 s, long polls of 500 ms), but commit each
second. One more client writes a record a second to each one's partition.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.child import cpu_at_rest_s, tell
from bench.servers import cpu_s, pin

GROUP, TOPIC = "real-clients", "real-clients"
VALUE = b"x" * 100
COMMIT_MS, STATISTICS_MS = 1_000, 1_000
LOG_ERR = 3
POLL_S, LOOK_S = 0.25, 0.1
READY_S = 90.0

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Order:
    """Whom to drive and with what; `cores` are the generator's own."""

    port: int
    pid: int
    consumers: int
    warm_s: float
    cores: list[int]


class Requests:
    """How many requests of each kind a client has sent, and how many in a second, by its own account."""

    def __init__(self) -> None:
        self.at_s = 0.0
        self.sent: Counter[str] = Counter()

    def on_statistics(self, text: str) -> None:
        """librdkafka's statistics, which come each second."""
        statistics = json.loads(text)
        sent: Counter[str] = Counter()
        for broker in statistics["brokers"].values():
            sent.update({name: count for name, count in broker["req"].items() if count})
        self.at_s, self.sent = statistics["ts"] / 1e6, sent

    def seen(self) -> tuple[float, Counter[str]]:
        return self.at_s, self.sent


def per_second(before: tuple[float, Counter[str]], after: tuple[float, Counter[str]]) -> dict[str, float]:
    """By name, between two looks at the same client."""
    took_s = after[0] - before[0]
    return {name: count / took_s for name, count in (after[1] - before[1]).items()} if took_s else {}


class Clients:
    """All of them. Each consumer has a thread, as it would have in an application."""

    def __init__(self, order: Order) -> None:
        import confluent_kafka

        self.order = order
        self.accounts = [Requests() for _ in range(order.consumers + 1)]
        self.records = [0] * order.consumers
        self.assigned = [0] * order.consumers
        self.failed: str | None = None
        bootstrap: Json = {"bootstrap.servers": f"127.0.0.1:{order.port}", "statistics.interval.ms": STATISTICS_MS}
        bootstrap["log_level"] = LOG_ERR
        self._own: Json = {
            **bootstrap,
            "group.id": GROUP,
            "auto.commit.interval.ms": COMMIT_MS,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "range",
        }
        self._kafka = confluent_kafka
        self._producer = confluent_kafka.Producer(
            {**bootstrap, "linger.ms": 0, "stats_cb": self.accounts[-1].on_statistics}
        )
        self._make_topic(bootstrap["bootstrap.servers"])
        threading.Thread(target=self._produce, daemon=True).start()
        for number in range(order.consumers):
            threading.Thread(target=self._consume, args=(number,), daemon=True).start()
        self._wait_until_ready()

    def _make_topic(self, bootstrap: str) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": bootstrap})  # kept: what it does ends with it
        admin.create_topics([NewTopic(TOPIC, self.order.consumers, 1)])[TOPIC].result(READY_S)

    def _produce(self) -> None:
        due_s, number = time.monotonic(), 0
        while True:
            self._producer.produce(TOPIC, VALUE, partition=number % self.order.consumers)
            self._producer.poll(0)
            number += 1
            due_s += 1 / self.order.consumers
            time.sleep(max(0.0, due_s - time.monotonic()))

    def _consume(self, number: int) -> None:
        consumer = self._kafka.Consumer({**self._own, "stats_cb": self.accounts[number].on_statistics})

        def given(_: Any, partitions: list[Any]) -> None:
            self.assigned[number] += len(partitions)

        def taken(_: Any, partitions: list[Any]) -> None:
            self.assigned[number] -= len(partitions)

        consumer.subscribe([TOPIC], on_assign=given, on_revoke=taken)
        while True:
            message = consumer.poll(POLL_S)
            if message is None:
                continue
            if message.error() is not None and message.error().fatal():
                self.failed = str(message.error())
            elif message.error() is None:
                self.records[number] += 1

    def _wait_until_ready(self) -> None:
        until_s = time.monotonic() + READY_S
        while self.assigned != [1] * self.order.consumers or not all(self.records):
            if self.failed or time.monotonic() > until_s:
                raise RuntimeError(self.failed or f"partitions: {self.assigned}, records: {self.records}")
            time.sleep(LOOK_S)
        time.sleep(self.order.warm_s)

    def window(self, seconds: float) -> Json:
        """Let some time go by."""
        before = [each.seen() for each in self.accounts]
        records, used_s, own_s, began_s = (
            sum(self.records),
            cpu_s(self.order.pid),
            time.process_time(),
            time.monotonic(),
        )
        time.sleep(seconds)
        used_s = cpu_at_rest_s(self.order.pid) - used_s
        wall_s = time.monotonic() - began_s
        sent: Counter[str] = Counter()
        for first, account in zip(before, self.accounts, strict=True):
            sent.update(per_second(first, account.seen()))
        return {
            "wall_s": wall_s,
            "server_cpu_s": used_s,
            "own_cpu_s": time.process_time() - own_s,
            "records": sum(self.records) - records,
            "requests_per_s": dict(sent),
            "failed": self.failed,
        }


def main(order: Order, kind: Callable[[Order], Any]) -> None:
    """Until there is nothing more to do. `kind` makes the clients."""
    try:
        pin(os.getpid(), set(order.cores))
        clients = kind(order)
        tell({"ready": True})
        for line in sys.stdin:
            tell({name: each for name, each in clients.window(**json.loads(line)).items() if each is not None})
    except Exception as why:
        tell({"failed": f"{type(why).__name__}: {why}"})
        raise
    finally:
        sys.stdout.flush()
        os._exit(0)  # sixty consumers that leave in order take longer than the round


if __name__ == "__main__":
    main(Order(**json.loads(sys.argv[1])), Clients)

"""What a reader waits for: from a record's produce() to the return of another client's poll() with it.

Producer and consumer are librdkafka's, with their default settings but linger.ms=0, in threads of this process. One
record is under way at a time, in steady intervals; the server has nothing else to do, which is how tests and small
services use it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

from bench.generator import HOST, WrongAnswer
from bench.registry import KAFKA, KFAKE, OURS_FLUSHED, OURS_NEVER, Arena, Column, Measure, Sample, at_most, row
from bench.servers import Server, Unavailable

RATES = (1, 10, 100)
"""Records a second, each in a row of its own."""
RECORDS_LEAST, SECONDS_TIMES = 20, 4
WARM_RECORDS = 200
WARM_INTERVAL_S = 0.005
WAIT_S = 30.0


class Pair:
    """A producer, and a consumer in a group of its own that has its partition."""

    def __init__(self, server: Server) -> None:
        from confluent_kafka import Consumer, Producer

        self.topic = f"latency-{uuid.uuid4().hex}"
        self._arrived = threading.Event()
        self._returned_s = 0.0
        self._value = b""
        self._ended = False
        bootstrap: dict[str, Any] = {"bootstrap.servers": f"{HOST}:{server.port}", "log_level": 3}
        self._producer = Producer({**bootstrap, "linger.ms": 0})
        self._producer.produce(self.topic, b"first")
        if self._producer.flush(WAIT_S):
            raise WrongAnswer("the first record was not accepted")
        self._consumer = Consumer({**bootstrap, "group.id": self.topic, "auto.offset.reset": "earliest"})
        self._consumer.subscribe([self.topic])
        self._thread = threading.Thread(target=self._consume, daemon=True)
        self._thread.start()
        self._await(b"first")

    def _consume(self) -> None:
        while not self._ended:
            message = self._consumer.poll(0.5)
            if message is not None and message.error() is None:
                self._returned_s, self._value = time.perf_counter(), message.value() or b""
                self._arrived.set()

    def _await(self, value: bytes) -> None:
        if not self._arrived.wait(WAIT_S) or self._value != value:
            raise WrongAnswer(f"the consumer did not get {value!r} within {WAIT_S:.0f} s but {self._value!r}")
        self._arrived.clear()

    def send(self, count: int, interval_s: float) -> list[float]:
        """Send so many records one after the other; return the seconds that each took."""
        taken: list[float] = []
        due_s = time.perf_counter()
        for number in range(count):
            value = b"%d" % number
            began_s = time.perf_counter()
            self._producer.produce(self.topic, value)
            self._producer.poll(0)
            self._await(value)
            taken.append(self._returned_s - began_s)
            due_s += interval_s
            time.sleep(max(0.0, due_s - time.perf_counter()))
        return taken

    def close(self) -> None:
        self._ended = True
        self._thread.join(WAIT_S)
        self._consumer.close()


@contextlib.contextmanager
def warm(server: Server) -> Iterator[Pair]:
    """A pair whose server and clients have done the work before."""
    pair = Pair(server)
    try:
        pair.send(WARM_RECORDS, WARM_INTERVAL_S)
        yield pair
    finally:
        pair.close()


def at_rate(rate: int) -> Measure:
    def latency(arena: Arena, column: Column, seconds: float) -> Sample:
        if importlib.util.find_spec("confluent_kafka") is None:
            raise Unavailable("latencies are left out: confluent-kafka is not installed (the extra `clients`)")
        server = arena.server(column)
        count = max(RECORDS_LEAST, round(rate * seconds * SECONDS_TIMES))
        with warm(server) as pair:
            used_s = server.cpu_s()
            taken = pair.send(count, 1 / rate)
            used_s = server.cpu_s() - used_s
        middle_s = sorted(taken)[len(taken) // 2]
        return Sample(middle_s * 1_000, [(each, 1) for each in taken], also={"CPU µs a record": used_s / count * 1e6})

    return latency


for each in RATES:
    row(
        f"latency-{each}",
        f"a record at a time, {each} a second: from produce to another consumer's poll",
        "ms",
        columns=[OURS_NEVER, OURS_FLUSHED, KAFKA, KFAKE],
        targets=[
            at_most(1, of="kafka"),
            at_most(1, of="kfake"),
            at_most(1, of="kafka", what="p99"),
            at_most(1, of="kfake", what="p99"),
        ],
        rounds=3,
        quick=False,
    )(at_rate(each))

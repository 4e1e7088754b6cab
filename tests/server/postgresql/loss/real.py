"""kafka-python's producer and transactional producer, each with a thread, and what is there when all is over."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from tests.server.postgresql.loss.history import ABORTED, COMMITTED, UNKNOWN, Partition, Records, Transactions

RECORDS, RECORDS_PARTITIONS = "records", 3
PAIRS, PAIRS_PARTITIONS = "pairs", 3
WAIT_S = 15.0
PAUSE_S = 0.03
END_S = 60.0

SETTINGS: dict[str, Any] = {
    "metadata_max_age_ms": 1_000,
    "request_timeout_ms": 5_000,
    "reconnect_backoff_max_ms": 200,
}
PRODUCER: dict[str, Any] = {**SETTINGS, "acks": "all", "max_block_ms": 10_000, "delivery_timeout_ms": 10_000}


class Client:
    """A thread that works until `stop`. After an error of the client it makes a new one, as an application would. One
    that hangs is left behind: when the coordinator's node cannot be reached, kafka-python 3.0.12's sender looks for the
    coordinator again and forgets the request, and commit_transaction waits for ever.
    """

    def __init__(self, bootstrap: list[str]) -> None:
        self.progress = 0
        self.problem: BaseException | None = None
        self.errors = 0
        self.left_behind = 0
        self._bootstrap = bootstrap
        self._begin()

    def _begin(self) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._stopping,), name=type(self).__name__, daemon=True)
        self._thread.start()

    def leave_behind(self) -> None:
        """Go on with another thread. What the old one is still told counts. Its stack says where it hangs."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        print(f"{type(self).__name__} hangs:", *(traceback.format_stack(frame) if frame else ()), sep="\n")
        self.left_behind += 1
        self._stopping.set()
        self._begin()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(END_S)
        if self._thread.is_alive():
            self.left_behind += 1

    def _run(self, stopping: threading.Event) -> None:
        try:
            while not stopping.is_set():
                try:
                    with self._producer() as producer:
                        self.begin(producer)
                        while not stopping.wait(PAUSE_S):
                            self.work(producer)
                except KafkaError:
                    self.errors += 1
        except BaseException as problem:
            self.problem = problem

    @contextlib.contextmanager
    def _producer(self) -> Iterator[Any]:
        producer = KafkaProducer(bootstrap_servers=self._bootstrap, **PRODUCER, **self.settings())
        try:
            yield producer
        finally:
            with contextlib.suppress(KafkaError):
                producer.close(timeout=1)

    def settings(self) -> dict[str, Any]:
        return {}

    def begin(self, producer: Any) -> None:
        """A new producer."""

    def work(self, producer: Any) -> None:
        """A little, counted by `progress`."""
        raise NotImplementedError


class Producing(Client):
    """Sends values that are never sent again by the application, one record to each partition at a time."""

    def __init__(self, bootstrap: list[str]) -> None:
        self.records = Records()
        self._count = 0
        super().__init__(bootstrap)

    def work(self, producer: Any) -> None:
        sent = []
        for number in range(RECORDS_PARTITIONS):
            value = b"%d" % self._count
            self._count += 1
            self.records.sent.add(value)
            sent.append((number, value, producer.send(RECORDS, value, partition=number)))
        for number, value, future in sent:
            told = future.get(timeout=WAIT_S)
            self.records.acknowledge((RECORDS, number), told.offset, value)
            self.progress += 1


class Transacting(Client):
    """Writes its id to all partitions; aborts every fourth time."""

    def __init__(self, bootstrap: list[str]) -> None:
        self.transactions = Transactions()
        self._count = 0
        super().__init__(bootstrap)

    def settings(self) -> dict[str, Any]:
        return {"transactional_id": "pairs", "transaction_timeout_ms": 10_000}

    def begin(self, producer: Any) -> None:
        producer.init_transactions()

    def work(self, producer: Any) -> None:
        name = b"tx %d" % self._count
        self._count += 1
        outcomes = self.transactions.outcomes
        outcomes[name] = UNKNOWN
        producer.begin_transaction()
        futures = [producer.send(PAIRS, name, partition=number) for number in range(PAIRS_PARTITIONS)]
        for future in futures:
            future.get(timeout=WAIT_S)
        if self._count % 4:
            producer.commit_transaction()
            outcomes[name] = COMMITTED
        else:
            producer.abort_transaction()
            outcomes[name] = ABORTED
        self.progress += 1


def read_all(bootstrap: list[str], topic: str, partitions: int) -> dict[Partition, dict[int, bytes]]:
    """What read_committed reads, from the first record to the last."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest", **SETTINGS
    )
    try:
        places = [TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        ends = consumer.end_offsets(places)
        found: dict[Partition, dict[int, bytes]] = {(topic, number): {} for number in range(partitions)}
        deadline_s = time.monotonic() + END_S
        while any(consumer.position(place) < ends[place] for place in places):
            assert time.monotonic() < deadline_s, "the end is not reached: is a transaction open?"
            for place, batch in consumer.poll(timeout_ms=500).items():
                found[topic, place.partition].update((record.offset, record.value) for record in batch)
        return found
    finally:
        consumer.close()

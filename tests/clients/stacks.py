"""The four Python stacks behind one small interface: what a test of verbs and faults asks of any client.

Each is used as an application uses it: kafka-python and confluent-kafka in threads, aiokafka and FastStream on an event
loop. Offsets are committed automatically, every 20 ms.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import faststream.kafka
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import RetriableError

from coordinatord.testing import Kafka
from tests.support.waiting import PATIENCE_S

TOPIC = "orders"

Send = Callable[[bytes], None]
"""Sends a value to the topic's first partition; returns when it is acknowledged, raises if it is not."""


class Transactional(Protocol):
    """A producer with a transactional id, in an open transaction."""

    def send(self, value: bytes) -> None: ...

    def commit(self) -> None: ...


@dataclass(frozen=True)
class Stack:
    """`consuming(kafka, client, group)`: the list to which values are added as they come. `writing(kafka, client,
    idempotent)`: sends. `transacting(kafka, client, transactional_id)`: None if the stack has no transactions.
    """

    name: str
    consuming: Callable[[Kafka, str, str], AbstractContextManager[list[bytes]]]
    writing: Callable[[Kafka, str, bool], AbstractContextManager[Send]]
    transacting: Callable[[Kafka, str, str], AbstractContextManager[Transactional]] | None

    def __str__(self) -> str:
        return self.name


# kafka-python

SOON = {"api_version": (4, 0), "retry_backoff_ms": 10, "reconnect_backoff_ms": 10}


@contextmanager
def kafka_python_consuming(kafka: Kafka, client: str, group: str) -> Iterator[list[bytes]]:
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=kafka.bootstrap_servers,
        client_id=client,
        group_id=group,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=20,
        fetch_max_wait_ms=20,
        heartbeat_interval_ms=20,
        metadata_max_age_ms=1_000,  # it may have joined before it knew the topic
        **SOON,
    )

    def poll(add: Callable[[bytes], None]) -> None:
        # It joins anew when a poll ends in the middle of a join.
        try:
            found = consumer.poll(timeout_ms=200)
        except RetriableError:  # its way to say that the coordinator refuses connections: applications poll again
            return
        for records in found.values():
            for record in records:
                add(record.value)

    with _polled(poll, consumer.close) as values:
        yield values


@contextmanager
def _kafka_python_producer(kafka: Kafka, client: str, **own: Any) -> Iterator[Any]:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, client_id=client, **SOON, **own)
    try:
        yield producer
    finally:
        producer.close(timeout=PATIENCE_S)


@contextmanager
def kafka_python_writing(kafka: Kafka, client: str, idempotent: bool) -> Iterator[Send]:
    with _kafka_python_producer(kafka, client, enable_idempotence=idempotent) as producer:
        yield lambda value: producer.send(TOPIC, value, partition=0).get(timeout=PATIENCE_S)


class _KafkaPythonTransaction:
    def __init__(self, producer: Any) -> None:
        self._producer = producer
        producer.init_transactions()
        producer.begin_transaction()

    def send(self, value: bytes) -> None:
        self._producer.send(TOPIC, value, partition=0).get(timeout=PATIENCE_S)

    def commit(self) -> None:
        self._producer.commit_transaction()


@contextmanager
def kafka_python_transacting(kafka: Kafka, client: str, transactional_id: str) -> Iterator[Transactional]:
    with _kafka_python_producer(kafka, client, transactional_id=transactional_id) as producer:
        yield _KafkaPythonTransaction(producer)


# confluent-kafka


def _confluent(kafka: Kafka, client: str, **own: Any) -> dict[str, Any]:
    common = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "client.id": client,
        "reconnect.backoff.ms": 10,
        "retry.backoff.ms": 10,
        "log_level": 0,
    }
    return common | own


@contextmanager
def confluent_consuming(kafka: Kafka, client: str, group: str) -> Iterator[list[bytes]]:
    own = {
        "group.id": group,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 20,
        "fetch.wait.max.ms": 20,
        "heartbeat.interval.ms": 20,
        "statistics.interval.ms": 20,
    }
    consumer = confluent_kafka.Consumer(_confluent(kafka, client, **own))
    consumer.subscribe([TOPIC])

    def poll(add: Callable[[bytes], None]) -> None:
        message = consumer.poll(0.02)
        if message is not None and message.error() is None:
            add(message.value() or b"")

    with _polled(poll, consumer.close) as values:
        yield values


@contextmanager
def confluent_writing(kafka: Kafka, client: str, idempotent: bool) -> Iterator[Send]:
    producer = confluent_kafka.Producer(_confluent(kafka, client, **{"enable.idempotence": idempotent, "linger.ms": 0}))
    producer.list_topics(TOPIC, timeout=PATIENCE_S)
    yield functools.partial(_confluent_send, producer)


def _confluent_send(producer: confluent_kafka.Producer, value: bytes) -> None:
    errors: list[Any] = []
    producer.produce(TOPIC, value, partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(PATIENCE_S) == 0, "not in time"
    if errors[0] is not None:
        raise confluent_kafka.KafkaException(errors[0])


class _ConfluentTransaction:
    def __init__(self, producer: confluent_kafka.Producer) -> None:
        self._producer = producer
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()

    def send(self, value: bytes) -> None:
        _confluent_send(self._producer, value)

    def commit(self) -> None:
        self._producer.commit_transaction(PATIENCE_S)


@contextmanager
def confluent_transacting(kafka: Kafka, client: str, transactional_id: str) -> Iterator[Transactional]:
    own = {"transactional.id": transactional_id, "linger.ms": 0}
    yield _ConfluentTransaction(confluent_kafka.Producer(_confluent(kafka, client, **own)))


# aiokafka and FastStream, on one event loop for all tests


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run_coroutine_threadsafe(work, _loop()).result(PATIENCE_S)


async def _made(make: Callable[..., Any], *positional: Any, **named: Any) -> Any:
    """aiokafka's clients want to be made where their loop runs."""
    return make(*positional, **named)


@contextmanager
def aiokafka_consuming(kafka: Kafka, client: str, group: str) -> Iterator[list[bytes]]:
    values: list[bytes] = []

    async def consume() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=kafka.bootstrap_servers,
            client_id=client,
            group_id=group,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=20,
            fetch_max_wait_ms=20,
            heartbeat_interval_ms=20,
            retry_backoff_ms=10,
        )
        async with consumer:
            async for record in consumer:
                values.append(record.value)

    consuming = asyncio.run_coroutine_threadsafe(consume(), _loop())
    try:
        yield values
    finally:
        consuming.cancel()
        _run(_until_over(consuming))


async def _until_over(work: Any) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.wrap_future(work)


@contextmanager
def _aiokafka_producer(kafka: Kafka, client: str, **own: Any) -> Iterator[Any]:
    settings = {"bootstrap_servers": kafka.bootstrap_servers, "client_id": client, "retry_backoff_ms": 10, **own}
    producer = _run(_made(aiokafka.AIOKafkaProducer, **settings))
    _run(producer.start())
    try:
        yield producer
    finally:
        _run(producer.stop())


@contextmanager
def aiokafka_writing(kafka: Kafka, client: str, idempotent: bool) -> Iterator[Send]:
    with _aiokafka_producer(kafka, client, enable_idempotence=idempotent) as producer:
        yield lambda value: _run(producer.send_and_wait(TOPIC, value, partition=0))


class _AiokafkaTransaction:
    def __init__(self, producer: Any) -> None:
        self._producer = producer
        _run(producer.begin_transaction())

    def send(self, value: bytes) -> None:
        _run(self._producer.send_and_wait(TOPIC, value, partition=0))

    def commit(self) -> None:
        _run(self._producer.commit_transaction())


@contextmanager
def aiokafka_transacting(kafka: Kafka, client: str, transactional_id: str) -> Iterator[Transactional]:
    with _aiokafka_producer(kafka, client, transactional_id=transactional_id) as producer:
        yield _AiokafkaTransaction(producer)


async def _service(kafka: Kafka, client: str, **own: Any) -> faststream.kafka.KafkaBroker:
    settings = {"client_id": client, "retry_backoff_ms": 10, "logger": None, **own}
    return faststream.kafka.KafkaBroker(kafka.bootstrap_servers, **settings)


@contextmanager
def faststream_consuming(kafka: Kafka, client: str, group: str) -> Iterator[list[bytes]]:
    values: list[bytes] = []
    broker = _run(_service(kafka, client))

    @broker.subscriber(  # type: ignore[untyped-decorator]
        TOPIC,
        group_id=group,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=20,
        fetch_max_wait_ms=20,
        heartbeat_interval_ms=20,
    )
    async def handle(value: bytes) -> None:
        values.append(value)

    _run(broker.start())
    try:
        yield values
    finally:
        _run(broker.stop())


@contextmanager
def faststream_writing(kafka: Kafka, client: str, idempotent: bool) -> Iterator[Send]:
    broker = _run(_service(kafka, client, enable_idempotence=idempotent))
    _run(broker.connect())
    try:
        yield lambda value: _run(broker.publish(value, TOPIC, partition=0))
    finally:
        _run(broker.stop())


@contextmanager
def _polled(poll: Callable[[Callable[[bytes], None]], None], close: Callable[[], None]) -> Iterator[list[bytes]]:
    """`poll(add)` again and again in a thread, which closes the consumer at the end."""
    values: list[bytes] = []
    stops = threading.Event()

    def run() -> None:
        while not stops.is_set():
            poll(values.append)
        close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield values
    finally:
        stops.set()
        thread.join(PATIENCE_S)


STACKS = (
    Stack("kafka-python", kafka_python_consuming, kafka_python_writing, kafka_python_transacting),
    Stack("aiokafka", aiokafka_consuming, aiokafka_writing, aiokafka_transacting),
    Stack("confluent-kafka", confluent_consuming, confluent_writing, confluent_transacting),
    Stack("FastStream", faststream_consuming, faststream_writing, None),
)

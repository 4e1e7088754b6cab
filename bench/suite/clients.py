"""kafka-python, confluent-kafka and aiokafka behind one small interface, with the settings they have by default.

What differs from the defaults is what each of these tests would say: where a new group begins, no automatic commits
(the tests commit by themselves), the isolation level and the static member's id.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

LIMIT_S = 60.0
"""The time after which a client that does not get what it waits for fails its test."""
T = TypeVar("T")


def _missing(wanted: int, found: Sequence[bytes]) -> AssertionError:
    return AssertionError(f"{len(found)} of {wanted} records in {LIMIT_S:.0f} s")


class KafkaPythonConsumer:
    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def read(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        until_s = time.monotonic() + LIMIT_S
        while len(found) < count:
            if time.monotonic() > until_s:
                raise _missing(count, found)
            for records in self._consumer.poll(timeout_ms=1_000).values():
                found += [record.value for record in records]
        return found

    def commit(self) -> None:
        self._consumer.commit()

    def committed(self, topic: str) -> int | None:
        from kafka import TopicPartition

        committed: int | None = self._consumer.committed(TopicPartition(topic, 0))
        return committed


class KafkaPython:
    NAME = "kafka-python"

    def produce(self, bootstrap: str, topic: str, values: Sequence[bytes]) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=bootstrap)
        for value in values:
            producer.send(topic, value)
        producer.flush()
        producer.close()

    def transactions(self, bootstrap: str, topic: str, aborted: Sequence[bytes], committed: Sequence[bytes]) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
        producer.init_transactions()
        for values, end in ((aborted, producer.abort_transaction), (committed, producer.commit_transaction)):
            producer.begin_transaction()
            for value in values:
                producer.send(topic, value)
            producer.flush()
            end()
        producer.close()

    @contextlib.contextmanager
    def consumer(
        self, bootstrap: str, topic: str, group: str, *, committed_only: bool = False, instance: str | None = None
    ) -> Iterator[KafkaPythonConsumer]:
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            group_instance_id=instance,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed" if committed_only else "read_uncommitted",
        )
        try:
            yield KafkaPythonConsumer(consumer)
        finally:
            consumer.close()


class ConfluentConsumer:
    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def read(self, count: int) -> list[bytes]:
        from confluent_kafka import KafkaError

        found: list[bytes] = []
        until_s = time.monotonic() + LIMIT_S
        while len(found) < count:
            if time.monotonic() > until_s:
                raise _missing(count, found)
            message = self._consumer.poll(1.0)
            if message is None or (message.error() and message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART):
                continue
            assert message.error() is None, message.error()
            found.append(message.value())
        return found

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def committed(self, topic: str) -> int:
        from confluent_kafka import TopicPartition

        return int(self._consumer.committed([TopicPartition(topic, 0)], LIMIT_S)[0].offset)


class Confluent:
    NAME = "confluent-kafka"

    def produce(self, bootstrap: str, topic: str, values: Sequence[bytes]) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": bootstrap})
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(LIMIT_S) == 0

    def transactions(self, bootstrap: str, topic: str, aborted: Sequence[bytes], committed: Sequence[bytes]) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
        producer.init_transactions(LIMIT_S)
        for values, end in ((aborted, producer.abort_transaction), (committed, producer.commit_transaction)):
            producer.begin_transaction()
            for value in values:
                producer.produce(topic, value)
            assert producer.flush(LIMIT_S) == 0
            end(LIMIT_S)

    @contextlib.contextmanager
    def consumer(
        self, bootstrap: str, topic: str, group: str, *, committed_only: bool = False, instance: str | None = None
    ) -> Iterator[ConfluentConsumer]:
        from confluent_kafka import Consumer

        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed" if committed_only else "read_uncommitted",
        }
        consumer = Consumer({**settings, "group.instance.id": instance} if instance else settings)
        consumer.subscribe([topic])
        try:
            yield ConfluentConsumer(consumer)
        finally:
            consumer.close()


class AiokafkaConsumer:
    def __init__(self, loop: asyncio.Runner, consumer: Any) -> None:
        self._loop, self._consumer = loop, consumer

    def read(self, count: int) -> list[bytes]:
        async def read() -> list[bytes]:
            return [(await self._consumer.getone()).value for _ in range(count)]

        return self._loop.run(asyncio.wait_for(read(), LIMIT_S))

    def commit(self) -> None:
        self._loop.run(self._consumer.commit())

    def committed(self, topic: str) -> int | None:
        from aiokafka import TopicPartition

        committed: int | None = self._loop.run(self._consumer.committed(TopicPartition(topic, 0)))
        return committed


class Aiokafka:
    NAME = "aiokafka"

    def produce(self, bootstrap: str, topic: str, values: Sequence[bytes]) -> None:
        from aiokafka import AIOKafkaProducer

        async def produce() -> None:
            async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
                for sent in [await producer.send(topic, value) for value in values]:
                    await sent

        _run(produce())

    def transactions(self, bootstrap: str, topic: str, aborted: Sequence[bytes], committed: Sequence[bytes]) -> None:
        from aiokafka import AIOKafkaProducer

        async def transactions() -> None:
            async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
                for values, end in ((aborted, producer.abort_transaction), (committed, producer.commit_transaction)):
                    await producer.begin_transaction()
                    for sent in [await producer.send(topic, value) for value in values]:
                        await sent
                    await end()

        _run(transactions())

    @contextlib.contextmanager
    def consumer(
        self, bootstrap: str, topic: str, group: str, *, committed_only: bool = False, instance: str | None = None
    ) -> Iterator[AiokafkaConsumer]:
        from aiokafka import AIOKafkaConsumer

        async def started() -> Any:
            consumer = AIOKafkaConsumer(
                topic,
                bootstrap_servers=bootstrap,
                group_id=group,
                group_instance_id=instance,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed" if committed_only else "read_uncommitted",
            )
            await consumer.start()
            return consumer

        with asyncio.Runner() as loop:
            consumer = loop.run(asyncio.wait_for(started(), LIMIT_S))
            try:
                yield AiokafkaConsumer(loop, consumer)
            finally:
                loop.run(consumer.stop())


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner() as loop:
        return loop.run(coroutine)


ALL = [KafkaPython(), Confluent(), Aiokafka()]

"""Tests as users write them, for four client libraries: more than docs/testing.md shows. They need no conftest."""

# ruff: noqa: E402  # who has not all four libraries runs none of these
from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

for library in ("kafka", "aiokafka", "confluent_kafka", "faststream.kafka"):
    pytest.importorskip(library)

import aiokafka
import aiokafka.errors
import confluent_kafka
import faststream.kafka
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import CommitFailedError, RetriableError
from kafka.structs import OffsetAndMetadata, TopicPartition

from coordinatord.testing import Kafka

pytestmark = [pytest.mark.clients, pytest.mark.kafka(topics={"orders": 4})]


# kafka-python. A consumer of an application is polled by a thread: here, too.


SOON = {
    # With a version kafka-python asks for the topics it needs at once; without one, 100 ms after its first question.
    "api_version": (4, 0),
    "retry_backoff_ms": 10,
    "reconnect_backoff_ms": 10,
}
READS_SOON = {
    **SOON,
    # What a client asks a node waits behind its Fetch.
    "fetch_max_wait_ms": 20,
    "heartbeat_interval_ms": 20,
}


class Worker:
    """Polls a consumer, and works on what it gets."""

    def __init__(
        self,
        kafka: Kafka,
        client: str,
        work: Callable[[Any], object] = lambda record: None,
        poll_ms: int = 100,  # kafka-python joins anew when a poll ends in the middle of a join
        **own: Any,
    ) -> None:
        settings = {"group_id": "billing", "auto_offset_reset": "earliest", **READS_SOON, **own}
        self.consumer = KafkaConsumer("orders", bootstrap_servers=kafka.bootstrap_servers, client_id=client, **settings)
        self.values: list[bytes] = []
        self.error: Exception | None = None
        self._work = work
        self._poll_ms = poll_ms
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> Worker:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stops.set()
        self._thread.join(10)

    def __enter__(self) -> Worker:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        with contextlib.closing(self.consumer):
            while not self._stops.is_set():
                try:
                    for records in self.consumer.poll(timeout_ms=self._poll_ms).values():
                        for record in records:
                            self._work(record)
                            self.values.append(record.value)
                except RetriableError:  # a server that starts again refuses connections: applications poll again
                    self._stops.wait(self._poll_ms / 1000)
                except Exception as error:
                    self.error = error
                    return


def test_takeover(kafka: Kafka) -> None:
    group = kafka.group("billing")
    with Worker(kafka, "a") as first, Worker(kafka, "b") as second:
        group.until_stable(members=2)
        kafka.put("orders", range(8))
        until(lambda: first.values and second.values)
        with kafka.blackhole("a") as hole:
            hole.arrived()
            group.expire("a")
            group.until_assigned("b", partitions=4)
            assert "session expired" in [each.trigger for each in group.rebalances]


def test_a_zombie_is_fenced(kafka: Kafka) -> None:
    """A member that was expelled while it worked cannot commit over its successor."""
    kafka.put("orders", ["coffee"], partition=0)
    works, goes_on = threading.Event(), threading.Event()

    def commit(record: Any) -> None:
        works.set()
        goes_on.wait(10)
        zombie.consumer.commit({TopicPartition("orders", 0): OffsetAndMetadata(record.offset + 1, "", -1)})

    zombie = Worker(kafka, "a", commit, enable_auto_commit=False)
    with zombie:
        assert works.wait(10)
        kafka.group("billing").expire("a")
        goes_on.set()
        until(lambda: zombie.error is not None)
    assert isinstance(zombie.error, CommitFailedError)
    assert kafka.committed("billing") == {}


def test_a_lost_acknowledgement(kafka: Kafka) -> None:
    """The producer sends again what it thinks was lost. An idempotent one is not taken twice."""
    with (
        contextlib.closing(
            KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, enable_idempotence=True, **SOON)
        ) as producer,
        kafka.disconnect("Produce", after=True, times=1),
    ):
        producer.send("orders", b"coffee", partition=0).get(timeout=10)
    assert kafka.records("orders") == [b"coffee"]


def test_a_lost_acknowledgement_without_idempotence(kafka: Kafka) -> None:
    with (
        contextlib.closing(
            KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, enable_idempotence=False, **SOON)
        ) as producer,
        kafka.disconnect("Produce", after=True, times=1),
    ):
        producer.send("orders", b"coffee", partition=0).get(timeout=10)
    assert kafka.records("orders") == [b"coffee", b"coffee"]


def test_a_poison_message(kafka: Kafka) -> None:
    """What cannot be worked on goes to a topic of its own, and holds nobody up."""
    kafka.put("orders", ["1", "two", "3"], partition=0)
    worked_on: list[int] = []

    def work(record: Any) -> None:
        try:
            worked_on.append(int(record.value))
        except ValueError:
            kafka.put("orders-failed", [record.value])

    with Worker(kafka, "a", work) as worker:
        until(lambda: len(worker.values) == 3)
    assert worked_on == [1, 3]
    assert kafka.records("orders-failed") == [b"two"]


def test_a_static_member_restarts(kafka: Kafka) -> None:
    """With group.instance.id a restart is no rebalance."""
    group = kafka.group("billing")
    one, two = {"group_instance_id": "one"}, {"group_instance_id": "two"}
    with Worker(kafka, "a", **one) as first, Worker(kafka, "b", **two) as second:
        group.until_stable(members=2)
        kafka.put("orders", range(4))
        until(lambda: first.values and second.values)
        with group.no_rebalance():
            second.stop()
            # kafka-python joins twice if its first join is answered between two polls: one long poll.
            again = Worker(kafka, "c", poll_ms=1_000, **two).start()
            group.until(lambda view: len(view.members) == 2)
            until(lambda: bool(again.consumer.assignment()))
        again.stop()


def test_a_coordinator_moves(kafka: Kafka) -> None:
    """The client finds it again, and goes on as the same member."""
    kafka.put("orders", range(4))
    group = kafka.group("billing")
    with Worker(kafka, "a") as worker:
        before = group.until_assigned("a", partitions=4).result
        until(lambda: len(worker.values) == 4)
        group.move()
        after = group.until_stable(members=1).result
        assert {each.member_id for each in after.members} == {each.member_id for each in before.members}


def test_a_coordinator_is_being_loaded(kafka: Kafka) -> None:
    """Who knows where to read goes on reading; commits have to wait."""
    kafka.put("orders", ["coffee"], partition=0)
    with Worker(kafka, "a") as worker:
        until(lambda: worker.values == [b"coffee"])
        with kafka.group("billing").loading():
            kafka.put("orders", ["tea"], partition=0)
            until(lambda: worker.values == [b"coffee", b"tea"])
        kafka.group("billing").until_stable(members=1)


def test_a_commit_is_tried_again(kafka: Kafka) -> None:
    kafka.put("orders", ["coffee"], partition=0)

    def work(record: Any) -> None:
        worker.consumer.commit()

    with kafka.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", times=2) as fault:
        with Worker(kafka, "a", work, enable_auto_commit=False) as worker:
            until(lambda: worker.values == [b"coffee"])
        assert fault.hits == 2
    assert kafka.committed("billing")["orders", 0] == 1


def test_a_member_is_kicked(kafka: Kafka) -> None:
    group = kafka.group("billing")
    with Worker(kafka, "a"):
        kicked = group.until_stable(members=1).result.members[0].member_id
        group.kick("a")
        group.until(lambda view: view.is_stable and view.member("a") and view.members[0].member_id != kicked)


def test_offsets_expire(kafka: Kafka) -> None:
    """A group that was away for longer than offsets.retention.minutes begins where auto.offset.reset says."""
    kafka.put("orders", ["coffee"], partition=0)
    with Worker(kafka, "a") as worker:
        until(lambda: worker.values == [b"coffee"])
    assert kafka.committed("billing")["orders", 0] == 1
    kafka.advance(days=8)
    assert kafka.committed("billing") == {}
    kafka.put("orders", ["tea"], partition=0)  # the coffee is past retention.ms, too
    with Worker(kafka, "a") as worker:
        until(lambda: worker.values == [b"tea"])


def test_the_broker_crashes(kafka: Kafka) -> None:
    kafka.put("orders", range(4))
    with Worker(kafka, "a") as worker:
        until(lambda: len(worker.values) == 4)
        kafka.restart(crash=True)
        kafka.put("orders", range(4, 8))
        until(lambda: len(worker.values) == 8)
        kafka.group("billing").until_stable(members=1)
    assert sorted(map(int, worker.values)) == list(range(8))


# aiokafka. Tests are coroutines (pytest-asyncio, asyncio_mode = "auto"); waits are awaited.


@contextlib.asynccontextmanager
async def reading(
    kafka: Kafka, client: str, listener: Any = None, **own: Any
) -> AsyncIterator[aiokafka.AIOKafkaConsumer]:
    settings = {"group_id": "billing", "auto_offset_reset": "earliest", "heartbeat_interval_ms": 20, **own}
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers,
        client_id=client,
        retry_backoff_ms=10,
        fetch_max_wait_ms=20,
        **settings,
    )
    consumer.subscribe(["orders"], listener=listener)
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


@contextlib.asynccontextmanager
async def writing(kafka: Kafka, **own: Any) -> AsyncIterator[aiokafka.AIOKafkaProducer]:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, retry_backoff_ms=10, request_timeout_ms=10_000, **own
    )
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def test_takeover_in_a_coroutine(kafka: Kafka) -> None:
    group = kafka.group("billing")
    async with reading(kafka, "a"), reading(kafka, "b"):
        await group.until_stable(members=2)
        async with kafka.blackhole("a") as hole:
            await hole.arrived()
            group.expire("a")
            await group.until_assigned("b", partitions=4)
            assert "session expired" in [each.trigger for each in group.rebalances]


async def test_a_forced_rebalance_in_a_coroutine(kafka: Kafka) -> None:
    """Work that is done before the partitions go is committed in the listener."""

    class CommitOnRevoke(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: object) -> None:
            if revoked:
                await consumer.commit()

        async def on_partitions_assigned(self, assigned: object) -> None:
            pass

    kafka.put("orders", ["coffee"], partition=0)
    async with reading(kafka, "a", CommitOnRevoke(), enable_auto_commit=False) as consumer:
        assert (await consumer.getone()).value == b"coffee"
        assert kafka.committed("billing") == {}
        async with kafka.group("billing").rebalance("deploy"):
            pass
        assert kafka.committed("billing")["orders", 0] == 1


async def test_exactly_once(kafka: Kafka) -> None:
    """Records and offsets of a transaction that is aborted are not there, and the work is done again."""
    kafka.put("orders", ["coffee"], partition=0)
    async with writing(kafka, transactional_id="t1") as producer, reading(kafka, "a", enable_auto_commit=False) as own:
        for ends_well in (False, True):
            record = await own.getone()
            await producer.begin_transaction()
            await producer.send_and_wait("bills", record.value)
            await producer.send_offsets_to_transaction(
                {aiokafka.TopicPartition("orders", 0): record.offset + 1}, "billing"
            )
            if ends_well:
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
                own.seek(aiokafka.TopicPartition("orders", 0), record.offset)
                assert kafka.records("bills", committed=True) == []
    assert kafka.records("bills") == [b"coffee", b"coffee"]
    assert kafka.records("bills", committed=True) == [b"coffee"]
    assert kafka.committed("billing") == {("orders", 0): 1}


async def test_a_transaction_that_took_too_long(kafka: Kafka) -> None:
    """The coordinator has aborted it: its producer is fenced, and nobody sees what it wrote."""
    async with writing(kafka, transactional_id="t1") as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("bills", b"coffee")
        kafka.transaction("t1").expire()
        with pytest.raises(aiokafka.errors.KafkaError):
            await producer.commit_transaction()
    assert kafka.records("bills", committed=True) == []


async def test_a_lost_acknowledgement_in_a_coroutine(kafka: Kafka) -> None:
    async with writing(kafka, enable_idempotence=True) as producer:
        await producer.send_and_wait("orders", b"coffee", partition=0)
        async with kafka.disconnect("Produce", after=True, times=1):
            await producer.send_and_wait("orders", b"tea", partition=0)
    assert kafka.records("orders") == [b"coffee", b"tea"]


async def test_a_slow_acknowledgement(kafka: Kafka) -> None:
    async with writing(kafka) as producer, kafka.delay("Produce", 0.05, times=1):
        began = time.monotonic()
        await producer.send_and_wait("orders", b"coffee")
        assert time.monotonic() - began >= 0.05
    assert kafka.records("orders") == [b"coffee"]


async def test_a_batch_comes_twice(kafka: Kafka) -> None:
    """As when an acknowledgement was lost: an idempotent producer's batch is taken once."""
    for idempotent in (False, True):
        async with writing(kafka, enable_idempotence=idempotent) as producer, kafka.duplicate("Produce", times=1):
            await producer.send_and_wait("orders", b"coffee", partition=int(idempotent))
    assert kafka.end_offsets("orders") == {("orders", 0): 2, ("orders", 1): 1, ("orders", 2): 0, ("orders", 3): 0}


async def test_a_slow_broker(kafka: Kafka) -> None:
    """A poll that is to return in time does so, whatever the broker does."""
    kafka.put("orders", ["coffee"], partition=0)
    async with reading(kafka, "a") as consumer:
        async with kafka.hold("Fetch", client="a") as held:
            await held.arrived()
            assert await consumer.getmany(timeout_ms=20) == {}
            held.release()
        assert (await consumer.getone()).value == b"coffee"


async def test_a_coordinator_moves_in_a_coroutine(kafka: Kafka) -> None:
    """A commit finds the coordinator again, and the consumer stops, which commits."""
    kafka.put("orders", ["coffee"], partition=0)
    async with reading(kafka, "a") as consumer:
        await consumer.getone()
        kafka.group("billing").move()
        await consumer.commit()  # without it, aiokafka 0.14 hangs in its stop
    assert kafka.committed("billing")["orders", 0] == 1


# confluent-kafka


def confluent_consumer(kafka: Kafka, client: str, **own: Any) -> confluent_kafka.Consumer:
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "client.id": client,
        "group.id": "billing",
        "auto.offset.reset": "earliest",
        "reconnect.backoff.ms": 10,
        "fetch.wait.max.ms": 20,
        # librdkafka looks at its heartbeats when a timer wakes it: every 500 ms without this one.
        "statistics.interval.ms": 20,
    }
    if own.get("group.protocol") != "consumer":
        settings["heartbeat.interval.ms"] = 20
    return confluent_kafka.Consumer({**settings, **own})


class Polled:
    """Polls a consumer in a thread, as an application does."""

    def __init__(self, consumer: confluent_kafka.Consumer, **callbacks: Any) -> None:
        self.values: list[bytes] = []
        self.consumer = consumer
        consumer.subscribe(["orders"], **callbacks)
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stops.is_set():
            message = self.consumer.poll(0.02)
            if message is not None and message.error() is None:
                self.values.append(message.value())
        self.consumer.close()

    def __enter__(self) -> Polled:
        return self

    def __exit__(self, *_: object) -> None:
        self._stops.set()
        self._thread.join(10)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_takeover_with_each_group_protocol(kafka: Kafka, protocol: str) -> None:
    group = kafka.group("billing")
    own = {"group.protocol": protocol}
    with Polled(confluent_consumer(kafka, "a", **own)), Polled(confluent_consumer(kafka, "b", **own)):
        group.until_stable(members=2)
        assert group.view.protocol == protocol
        with kafka.blackhole("a") as hole:
            hole.arrived()
            group.expire("a")
            group.until_assigned("b", partitions=4)


def test_commit_on_revoke(kafka: Kafka) -> None:
    """What was worked on is committed before another member gets the partition: nobody works on it twice."""
    kafka.put("orders", range(8))
    group = kafka.group("billing")

    def revoked(consumer: confluent_kafka.Consumer, partitions: object) -> None:
        with contextlib.suppress(confluent_kafka.KafkaException):  # there is nothing new to commit
            consumer.commit(asynchronous=False)

    with Polled(confluent_consumer(kafka, "a", **{"enable.auto.commit": False}), on_revoke=revoked) as first:
        until(lambda: len(first.values) == 8)
        assert kafka.committed("billing") == {}
        with group.rebalance("deploy"):
            pass
        assert kafka.lag("billing") == {("orders", partition): 0 for partition in range(4)}


def test_delivery_reports(kafka: Kafka) -> None:
    """A batch that the broker refuses for good is reported; one that it refuses for now is sent again."""
    reports: list[tuple[bytes, str | None]] = []

    def delivered(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        reports.append((message.value(), None if error is None else error.name()))

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "retry.backoff.ms": 10, "linger.ms": 0}
    )
    with kafka.fail("Produce", "MESSAGE_TOO_LARGE", times=1):
        producer.produce("orders", b"coffee", partition=0, on_delivery=delivered)
        producer.flush(10)
    with kafka.fail("Produce", "NOT_ENOUGH_REPLICAS", times=2):
        producer.produce("orders", b"tea", partition=0, on_delivery=delivered)
        producer.flush(10)
    assert reports == [(b"coffee", "MSG_SIZE_TOO_LARGE"), (b"tea", None)]
    assert kafka.records("orders") == [b"tea"]


@pytest.mark.parametrize("after", [False, True])
def test_a_batch_is_lost_on_its_way(kafka: Kafka, after: bool) -> None:
    """Or its acknowledgement is: the producer sends it again, and it is there once."""
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
    with kafka.drop("Produce", after=after, times=1) as lost:
        producer.produce("orders", b"coffee", partition=0)
        lost.arrived()
        assert kafka.records("orders") == ([b"coffee"] if after else [])
    assert producer.flush(10) == 0
    assert kafka.records("orders") == [b"coffee"]


def test_a_kicked_member_of_a_consumer_group(kafka: Kafka) -> None:
    group = kafka.group("billing")
    with Polled(confluent_consumer(kafka, "a", **{"group.protocol": "consumer"})):
        epoch = group.until_assigned("a", partitions=4).result.generation
        group.kick("a")
        group.until(lambda view: view.is_stable and view.generation > epoch + 1 and len(view.members) == 1)


# FastStream


def service(kafka: Kafka) -> faststream.kafka.KafkaBroker:
    return faststream.kafka.KafkaBroker(kafka.bootstrap_servers, client_id="service", retry_backoff_ms=10)


async def test_a_service_answers_what_comes(kafka: Kafka) -> None:
    broker = service(kafka)

    @broker.subscriber("orders", group_id="billing", auto_offset_reset="earliest")
    @broker.publisher("bills")
    async def bill(order: str) -> str:
        return f"{order}, please pay"

    kafka.put("orders", ["coffee"])
    async with broker:
        await broker.start()
        await kafka.until_records("bills", 1)
    assert kafka.records("bills") == [b"coffee, please pay"]


async def test_a_service_has_a_poison_message(kafka: Kafka) -> None:
    broker = service(kafka)

    @broker.subscriber("orders", group_id="billing", auto_offset_reset="earliest")
    async def bill(order: str) -> None:
        try:
            int(order)
        except ValueError:
            await broker.publish(order, "orders-failed")

    kafka.put("orders", ["1", "two", "3"], partition=0)
    async with broker:
        await broker.start()
        await kafka.until_records("orders-failed", 1)
    assert kafka.records("orders-failed") == [b"two"]


async def test_a_service_is_expelled_and_comes_back(kafka: Kafka) -> None:
    broker, got = service(kafka), asyncio.Queue[str]()

    @broker.subscriber("orders", group_id="billing", auto_offset_reset="earliest", heartbeat_interval_ms=50)
    async def bill(order: str) -> None:
        got.put_nowait(order)

    async with broker:
        await broker.start()
        view = await kafka.group("billing").until_stable(members=1)
        kafka.group("billing").expire(view.members[0].member_id)
        await kafka.group("billing").until_stable(members=1)
        kafka.put("orders", ["coffee"])
        assert await asyncio.wait_for(got.get(), 10) == "coffee"


async def test_a_service_publishes_although_an_acknowledgement_is_lost(kafka: Kafka) -> None:
    broker = service(kafka)
    async with broker:
        await broker.connect()
        async with kafka.disconnect("Produce", after=True, times=1):
            await broker.publish("coffee", "orders", partition=0)
    assert set(kafka.records("orders")) == {b"coffee"}


def until(holds: Callable[[], object], timeout: float = 60.0) -> None:
    """Wait for something of the client's."""
    ends = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < ends, "not in time"
        time.sleep(0.005)

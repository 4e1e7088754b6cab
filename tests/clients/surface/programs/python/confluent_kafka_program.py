"""Every public method of confluent-kafka's consumer and producer (librdkafka), and of those with (de)serializers."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from typing import Any

import confluent_kafka
import confluent_kafka.aio
import confluent_kafka_admin
from confluent_kafka import Consumer, DeserializingConsumer, Producer, SerializingProducer, TopicPartition
from confluent_kafka.serialization import StringDeserializer, StringSerializer
from confluent_kafka_shapes import error_name, found, told
from surface import BOOTSTRAP, PREFIX, STARTING_S, TIMEOUT_S, Surface, classes, until

TOPIC, OTHER, ABSENT = f"{PREFIX}-topic", f"{PREFIX}-other", f"{PREFIX}-absent"
ADDRESS: Mapping[str, Any] = {"bootstrap.servers": BOOTSTRAP, "client.id": PREFIX}
CONSUMER: Mapping[str, Any] = {**ADDRESS, "auto.offset.reset": "earliest", "enable.auto.commit": False}
CALLED = {"Consumer", "Producer", "AdminClient", "DeserializingConsumer", "SerializingProducer"}
SHARE, IN_THREADS = "share groups are not served", "the same calls of librdkafka, in threads"
OTHERS = {
    "ShareConsumer": SHARE,
    "DeserializingShareConsumer": SHARE,
    **dict.fromkeys(
        ("AIOConsumer", "AIOProducer", "AsyncDeserializingConsumer", "AsyncSerializingProducer"), IN_THREADS
    ),
}
NO_SASL = "kept for the next authentication"


def at(partition: int, offset: int = confluent_kafka.OFFSET_INVALID, topic: str = TOPIC) -> TopicPartition:
    return TopicPartition(topic, partition, offset)


class Delivered:
    """Collects what `on_delivery` says."""

    def __init__(self) -> None:
        self.reports: list[Any] = []

    def __call__(self, error: Any, message: Any) -> None:
        self.reports.append(told(error) if error else told(message))


def produced(producer: Producer, produce: Callable[[Delivered], Any]) -> Any:
    """What the broker says of what was produced."""
    delivered = Delivered()
    produce(delivered)
    assert producer.flush(TIMEOUT_S) == 0
    return delivered.reports


def prepare() -> None:
    producer, delivered = Producer(ADDRESS), Delivered()
    for number in range(5):
        about = {"timestamp": 1000 + number, "headers": [("header", b"x")], "on_delivery": delivered}
        producer.produce(TOPIC, b"value-%d" % number, b"key", 0, **about)
    assert producer.flush(TIMEOUT_S) == 0
    assert [report["offset"] for report in delivered.reports] == list(range(5)), delivered.reports


def consumer_without_subscription() -> None:
    consumer = Consumer({**CONSUMER, "group.id": f"{PREFIX}-group", "enable.auto.offset.store": False})
    call, local = consumer_surface.call, consumer_surface.local
    time.sleep(STARTING_S)
    call("list_topics", lambda: found(consumer.list_topics(timeout=TIMEOUT_S), PREFIX))
    call("list_topics", lambda: found(consumer.list_topics(TOPIC, timeout=TIMEOUT_S), PREFIX), "one")
    call("cluster_id", lambda: bool(consumer.cluster_id(TIMEOUT_S)))
    local("assignment", consumer.assignment)
    local("memberid", consumer.memberid)
    local("consumer_group_metadata", consumer.consumer_group_metadata)
    local("position", lambda: consumer.position([at(0)]))
    local("set_sasl_credentials", lambda: consumer.set_sasl_credentials("user", "secret"), NO_SASL)
    local("__enter__", consumer.__enter__)
    call("list_topics", lambda: found(consumer.list_topics(ABSENT, timeout=TIMEOUT_S), PREFIX), "absent")
    call("get_watermark_offsets", lambda: consumer.get_watermark_offsets(at(0), timeout=TIMEOUT_S))
    call("offsets_for_times", lambda: told(consumer.offsets_for_times([at(0, 1002), at(1, 0)], timeout=TIMEOUT_S)))
    call("offsets_for_times", lambda: told(consumer.offsets_for_times([at(0, 5000)], timeout=TIMEOUT_S)), "after all")
    call("assign", lambda: consumer.assign([at(0), at(1)]))
    call("consume", lambda: told(until(lambda: consumer.consume(2, timeout=1))))
    call("pause", lambda: consumer.pause([at(1)]))
    call("resume", lambda: consumer.resume([at(1)]))
    call("seek", lambda: consumer.seek(at(0, 4)))
    call("poll", lambda: told(until(lambda: consumer.poll(1))))
    call("store_offsets", lambda: told(consumer.store_offsets(offsets=[at(0, 5)])))
    call("commit", lambda: told(consumer.commit(asynchronous=False)), "what is stored")
    call("incremental_assign", lambda: consumer.incremental_assign([at(0, topic=OTHER)]))
    call("incremental_unassign", lambda: consumer.incremental_unassign([at(0, topic=OTHER)]))
    call("unassign", consumer.unassign)
    consumer.close()


def consumer_in_group() -> None:
    consumer = Consumer({**CONSUMER, "group.id": f"{PREFIX}-group"})
    call = consumer_surface.call
    call("committed", lambda: told(consumer.committed([at(0), at(1)], timeout=TIMEOUT_S)))
    call("subscribe", lambda: consumer.subscribe([TOPIC]))
    call("poll", lambda: told(until(lambda: joined(consumer))), "in a group")
    call("commit", lambda: told(consumer.commit(offsets=[at(0, 3)], asynchronous=False)))
    call("commit", lambda: consumer.commit(offsets=[at(1, 0)], asynchronous=True), "asynchronous")
    noted = TopicPartition(TOPIC, 1, 1, metadata="note")
    call("commit", lambda: told(consumer.commit(offsets=[noted], asynchronous=False)), "with metadata")
    call("committed", lambda: told(consumer.committed([at(0), at(1), at(0, topic=OTHER)], timeout=TIMEOUT_S)), "some")
    call("unsubscribe", consumer.unsubscribe)
    call("close", consumer.close)

    pattern = Consumer({**CONSUMER, "group.id": f"{PREFIX}-pattern"})
    call("subscribe", lambda: pattern.subscribe([f"^{PREFIX}-t.*"]), "a pattern")
    call("poll", lambda: told(until(lambda: pattern.poll(1))), "a pattern's")
    pattern.close()
    committed = Consumer({**CONSUMER, "group.id": f"{PREFIX}-committed", "isolation.level": "read_committed"})
    committed.assign([at(0, 99)])
    call("poll", lambda: told(until(lambda: committed.poll(1))), "out of range, read committed")
    committed.close()


def joined(consumer: Consumer) -> Any:
    """Its group's generation has nothing to fetch: it is at the end."""
    consumer.poll(0.05)
    return consumer.assignment()


def producing() -> None:
    producer = Producer(ADDRESS)
    call, local = producer_surface.call, producer_surface.local
    call("list_topics", lambda: found(producer.list_topics(timeout=TIMEOUT_S), PREFIX))
    call("cluster_id", lambda: bool(producer.cluster_id(TIMEOUT_S)))
    time.sleep(STARTING_S)
    local("set_sasl_credentials", lambda: producer.set_sasl_credentials("user", "secret"), NO_SASL)
    local("purge", producer.purge, "drops what was not sent")
    local("poll", lambda: producer.poll(0), "calls back")
    local("__enter__", producer.__enter__)
    one = lambda report: producer.produce(OTHER, b"value", b"key", headers={"h": b"x"}, on_delivery=report)  # noqa: E731
    call("produce", lambda: produced(producer, one))
    call("produce", lambda: produced(producer, lambda report: large(producer, report)), "nearly too large")
    batch = [{"value": b"one"}, {"value": b"two", "partition": 0}]
    call("produce_batch", lambda: produced(producer, lambda r: producer.produce_batch(OTHER, batch, 0, on_delivery=r)))
    made = f"{PREFIX}-made"
    call(
        "produce",
        lambda: produced(producer, lambda r: producer.produce(made, b"v", partition=0, on_delivery=r)),
        "auto-created",
    )
    call("flush", lambda: producer.flush(TIMEOUT_S))
    call("close", producer.close)
    for acks, codec in (("1", "snappy"), ("all", "lz4"), ("all", "zstd"), ("0", "gzip")):
        other = Producer({**ADDRESS, "acks": acks, "compression.type": codec, "enable.idempotence": acks == "all"})
        value = b"v" * 99
        call(
            "produce",
            lambda p=other, v=value: produced(p, lambda r: p.produce(OTHER, v, partition=1, on_delivery=r)),
            f"acks={acks}, {codec}",
        )


def large(producer: Producer, report: Delivered) -> None:
    producer.produce(OTHER, b"x" * 990_000, partition=1, on_delivery=report)


def transactions() -> None:
    settings = {**ADDRESS, "transactional.id": f"{PREFIX}-producer"}
    producer, consumer = Producer(settings), Consumer({**CONSUMER, "group.id": f"{PREFIX}-in-transaction"})
    call = producer_surface.call
    call("init_transactions", lambda: producer.init_transactions(TIMEOUT_S))
    call("begin_transaction", producer.begin_transaction)
    write = lambda: produced(producer, lambda r: producer.produce(OTHER, b"v", partition=0, on_delivery=r))  # noqa: E731
    call("produce", write, "in a transaction")
    group = consumer.consumer_group_metadata()
    call(
        "send_offsets_to_transaction",
        lambda: producer.send_offsets_to_transaction([at(0, 3)], group, TIMEOUT_S),
    )
    call("commit_transaction", lambda: producer.commit_transaction(TIMEOUT_S))
    producer.begin_transaction()
    write()
    call("abort_transaction", lambda: producer.abort_transaction(TIMEOUT_S))
    producer.begin_transaction()
    other = Producer(settings)
    call("init_transactions", lambda: other.init_transactions(TIMEOUT_S), "fences the first")
    producer.produce(OTHER, b"v", partition=0)
    call("commit_transaction", lambda: producer.commit_transaction(TIMEOUT_S), "fenced")
    consumer.close()


def with_serializers() -> None:
    """What these classes do in another way than those they derive from."""
    settings = {**ADDRESS, "key.serializer": StringSerializer(), "value.serializer": StringSerializer()}
    surface = Surface("serializing producer", SerializingProducer, error_name, own=True)
    producer = SerializingProducer(settings)
    surface.call("produce", lambda: produced(producer, lambda r: producer.produce(TOPIC, "k", "v", 1, on_delivery=r)))
    close(surface, producer)
    surface.finish()
    settings = {**CONSUMER, "key.deserializer": StringDeserializer(), "value.deserializer": StringDeserializer()}
    surface = Surface("deserializing consumer", DeserializingConsumer, error_name, own=True)
    consumer = DeserializingConsumer({**settings, "group.id": f"{PREFIX}-deserializing"})
    consumer.assign([at(1, 0)])
    surface.call("poll", lambda: told(until(lambda: consumer.poll(1))))
    surface.call("consume", lambda: told(consumer.consume(1, timeout=0.1)))
    close(surface, consumer)
    surface.finish()


def close(surface: Surface, client: Any) -> None:
    if "__enter__" in vars(type(client)):
        surface.local("__enter__", client.__enter__)
    if "close" in vars(type(client)):
        surface.call("close", client.close)


def package_classes() -> None:
    listed = {**vars(confluent_kafka), **vars(confluent_kafka.aio), **vars(confluent_kafka.admin)}
    clients = ("Consumer", "Producer", "Client")
    names = [name for name, each in listed.items() if inspect.isclass(each) and name.endswith(clients)]
    classes((name for name in names if not name.startswith("_")), CALLED, OTHERS)


consumer_surface = Surface("consumer", Consumer, error_name)
producer_surface = Surface("producer", Producer, error_name)

if __name__ == "__main__":
    package_classes()
    confluent_kafka_admin.create(ADDRESS, TOPIC, OTHER)
    prepare()
    consumer_without_subscription()
    consumer_in_group()
    consumer_surface.finish()
    producing()
    transactions()
    producer_surface.finish()
    with_serializers()
    confluent_kafka_admin.administer(ADDRESS, TOPIC)

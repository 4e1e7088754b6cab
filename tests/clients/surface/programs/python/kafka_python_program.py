"""Every public method of kafka-python's consumer, producer and admin client."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

import kafka
import kafka_python_admin
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from surface import BOOTSTRAP, PREFIX, STARTING_S, TIMEOUT_S, Surface, classes, shape, until

TOPIC = f"{PREFIX}-topic"
OTHER = f"{PREFIX}-other"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(2)]
FIRST, SECOND = PARTITIONS
ADDRESS: Mapping[str, Any] = {"bootstrap_servers": BOOTSTRAP, "client_id": PREFIX}
VALUES = [b"value-%d" % number for number in range(5)]


def error_name(error: BaseException) -> str:
    return type(error).__name__


def prepare() -> None:
    """Two topics, with records in the first partition of one."""
    admin = KafkaAdminClient(**ADDRESS)
    for topic in (TOPIC, OTHER):
        admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1}})
    admin.wait_for_topics([TOPIC, OTHER])
    admin.close()
    producer = KafkaProducer(**ADDRESS)
    for number, value in enumerate(VALUES):
        producer.send(TOPIC, value, b"key", [("header", b"x")], partition=0, timestamp_ms=1000 + number).get(TIMEOUT_S)
    producer.close()


def consumer_without_group() -> None:
    """What needs an assignment and no group."""
    consumer = KafkaConsumer(**ADDRESS, auto_offset_reset="earliest", consumer_timeout_ms=2_000)
    call, local = consumer_surface.call, consumer_surface.local
    time.sleep(STARTING_S)
    local("bootstrap_connected", consumer.bootstrap_connected)
    local("assignment", consumer.assignment)
    local("paused", consumer.paused)
    local("subscription", consumer.subscription)
    local("group_metadata", consumer.group_metadata)
    local("metrics", consumer.metrics)
    local("__iter__", consumer.__iter__)
    local("__enter__", consumer.__enter__)
    call("bootstrap", lambda: consumer.bootstrap(timeout_ms=5_000, refresh=True))
    call("topics", lambda: {topic for topic in consumer.topics() if topic.startswith(PREFIX)})
    call("partitions_for_topic", lambda: consumer.partitions_for_topic(TOPIC))
    call("partitions_for_topic", lambda: consumer.partitions_for_topic(f"{PREFIX}-absent"), "absent")
    call("beginning_offsets", lambda: consumer.beginning_offsets(PARTITIONS))
    call("end_offsets", lambda: consumer.end_offsets(PARTITIONS))
    call("offsets_for_times", lambda: consumer.offsets_for_times({FIRST: 1002, SECOND: 0}))
    call("offsets_for_times", lambda: consumer.offsets_for_times({FIRST: 5000}), "after the last")
    call("commit", consumer.commit, "no group")
    call("committed", lambda: consumer.committed(FIRST), "no group")

    call("assign", lambda: consumer.assign(PARTITIONS))
    call("position", lambda: consumer.position(FIRST))
    local("pause", lambda: consumer.pause(SECOND))
    local("resume", lambda: consumer.resume(SECOND))
    local("highwater", lambda: consumer.highwater(FIRST), "as the last fetch said")
    call("poll", lambda: until(lambda: consumer.poll(5_000, max_records=2)))
    call("position", lambda: consumer.position(FIRST), "after two records")
    local("seek", lambda: consumer.seek(FIRST, 4), "the next poll asks")
    call("__next__", lambda: next(consumer))
    call("seek_to_beginning", lambda: (consumer.seek_to_beginning(FIRST), consumer.position(FIRST)))
    call("seek_to_end", lambda: (consumer.seek_to_end(FIRST), consumer.position(FIRST)))
    consumer.seek(FIRST, 99)
    call("poll", lambda: until(lambda: consumer.poll(5_000, max_records=2)), "out of range")
    call("unsubscribe", consumer.unsubscribe)
    consumer.close()


def consumer_in_group() -> None:
    """What needs a group."""
    settings = {**ADDRESS, "group_id": f"{PREFIX}-group", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    call = consumer_surface.call
    consumer = KafkaConsumer(**settings)
    call("subscribe", lambda: consumer.subscribe([TOPIC]))
    call("poll", lambda: len(until(lambda: consumer.poll(5_000))[FIRST]), "in a group")
    call("group_metadata", lambda: group_metadata(consumer), "in a group")
    call("commit", consumer.commit)
    call("commit", lambda: consumer.commit({SECOND: OffsetAndMetadata(0, "note", -1)}), "of one, with metadata")
    call("commit_async", lambda: consumer.commit_async({FIRST: OffsetAndMetadata(4, "", -1)}).value)
    call("committed", lambda: consumer.committed(SECOND))
    call("committed", lambda: consumer.committed(SECOND, metadata=True), "with metadata")
    call("committed", lambda: consumer.committed(TopicPartition(OTHER, 0)), "never committed")
    call("close", consumer.close)

    pattern = KafkaConsumer(**settings | {"group_id": f"{PREFIX}-pattern"})
    call("subscribe", lambda: pattern.subscribe(pattern=f"^{PREFIX}-t.*"), "a pattern")
    call("poll", lambda: len(until(lambda: pattern.poll(5_000))[FIRST]), "a pattern's")
    pattern.close()
    committed = KafkaConsumer(**settings | {"isolation_level": "read_committed"})
    committed.assign([FIRST])
    call("poll", lambda: until(lambda: committed.poll(5_000)), "read committed")
    committed.close()


def group_metadata(consumer: KafkaConsumer) -> Any:
    """Of a slow program the broker may have begun another generation already."""
    metadata = consumer.group_metadata()
    return shape(metadata) | {"member_id": bool(metadata.member_id), "generation_id": metadata.generation_id > 0}


def producing() -> None:
    producer = KafkaProducer(**ADDRESS)
    call, local = producer_surface.call, producer_surface.local
    time.sleep(STARTING_S)
    local("bootstrap_connected", producer.bootstrap_connected)
    local("metrics", producer.metrics)
    local("__enter__", producer.__enter__)
    local("max_usable_produce_magic", lambda: producer.max_usable_produce_magic((2, 0)), "arithmetic")
    call("partitions_for", lambda: producer.partitions_for(TOPIC))
    call("partitions_for", lambda: producer.partitions_for(f"{PREFIX}-made"), "auto-created")
    call("send", lambda: sent(producer.send(OTHER, b"value", partition=0)))
    call("send", lambda: sent(producer.send(OTHER, b"value", b"key", [("h", b"x")], timestamp_ms=5)), "with a key")
    call("send", lambda: sent(producer.send(OTHER, b"x" * 1_040_000, partition=1)), "nearly too large")
    call("flush", lambda: producer.flush(TIMEOUT_S))
    call("close", lambda: producer.close(TIMEOUT_S))
    for acks, compression in ((1, "snappy"), ("all", "lz4"), ("all", "zstd"), (0, "gzip")):
        other = KafkaProducer(**ADDRESS, acks=acks, compression_type=compression, enable_idempotence=False)
        call("send", lambda other=other: sent(other.send(OTHER, b"v" * 99, partition=1)), f"acks={acks}, {compression}")
        other.close(TIMEOUT_S)


def sent(future: Any) -> Any:
    """Where a record is; its sizes are the client's own."""
    metadata = future.get(TIMEOUT_S)
    return {name: getattr(metadata, name) for name in ("topic", "partition", "offset", "timestamp")}


def transactions() -> None:
    producer = KafkaProducer(**ADDRESS, transactional_id=f"{PREFIX}-producer")
    call = producer_surface.call
    call("init_transactions", producer.init_transactions)
    call("begin_transaction", producer.begin_transaction)
    call("send", lambda: sent(producer.send(OTHER, b"value", partition=0)), "in a transaction")
    offsets = {FIRST: OffsetAndMetadata(3, "", -1)}
    group = kafka.ConsumerGroupMetadata(f"{PREFIX}-in-transaction")
    call("send_offsets_to_transaction", lambda: producer.send_offsets_to_transaction(offsets, group))
    call("commit_transaction", producer.commit_transaction)
    producer.begin_transaction()
    sent(producer.send(OTHER, b"aborted", partition=0))
    call("abort_transaction", producer.abort_transaction)

    other = KafkaProducer(**ADDRESS, transactional_id=f"{PREFIX}-producer")
    call("init_transactions", other.init_transactions, "fences the first")
    producer.begin_transaction()
    call("send", lambda: sent(producer.send(OTHER, b"value", partition=0)), "fenced")
    for each in (producer, other):
        each.close(TIMEOUT_S)


def package_classes() -> None:
    """The classes that have a broker's address; what the package has beside them are values and listeners."""
    found = [name for name in kafka.__all__ if re.match("Kafka", name)]
    classes(found, {"KafkaConsumer", "KafkaProducer", "KafkaAdminClient"}, {})


consumer_surface = Surface("consumer", KafkaConsumer, error_name)
producer_surface = Surface("producer", KafkaProducer, error_name)

if __name__ == "__main__":
    package_classes()
    prepare()
    consumer_without_group()
    consumer_in_group()
    consumer_surface.finish()
    producing()
    transactions()
    producer_surface.finish()
    kafka_python_admin.administer(ADDRESS)

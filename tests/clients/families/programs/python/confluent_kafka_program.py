"""confluent-kafka (librdkafka)."""

from __future__ import annotations

import sys
import time
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from line_protocol import (
    ARGUMENTS,
    aborted_values,
    as_it_comes,
    closing,
    isolation,
    listen_for_close,
    next_protocol,
    numbers,
    pairs,
    parsed_pairs,
    say,
    values,
)

TIMEOUT_S = 20
COPIED_AT_ONCE = 20


def of(partitions: list[TopicPartition]) -> str:
    return numbers(each.partition for each in partitions)


def made_consumer() -> Consumer:
    settings: dict[str, Any] = {
        "bootstrap.servers": ARGUMENTS["bootstrap"],
        "group.id": ARGUMENTS["group"],
        "auto.offset.reset": "earliest",
    }
    if as_it_comes():
        settings["client.id"] = ARGUMENTS["client_id"]
    else:
        settings |= {"enable.auto.commit": False, "isolation.level": isolation()}
    if next_protocol():  # the coordinator tells it the rest
        settings |= {"group.protocol": "consumer", "group.remote.assignor": ARGUMENTS["assignor"]}
    elif not as_it_comes():
        settings |= {
            "session.timeout.ms": int(ARGUMENTS["session_timeout_ms"]),
            "heartbeat.interval.ms": int(ARGUMENTS["heartbeat_interval_ms"]),
            "partition.assignment.strategy": ARGUMENTS["assignor"],
        }
    if ARGUMENTS.get("instance"):
        settings["group.instance.id"] = ARGUMENTS["instance"]
    return Consumer(settings)


def subscribe(consumer: Consumer) -> None:
    consumer.subscribe(
        [ARGUMENTS.get("pattern") or ARGUMENTS["topic"]],
        on_assign=lambda _, partitions: say("ASSIGNED", of(partitions)),
        on_revoke=lambda _, partitions: say("REVOKED", of(partitions)),
        on_lost=lambda _, partitions: say("REVOKED", of(partitions)),
    )


def consume() -> None:
    consumer = made_consumer()
    subscribe(consumer)
    pause_s, committed_s, uncommitted = int(ARGUMENTS.get("commit_every_ms", 0)) / 1000, time.monotonic(), False
    while not closing.is_set():
        records = [each for each in consumer.consume(500, timeout=0.05) if each.error() is None]
        for record in records:
            say("RECORD", record.partition(), record.offset(), record.value().decode())
        uncommitted = uncommitted or bool(records)
        if uncommitted and not as_it_comes() and time.monotonic() >= committed_s + pause_s:
            committed_s, uncommitted = time.monotonic(), False
            commit(consumer)
    consumer.close()
    say("CLOSED")


def commit(consumer: Consumer) -> None:
    try:
        committed = consumer.commit(asynchronous=False)
        say("COMMITTED", pairs({each.partition: each.offset for each in committed}))
    except KafkaException as error:
        say("COMMIT_FAILED", error)


def copy() -> None:
    """Read, process, write: what is read of one topic is in the other once."""
    producer = Producer(
        {
            "bootstrap.servers": ARGUMENTS["bootstrap"],
            "transactional.id": ARGUMENTS["transactional_id"],
            "linger.ms": 0,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    consumer = made_consumer()
    subscribe(consumer)
    while not closing.is_set():
        records = [each for each in consumer.consume(COPIED_AT_ONCE, timeout=0.05) if each.error() is None]
        if records:
            copy_together(consumer, producer, records)
    consumer.close()
    say("CLOSED")


def copy_together(consumer: Consumer, producer: Producer, records: list[Message]) -> None:
    """One transaction: all of these, or none."""
    try:
        producer.begin_transaction()
        for record in records:
            say("RECORD", record.partition(), record.offset(), record.value().decode())
            producer.produce(ARGUMENTS["target"], record.value(), partition=record.partition())
        offsets = {record.partition(): record.offset() + 1 for record in records}
        positions = [TopicPartition(ARGUMENTS["topic"], *each) for each in offsets.items()]
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), TIMEOUT_S)
        producer.commit_transaction(TIMEOUT_S)
        say("COMMITTED", pairs(offsets))
    except KafkaException as error:
        say("COMMIT_FAILED", error)
        if not error.args[0].txn_requires_abort():
            raise
        producer.abort_transaction(TIMEOUT_S)
        assigned = consumer.assignment()
        for each in consumer.committed(assigned, TIMEOUT_S) if assigned else ():
            consumer.seek(TopicPartition(each.topic, each.partition, max(each.offset, 0)))


def answer(admin: AdminClient, verb: str, words: list[str]) -> str:
    """The rest of an OK line."""
    if verb == "list":
        filters: dict[str, Any] = {}
        if words:
            filters["types"] = {ConsumerGroupType[words[0].upper()]}
            filters["states"] = {ConsumerGroupState[words[1].upper()]}
        listed = admin.list_consumer_groups(request_timeout=TIMEOUT_S, **filters).result()
        assert not listed.errors, listed.errors
        return " ".join(each.group_id for each in listed.valid)
    group = words[0]
    if verb == "describe":
        described = admin.describe_consumer_groups([group], request_timeout=TIMEOUT_S)[group].result()
        owned = [each for member in described.members for each in member.assignment.topic_partitions]
        state = described.state.name.title().replace("_", "")
        return f"{state} {len(described.members)} {of(owned)}"
    if verb == "offsets":
        (answered,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        return pairs({each.partition: each.offset for each in answered.result().topic_partitions})
    if verb == "alter":
        offsets = [TopicPartition(words[1], *pair) for pair in parsed_pairs(words[2]).items()]
        (answered,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, offsets)]).values()
        for each in answered.result().topic_partitions:
            if each.error is not None:
                raise KafkaException(each.error)
        return ""
    assert verb == "delete", verb
    admin.delete_consumer_groups([group], request_timeout=TIMEOUT_S)[group].result()
    return ""


def administer() -> None:
    admin = AdminClient({"bootstrap.servers": ARGUMENTS["bootstrap"]})
    for line in sys.stdin:
        verb, *words = line.split()
        try:
            say("OK", answer(admin, verb, words))
        except KafkaException as error:
            say("ERROR", error.args[0].code(), error)


def produce() -> None:
    settings = {"bootstrap.servers": ARGUMENTS["bootstrap"], "compression.type": ARGUMENTS["compression"]}
    if "transactional_id" in ARGUMENTS:
        producer = Producer({**settings, "transactional.id": ARGUMENTS["transactional_id"]})
        producer.init_transactions(TIMEOUT_S)
        for written, end in ((values(), producer.commit_transaction), (aborted_values(), producer.abort_transaction)):
            producer.begin_transaction()
            for value in written:
                producer.produce(ARGUMENTS["topic"], value)
            producer.flush(TIMEOUT_S)
            end(TIMEOUT_S)
        say("PRODUCED", ARGUMENTS["count"])
        return
    producer = Producer(settings)
    failed: list[object] = []
    for value in values():
        producer.produce(
            ARGUMENTS["topic"], value, on_delivery=lambda error, _: failed.append(error) if error else None
        )
    left = producer.flush(TIMEOUT_S)
    assert not left, f"{left} were not acknowledged"
    assert not failed, failed
    say("PRODUCED", ARGUMENTS["count"])


if ARGUMENTS["mode"] == "consume":
    listen_for_close()
    consume()
elif ARGUMENTS["mode"] == "copy":
    listen_for_close()
    copy()
elif ARGUMENTS["mode"] == "admin":
    administer()
else:
    produce()

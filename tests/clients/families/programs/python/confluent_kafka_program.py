"""confluent-kafka (librdkafka)."""

from __future__ import annotations

import sys
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from line_protocol import (
    ARGUMENTS,
    aborted_values,
    as_it_comes,
    closing,
    isolation,
    listen_for_close,
    numbers,
    pairs,
    parsed_pairs,
    say,
    values,
)

TIMEOUT_S = 20


def of(partitions: list[TopicPartition]) -> str:
    return numbers(each.partition for each in partitions)


def consume() -> None:
    settings: dict[str, Any] = {
        "bootstrap.servers": ARGUMENTS["bootstrap"],
        "group.id": ARGUMENTS["group"],
        "auto.offset.reset": "earliest",
    }
    if as_it_comes():
        settings["client.id"] = ARGUMENTS["client_id"]
    else:
        settings |= {
            "enable.auto.commit": False,
            "session.timeout.ms": int(ARGUMENTS["session_timeout_ms"]),
            "heartbeat.interval.ms": int(ARGUMENTS["heartbeat_interval_ms"]),
            "partition.assignment.strategy": ARGUMENTS["assignor"],
            "isolation.level": isolation(),
        }
    if ARGUMENTS.get("instance"):
        settings["group.instance.id"] = ARGUMENTS["instance"]
    consumer = Consumer(settings)
    consumer.subscribe(
        [ARGUMENTS["topic"]],
        on_assign=lambda _, partitions: say("ASSIGNED", of(partitions)),
        on_revoke=lambda _, partitions: say("REVOKED", of(partitions)),
        on_lost=lambda _, partitions: say("REVOKED", of(partitions)),
    )
    while not closing.is_set():
        records = [each for each in consumer.consume(500, timeout=0.05) if each.error() is None]
        for record in records:
            say("RECORD", record.partition(), record.offset(), record.value().decode())
        if records and not as_it_comes():
            try:
                committed = consumer.commit(asynchronous=False)
                say("COMMITTED", pairs({each.partition: each.offset for each in committed}))
            except KafkaException as error:
                say("COMMIT_FAILED", error)
    consumer.close()
    say("CLOSED")


def answer(admin: AdminClient, verb: str, words: list[str]) -> str:
    """The rest of an OK line."""
    if verb == "list":
        listed = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result()
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
elif ARGUMENTS["mode"] == "admin":
    administer()
else:
    produce()

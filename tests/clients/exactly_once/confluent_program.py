"""Read, process, write with librdkafka: what is read from one topic is written to another, exactly once.

    python confluent_program.py BOOTSTRAP GROUP TRANSACTIONAL_ID INPUT OUTPUT classic|consumer

It runs until it is killed. An error that is neither over nor to be aborted ends it with code 3, as a real program would
end: whoever supervises it starts it again.
"""

from __future__ import annotations

import signal
import sys
import time

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

BATCH = 20
TIMEOUT_S = 20
HANGS_S = 30
"""librdkafka 2.x does not keep to the timeout of send_offsets_to_transaction: if the group's coordinator has just gone,
it waits for the next change of any broker, minutes away (its issues 5456 and 5511). SIGALRM ends the program then, and
the test starts it again.
"""


def main(bootstrap: str, group: str, transactional_id: str, source: str, target: str, protocol: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 30_000,
            "linger.ms": 0,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    session = {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 500} if protocol == "classic" else {}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **session,
        }
    )
    consumer.subscribe([source])
    print("ready", flush=True)
    while True:
        messages = [message for message in consumer.consume(BATCH, 0.2) if message.error() is None]
        if messages:
            signal.alarm(HANGS_S)
            process(consumer, producer, messages, target)
            signal.alarm(0)
            time.sleep(0.02)


def process(consumer: Consumer, producer: Producer, messages: list[Message], target: str) -> None:
    """One transaction: all of these, or none."""
    try:
        producer.begin_transaction()
        offsets: dict[tuple[str, int], int] = {}
        for message in messages:
            producer.produce(target, value=message.value(), partition=message.partition())
            offsets[message.topic(), message.partition()] = message.offset() + 1
        positions = [TopicPartition(topic, index, offset) for (topic, index), offset in offsets.items()]
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), TIMEOUT_S)
        producer.commit_transaction(TIMEOUT_S)
    except KafkaException as failure:
        error = failure.args[0]
        print(f"failed: {error}", flush=True)
        if not error.txn_requires_abort():
            sys.exit(3)
        producer.abort_transaction(TIMEOUT_S)
        rewind(consumer)


def rewind(consumer: Consumer) -> None:
    """What was not committed is read again."""
    assigned = consumer.assignment()
    for committed in consumer.committed(assigned, TIMEOUT_S) if assigned else ():
        consumer.seek(TopicPartition(committed.topic, committed.partition, max(committed.offset, 0)))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KafkaException as failure:
        print(f"failed: {failure}", flush=True)
        sys.exit(3)

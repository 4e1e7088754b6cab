"""A kafka-python consumer as a process of its own, which reports what happens to it as JSON lines on standard output.

    python -m tests.clients.consumer_process '{"topics": [...], "pause_ms": 0, "settings": {"group_id": ...}}'

A record is reported before its offset is committed: a process that is killed has reported all that it committed.
SIGTERM makes it commit, leave the group and end. Each line has `kind`, `at_s` (seconds since 1970) and

- assigned: generation, partitions, positions (where it goes on reading, per partition)
- revoked: partitions
- records: partition, first (offset), values (as text)
- committed: offsets (per partition)
- interrupted: error (of a poll: the coordinator cannot be reached)
- refused: error (a commit that the coordinator did not take: the group is rebalancing)
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import KafkaError, RetriableError

from tests.clients.kafka_python_joins import finish_joins
from tests.clients.members import PATIENT_POLL_TIMEOUT_MS

POSITION_TIMEOUT_MS = 10_000
COMMIT_TIMEOUT_MS = 10_000
INTERRUPTED_S = 0.05

stopping = threading.Event()


def report(kind: str, **fields: object) -> None:
    # One write of a whole line, so that a SIGKILL cannot leave half of one in front of another.
    sys.stdout.write(json.dumps({"kind": kind, "at_s": time.time(), **fields}) + "\n")
    sys.stdout.flush()


class _Listener(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.assigned_anew = False

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.assigned_anew = True

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        report("revoked", partitions=[tp.partition for tp in revoked])


def consume(topics: list[str], pause_ms: int, settings: dict[str, Any]) -> None:
    consumer = KafkaConsumer(enable_auto_commit=False, auto_offset_reset="earliest", **settings)
    listener = _Listener()
    consumer.subscribe(topics, listener=listener)
    while not stopping.is_set():
        try:
            batches = consumer.poll(timeout_ms=PATIENT_POLL_TIMEOUT_MS)
            if listener.assigned_anew:
                tell_assignment(consumer, batches)
                listener.assigned_anew = False
        except RetriableError as error:
            # kafka-python's way to say that the coordinator is down: applications poll again.
            report("interrupted", error=type(error).__name__)
            stopping.wait(INTERRUPTED_S)
            continue
        for partition, records in batches.items():
            values = [record.value.decode() for record in records]
            report("records", partition=partition.partition, first=records[0].offset, values=values)
        if batches:
            commit(consumer)
            stopping.wait(pause_ms / 1000)
    consumer.close()


def tell_assignment(consumer: KafkaConsumer, batches: dict[TopicPartition, list[Any]]) -> None:
    """Where it goes on reading: before what this poll has brought already."""
    positions = {}
    for partition in consumer.assignment():
        if partition in batches:
            positions[partition.partition] = batches[partition][0].offset
        else:
            positions[partition.partition] = consumer.position(partition, timeout_ms=POSITION_TIMEOUT_MS)
    generation = consumer.group_metadata().generation_id
    report("assigned", generation=generation, partitions=sorted(positions), positions=positions)


def commit(consumer: KafkaConsumer) -> None:
    offsets = {tp.partition: consumer.position(tp) for tp in consumer.assignment()}
    try:
        consumer.commit(timeout_ms=COMMIT_TIMEOUT_MS)
    except KafkaError as error:
        report("refused", error=type(error).__name__)
    else:
        report("committed", offsets=offsets)


def main() -> None:
    arguments = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    consume(arguments["topics"], arguments["pause_ms"], arguments["settings"])


if __name__ == "__main__":
    finish_joins()
    main()

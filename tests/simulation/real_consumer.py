"""A kafka-python consumer that waits for a line on standard input before it joins, so that its start-up does not count.

    python -m tests.simulation.real_consumer '{"topic": ..., "settings": {"group_id": ...}}'

Tells on standard output, as JSON lines with `at_s`: ready; assigned (partitions, generation); revoked (partitions).
SIGTERM makes it leave the group and end.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from collections.abc import Iterable
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.range import RangePartitionAssignor

POLL_TIMEOUT_MS = 600_000
"""kafka-python 3.0.12 drops the answer to a JoinGroup or SyncGroup when its poll times out just then, and joins again
later. On a busy machine that made up to four rebalances of its own; a poll that never times out makes none."""


class Stopped(Exception):
    """SIGTERM came. Raised wherever the consumer is, as KeyboardInterrupt is."""


def stop(*_signal: object) -> None:
    raise Stopped


def tell(kind: str, **fields: object) -> None:
    sys.stdout.write(json.dumps({"kind": kind, "at_s": time.time(), **fields}) + "\n")
    sys.stdout.flush()


class Listener(ConsumerRebalanceListener):
    def __init__(self, consumer: KafkaConsumer) -> None:
        self.consumer = consumer

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        generation = self.consumer.group_metadata().generation_id
        tell("assigned", partitions=[each.partition for each in assigned], generation=generation)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        tell("revoked", partitions=[each.partition for each in revoked])


def main() -> None:
    arguments: dict[str, Any] = json.loads(sys.argv[1])
    consumer = KafkaConsumer(
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        partition_assignment_strategy=[RangePartitionAssignor],
        **arguments["settings"],
    )
    tell("ready")
    sys.stdin.readline()
    consumer.subscribe([arguments["topic"]], listener=Listener(consumer))
    signal.signal(signal.SIGTERM, stop)
    with contextlib.suppress(Stopped):
        while True:
            consumer.poll(timeout_ms=POLL_TIMEOUT_MS)
    tell("revoked", partitions=[each.partition for each in consumer.assignment()])
    consumer.close()


if __name__ == "__main__":
    main()

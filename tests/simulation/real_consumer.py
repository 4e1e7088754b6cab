"""A kafka-python consumer that waits for a line on standard input before it joins, so that its start-up does not count.

    python -m tests.simulation.real_consumer '{"topic": ..., "settings": {"group_id": ...}}'

Tells on standard output, as JSON lines with `at_s`: ready; assigned (partitions, generation); revoked (partitions).
SIGTERM makes it leave the group and end.
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
from kafka.coordinator.assignors.range import RangePartitionAssignor

POLL_TIMEOUT_MS = 200

stopping = threading.Event()


def tell(kind: str, at_s: float | None = None, **fields: object) -> None:
    sys.stdout.write(json.dumps({"kind": kind, "at_s": at_s or time.time(), **fields}) + "\n")
    sys.stdout.flush()


class _Listener(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.assigned: tuple[float, list[int]] | None = None

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.assigned = time.time(), [each.partition for each in assigned]

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        tell("revoked", partitions=[each.partition for each in revoked])


def main() -> None:
    arguments: dict[str, Any] = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    consumer = KafkaConsumer(
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        partition_assignment_strategy=[RangePartitionAssignor],
        **arguments["settings"],
    )
    tell("ready")
    sys.stdin.readline()
    listener = _Listener()
    consumer.subscribe([arguments["topic"]], listener=listener)
    while not stopping.is_set():
        consumer.poll(timeout_ms=POLL_TIMEOUT_MS)
        if listener.assigned is not None:
            at_s, partitions = listener.assigned
            listener.assigned = None
            tell("assigned", at_s, partitions=partitions, generation=consumer.group_metadata().generation_id)
    tell("revoked", partitions=[each.partition for each in consumer.assignment()])
    consumer.close()


if __name__ == "__main__":
    main()

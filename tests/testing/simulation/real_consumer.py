"""A kafka-python consumer that waits for a line on standard input before it joins, so that its start-up does not count.

    python -m tests.testing.simulation.real_consumer '{"topic": ..., "assignor": ..., "settings": {"group_id": ...}}'

Tells on standard output, as JSON lines with `at_s`: ready; assigned and revoked (partitions, generation). A record is a
number, and work for so many milliseconds. A line "generation" makes it tell its generation, "stop" leave.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}

POLL_TIMEOUT_MS = 600_000
"""kafka-python 3.0.12 drops the answer to a JoinGroup or SyncGroup when its poll times out just then, and joins again
later. On a busy machine that made up to four rebalances of its own; a poll that never times out makes none."""

FETCH_MAX_WAIT_MS = 100
"""Whether a heartbeat has brought the news of a rebalance is seen when a fetch comes back, and not before."""


class Stopped(Exception):
    """Raised wherever the consumer is, as KeyboardInterrupt is."""


def stop(*_signal: object) -> None:
    raise Stopped


def tell(kind: str, **fields: object) -> None:
    sys.stdout.write(json.dumps({"kind": kind, "at_s": time.time(), **fields}) + "\n")
    sys.stdout.flush()


def listen(consumer: KafkaConsumer) -> None:
    for line in sys.stdin:
        if line.strip() == "generation":
            tell("generation", generation=consumer.group_metadata().generation_id)
        else:
            os.kill(os.getpid(), signal.SIGTERM)  # runs `stop` in the main thread


class Listener(ConsumerRebalanceListener):
    """Both are told what was added or has gone: with an eager assignor that is everything."""

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
        auto_offset_reset="latest",
        fetch_max_wait_ms=FETCH_MAX_WAIT_MS,
        partition_assignment_strategy=[ASSIGNORS[arguments["assignor"]]],
        **arguments["settings"],
    )
    tell("ready")
    sys.stdin.readline()
    consumer.subscribe([arguments["topic"]], listener=Listener(consumer))
    signal.signal(signal.SIGTERM, stop)
    threading.Thread(target=listen, args=(consumer,), daemon=True).start()
    with contextlib.suppress(Stopped):
        while True:
            for records in consumer.poll(timeout_ms=POLL_TIMEOUT_MS).values():
                for record in records:
                    time.sleep(int(record.value) / 1000)
    tell("revoked", partitions=[each.partition for each in consumer.assignment()])
    consumer.close()


if __name__ == "__main__":
    main()

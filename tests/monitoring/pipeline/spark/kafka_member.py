"""A member of a group in a process of its own: it does what its standard input says, and tells what it is assigned.

    python -m tests.monitoring.pipeline.spark.kafka_member classic|consumer BOOTSTRAP GROUP CLIENT TOPIC SESSION_MS

It polls all the time, and commits nothing by itself. Commands and answers are lines of JSON.
"""

from __future__ import annotations

import json
import os
import select
import sys
from typing import Any

POLL_MS = 50
NEVER_MS = 3_000_000
"""max.poll.interval.ms: the test does not last as long."""


def tell(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def main(protocol: str, bootstrap: str, group: str, client: str, topic: str, session_ms: str) -> None:
    from confluent_kafka import Consumer, TopicPartition

    session = {"session.timeout.ms": int(session_ms), "heartbeat.interval.ms": 1_000} if protocol == "classic" else {}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": group, "client.id": client, "group.protocol": protocol,
            "enable.auto.commit": False, "auto.offset.reset": "earliest", "max.poll.interval.ms": NEVER_MS,
            "log_level": 0, **session,
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    told: list[Any] = []
    while True:
        consumer.poll(POLL_MS / 1000)
        if (owned := sorted((each.topic, each.partition) for each in consumer.assignment())) != told:
            told = owned
            tell(member_id=consumer.memberid(), assigned=owned)
        if not select.select([sys.stdin], [], [], 0)[0]:
            continue
        line = os.read(0, 65_536)
        if not line:  # the test has ended
            os._exit(0)
        offsets = json.loads(line)
        if offsets is None:
            consumer.close()
            tell(done=True)
            return
        consumer.commit(offsets=[TopicPartition(*each) for each in offsets], asynchronous=False)
        tell(done=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

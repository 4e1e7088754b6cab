"""A consumer in a process of its own, librdkafka's: reads some records of `orders`, commits, leaves or is killed.

    python -m tests.reference.member_program '{"bootstrap": ..., "group": ..., "protocol": "classic", "records": 20}'

It prints one JSON line with what it has read, [partition, offset, value], and committed, {partition: offset}; with
"stay" it keeps its membership until its standard input ends, without leaving.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

TIMEOUT_S = 60
SESSION_TIMEOUT_MS = 600_000
"""Longer than any test: a member that was killed stays in its group."""


def main() -> None:
    from confluent_kafka import Consumer

    asked = json.loads(sys.argv[1])
    settings: dict[str, Any] = {
        "bootstrap.servers": asked["bootstrap"],
        "group.id": asked["group"],
        "group.protocol": asked["protocol"],
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    if asked["protocol"] == "classic":
        settings["session.timeout.ms"] = settings["max.poll.interval.ms"] = SESSION_TIMEOUT_MS
    if asked.get("instance"):
        settings["group.instance.id"] = asked["instance"]
    consumer = Consumer(settings)
    assigned: list[int] = []
    consumer.subscribe(
        ["orders"], on_assign=lambda _consumer, partitions: assigned.extend(p.partition for p in partitions)
    )
    read: list[tuple[int, int, str]] = []
    deadline_s = time.monotonic() + TIMEOUT_S
    while len(read) < asked["records"] or not assigned:
        assert time.monotonic() < deadline_s, f"{len(read)} of {asked['records']} records, assigned {assigned}"
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            read.append((message.partition(), message.offset(), message.value().decode()))
    committed = {}
    if asked["records"]:
        done = consumer.commit(asynchronous=False)
        committed = {each.partition: each.offset for each in done if each.offset >= 0}
    print(json.dumps({"read": read, "committed": committed}), flush=True)
    if asked.get("stay"):
        sys.stdin.read()
        os._exit(0)
    consumer.close()


if __name__ == "__main__":
    main()

"""Produce numbered records at a steady rate until told to stop (SIGTERM), and say what was acknowledged.

Environment: BOOTSTRAP_SERVERS, TOPIC, RECORDS_PER_SECOND. Prints one JSON object a line. Record number n has the key
"order-n" and the value "n"; the client's own partitioner spreads them by key.
"""

from __future__ import annotations

import json
import os
import signal
import threading

from kafka import KafkaProducer

REPORT_EVERY_S = 1.0
CLOSE_TIMEOUT_S = 8.0  # `docker stop` sends SIGKILL after 10 s
MAX_FAILED_SHOWN = 1000


def say(event: str, **fields: object) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)  # noqa: T201  (what it is for)


class Acknowledgements:
    """How many records the broker has taken, and which not (filled in from the client's thread)."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.failed: list[int] = []

    def taken(self, _metadata: object) -> None:
        with self.lock:
            self.count += 1

    def refused(self, number: int, error: BaseException) -> None:
        with self.lock:
            if len(self.failed) < MAX_FAILED_SHOWN:
                self.failed.append(number)
        say("failed", number=number, error=repr(error))


def main() -> None:
    stop = threading.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        # The first process of a container has no default action for SIGTERM: without a handler docker stop kills.
        signal.signal(signum, lambda *_: stop.set())

    topic = os.environ["TOPIC"]
    interval_s = 1.0 / float(os.environ.get("RECORDS_PER_SECOND", "10"))
    producer = KafkaProducer(
        bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"].split(","), client_id="producer", acks="all"
    )
    acknowledgements = Acknowledgements()
    say("started", topic=topic)

    number = 0
    unreported_s = 0.0
    while not stop.wait(interval_s):
        future = producer.send(topic, key=f"order-{number}".encode(), value=str(number).encode())
        future.add_callback(acknowledgements.taken)
        future.add_errback(lambda error, number=number: acknowledgements.refused(number, error))
        number += 1
        unreported_s += interval_s
        if unreported_s >= REPORT_EVERY_S:
            unreported_s = 0.0
            say("produced", sent=number, acknowledged=acknowledgements.count)

    producer.flush(timeout=CLOSE_TIMEOUT_S)
    say("stopped", sent=number, acknowledged=acknowledgements.count, failed=acknowledgements.failed)
    producer.close(timeout=1)


if __name__ == "__main__":
    main()

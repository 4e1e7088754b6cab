"""One member of a consumer group: process records, commit after each poll, and say what happens.

Environment: BOOTSTRAP_SERVERS, TOPIC, GROUP_ID, SESSION_TIMEOUT_MS, and the container's HOSTNAME as client id. Prints
one JSON object a line. Processing comes before committing, so a crash between the two makes the next owner see records
again and never lose one.
"""

from __future__ import annotations

import json
import os
import signal
import threading

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, RetriableError

POLL_TIMEOUT_MS = 500
COMMIT_TIMEOUT_MS = 5000
CLOSE_TIMEOUT_MS = 5000


def say(event: str, **fields: object) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)  # noqa: T201  (what it is for)


class Narrator(ConsumerRebalanceListener):  # type: ignore[misc]
    """Says which partitions come and go."""

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        say("revoked", partitions=sorted(each.partition for each in revoked))

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        say("assigned", partitions=sorted(each.partition for each in assigned))


def main() -> None:
    stop = threading.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        # The first process of a container has no default action for SIGTERM: without a handler docker stop kills.
        signal.signal(signum, lambda *_: stop.set())

    consumer = KafkaConsumer(
        bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"].split(","),
        client_id=os.environ.get("HOSTNAME", "consumer"),
        group_id=os.environ["GROUP_ID"],
        session_timeout_ms=int(os.environ.get("SESSION_TIMEOUT_MS", "10000")),
        heartbeat_interval_ms=1000,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.subscribe([os.environ["TOPIC"]], listener=Narrator())
    say("started", group_id=os.environ["GROUP_ID"])

    while not stop.is_set():
        try:
            batches = consumer.poll(timeout_ms=POLL_TIMEOUT_MS)
        except RetriableError as error:
            # kafka-python's way to say that the coordinator refuses connections, as while it starts again.
            say("poll failed", error=repr(error))
            stop.wait(POLL_TIMEOUT_MS / 1000)
            continue
        for topic_partition, records in batches.items():
            say(
                "processed",
                partition=topic_partition.partition,
                first_offset=records[0].offset,
                last_offset=records[-1].offset,
                values=[int(record.value) for record in records],
            )
        if batches:
            # What the next owner of these partitions has to start from.
            offsets = {str(each.partition): records[-1].offset + 1 for each, records in batches.items()}
            try:
                consumer.commit(timeout_ms=COMMIT_TIMEOUT_MS)
            except KafkaError as error:
                # Another member owns the partition now, or the coordinator is away: the commit after the next poll
                # covers these records too, or whoever owns the partition then sees them again.
                say("commit failed", offsets=offsets, error=repr(error))
            else:
                say("committed", offsets=offsets)

    consumer.close(timeout_ms=CLOSE_TIMEOUT_MS)
    say("stopped")


if __name__ == "__main__":
    main()

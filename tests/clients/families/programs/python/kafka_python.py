"""What kafka-python 2.x and 3.x do alike: consume and produce."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterable

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError
from line_protocol import (
    ARGUMENTS,
    aborted_values,
    as_it_comes,
    closing,
    isolation,
    listen_for_close,
    numbers,
    pairs,
    say,
    values,
)

INTERRUPTED_S = 0.05
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}
with contextlib.suppress(ImportError):  # 3.x has it
    cooperative = importlib.import_module("kafka.coordinator.assignors.cooperative_sticky")
    ASSIGNORS["cooperative-sticky"] = cooperative.CooperativeStickyAssignor


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        say("ASSIGNED", numbers(each.partition for each in assigned))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        say("REVOKED", numbers(each.partition for each in revoked))


def consume() -> None:
    settings: dict[str, object]
    if as_it_comes():
        settings = {"client_id": ARGUMENTS["client_id"]}
    else:
        settings = {
            "group_instance_id": ARGUMENTS.get("instance") or None,
            "enable_auto_commit": False,
            "isolation_level": isolation(),
            "session_timeout_ms": int(ARGUMENTS["session_timeout_ms"]),
            "heartbeat_interval_ms": int(ARGUMENTS["heartbeat_interval_ms"]),
            "partition_assignment_strategy": [ASSIGNORS[ARGUMENTS["assignor"]]],
        }
    consumer = KafkaConsumer(
        bootstrap_servers=ARGUMENTS["bootstrap"],
        group_id=ARGUMENTS["group"],
        auto_offset_reset="earliest",
        **settings,
    )
    consumer.subscribe([ARGUMENTS["topic"]], listener=Listener())
    # A leader that joins before it knows the topic joins again; kafka-python 3.0's is silent for ever when a poll ends
    # in that join (tests/clients/kafka_python_joins.py).
    with contextlib.suppress(KafkaError):
        consumer.partitions_for_topic(ARGUMENTS["topic"])
    while not closing.is_set():
        try:
            # A poll that ends in the middle of a join makes kafka-python join anew.
            batches = consumer.poll(timeout_ms=1_000)
        except KafkaError as error:
            if not error.retriable:
                raise
            closing.wait(INTERRUPTED_S)  # its way to say that no broker is there now: applications poll again
            continue
        for partition, records in batches.items():
            for record in records:
                say("RECORD", partition.partition, record.offset, record.value.decode())
        if batches and not as_it_comes():
            try:
                consumer.commit()
                say("COMMITTED", pairs({each.partition: got[-1].offset + 1 for each, got in batches.items()}))
            except KafkaError as error:
                say("COMMIT_FAILED", repr(error))
    consumer.close()
    say("CLOSED")


def produce() -> None:
    compression = None if ARGUMENTS["compression"] == "none" else ARGUMENTS["compression"]
    producer = KafkaProducer(
        bootstrap_servers=ARGUMENTS["bootstrap"],
        compression_type=compression,
        acks="all",
        transactional_id=ARGUMENTS.get("transactional_id"),
    )
    if "transactional_id" in ARGUMENTS:
        producer.init_transactions()
        for written, end in ((values(), producer.commit_transaction), (aborted_values(), producer.abort_transaction)):
            producer.begin_transaction()
            write(producer, written)
            end()
    else:
        write(producer, values())
    producer.close(timeout=20)
    say("PRODUCED", ARGUMENTS["count"])


def write(producer: KafkaProducer, written: list[bytes]) -> None:
    for future in [producer.send(ARGUMENTS["topic"], value) for value in written]:
        future.get(timeout=20)


def run(administer: Callable[[], None]) -> None:
    if ARGUMENTS["mode"] == "consume":
        listen_for_close()
        consume()
    elif ARGUMENTS["mode"] == "admin":
        administer()
    else:
        produce()

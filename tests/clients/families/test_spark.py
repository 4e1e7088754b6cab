"""Spark's Kafka source and sink. They form no groups: Spark assigns partitions and keeps offsets in its checkpoint."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from tests.clients.brokers import QUICK_SETTINGS
from tests.clients.families.clients import CODECS, spark
from tests.clients.families.program import Program, run_program
from tests.clients.families.toolchains import ToolMissing
from tests.daemon import Daemon, running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]

PARTITIONS = 3
RECORDS = 60
SPARK_TIMEOUT_S = 180


def produce(bootstrap: str, topic: str, first: int) -> list[str]:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    values = [f"value-{number:06d}" for number in range(first, first + RECORDS)]
    for number, value in enumerate(values):
        producer.send(topic, value.encode(), partition=number % PARTITIONS)
    producer.flush(timeout=30)
    producer.close(timeout=10)
    return values


def everything_in(bootstrap: str, topic: str, count: int) -> list[str]:
    """All values of a topic of one partition, read by kafka-python until there are `count` and no more."""
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None)
    consumer.assign([partition])
    seen: list[str] = []

    def arrived() -> bool:
        for records in consumer.poll(timeout_ms=200).values():
            seen.extend(record.value.decode() for record in records)
        return len(seen) >= count

    wait_until(arrived, f"{count} records in {topic}", seen=lambda: len(seen))
    assert consumer.end_offsets([partition])[partition] == count
    consumer.close()
    return seen


def ask(program: Program, *words: str) -> str:
    answer = program.ask(*words, timeout_s=SPARK_TIMEOUT_S)
    assert answer.kind == "OK", program.story()
    return answer.rest


def read_write_and_copy(daemon: Daemon, program: Program, checkpoint: Path) -> None:
    values = produce(daemon.bootstrap, "source", 0)
    assert Counter(ask(program, "read", "source", "read_uncommitted").split(" ")) == Counter(values)

    for codec in CODECS:
        ask(program, "write", "sink", codec, codec, str(RECORDS))
    wanted = {f"{codec}-{number:06d}" for codec in CODECS for number in range(RECORDS)}
    assert Counter(everything_in(daemon.bootstrap, "sink", len(wanted))) == Counter(wanted)

    ask(program, "copy", "source", "copy", str(checkpoint))
    daemon.kill()
    daemon.start()
    values += produce(daemon.bootstrap, "source", RECORDS)
    ask(program, "copy", "source", "copy", str(checkpoint))
    assert Counter(everything_in(daemon.bootstrap, "copy", len(values))) == Counter(values)


def read_committed(daemon: Daemon, program: Program) -> None:
    producer = KafkaProducer(bootstrap_servers=daemon.bootstrap, transactional_id="writer")
    producer.init_transactions()
    for value, end in (("aborted", producer.abort_transaction), ("committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.send("transactions", value.encode(), partition=0).get(timeout=30)
        end()
    producer.close(timeout=10)
    assert ask(program, "read", "transactions", "read_committed") == "committed"


def test_source_sink_and_checkpoint(tmp_path: Path) -> None:
    """A batch read, batch writes in every codec, and a streaming query that goes on after the daemon was killed."""
    try:
        command, jars = spark()
    except ToolMissing as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"skipped: Spark {missing}")
    with running(tmp_path / "daemon", QUICK_SETTINGS) as daemon:
        admin = KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
        for topic, partitions in {"source": PARTITIONS, "sink": 1, "copy": 1, "transactions": 1}.items():
            admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}})
        admin.close()
        program = run_program(command, bootstrap=daemon.bootstrap, jars=jars, directory=tmp_path / "spark")
        try:
            read_committed(daemon, program)
            read_write_and_copy(daemon, program, tmp_path / "checkpoint")
        finally:
            program.kill()

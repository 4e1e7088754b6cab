"""The same log cleaned by Kafka's cleaner and by ours holds the same records, and each goes on where the other was.

A broker is given a compacted topic of tiny segments with its cleaner off and is stopped; its directory is copied, and
ours cleans the copy while Kafka, started again with the cleaner on, cleans the original. Then more is written, over
what Kafka's cleaner has left behind, and both do it again: now tombstones and markers have a horizon that is over.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from coordinatord.broker.log import DataDirectory, LogConfig, PartitionLog, checkpoint
from coordinatord.broker.log.cleaner import Cleaner, CleanerSettings, InProcess
from coordinatord.broker.log.disk import OsDisk
from coordinatord.broker.log.writer import LogWriter
from kafka_wire.records.batch import BatchHeader, Record, iterate_batches, records
from tests.broker.log.world import HandLoop, HandWorker
from tests.clients.librdkafka import admin_client
from tests.reference.broker import JVM, KafkaBroker, run_tool, running_broker, wait_until_serving
from tests.reference.test_dump_log_segments import COMPLAINT

if TYPE_CHECKING:
    # Not where the module is read: the quick tests collect it too, with no client but kafka-python installed.
    import confluent_kafka

pytestmark = pytest.mark.reference

TOPIC = "compacted"
TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "6000",
    "min.cleanable.dirty.ratio": "0.0",
    "delete.retention.ms": "1",
    "index.interval.bytes": "500",
}
OVERRIDES = {
    "log.cleaner.backoff.ms": "50",
    "transaction.state.log.num.partitions": "1",
    "log.segment.delete.delay.ms": "100",
}
CLEANING_TIMEOUT_S = 300


@contextlib.contextmanager
def started_again(broker: KafkaBroker, *, cleaner: bool) -> Iterator[None]:
    """The broker, which is stopped, once more."""
    with broker.properties_file.open("a") as properties:
        properties.write(f"log.cleaner.enable={str(cleaner).lower()}\n")  # the last one counts
    command = ["java", *JVM, "-cp", f"{broker.libs}/*", "kafka.Kafka", str(broker.properties_file)]
    with broker.log_file.open("ab") as log:
        broker.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        assert wait_until_serving(broker), broker.log_tail()
        yield
    finally:
        broker.stop()


def write(bootstrap: str, part: int) -> None:
    """Every kind of record: keys that come back, tombstones; four codecs; idempotent, committed and aborted."""
    import confluent_kafka

    def producer(**more: Any) -> confluent_kafka.Producer:
        return confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 2, **more})

    def send(to: confluent_kafka.Producer, number: int, key: str) -> None:
        value = None if number % 11 == 0 else f"{part} {number} " + "x" * (number % 90)
        headers = [("h", b"%d" % number)] if number % 5 == 0 else None
        to.produce(TOPIC, value, key, timestamp=1_700_000_000_000 + number, headers=headers)

    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        with_codec = producer(**{"compression.type": codec, "enable.idempotence": codec in ("lz4", "none")})
        for number in range(150):
            send(with_codec, number, f"k{number % 23}")
            if number % 20 == 0:
                with_codec.flush(120)
        assert with_codec.flush(120) == 0
    transactional = producer(**{"transactional.id": f"t{part}", "compression.type": "lz4"})
    transactional.init_transactions(120)
    for round_number in range(6):
        transactional.begin_transaction()
        for number in range(40):
            send(transactional, number, f"k{number % 31}" if round_number < 3 else f"t{number % 7}")
        transactional.flush(120)
        if round_number % 2:
            transactional.abort_transaction(30)
        else:
            transactional.commit_transaction(30)
    last = producer()
    for number in range(100):
        send(last, 1000 + number, f"k{number % 29}")
    assert last.flush(120) == 0


def create(bootstrap: str) -> None:
    from confluent_kafka.admin import NewTopic

    admin = admin_client(bootstrap)
    [made] = admin.create_topics([NewTopic(TOPIC, 1, 1, config=TOPIC_CONFIGS)]).values()
    made.result(120)


def cleaned_to(data_dir: Path) -> int:
    offsets = checkpoint.read_offsets(OsDisk(), str(data_dir / checkpoint.CLEANER))
    return offsets.get((TOPIC, 0), 0)


def wait_for_kafkas_cleaner(data_dir: Path) -> None:
    """Until everything below the active segment is clean."""
    deadline = time.monotonic() + CLEANING_TIMEOUT_S
    while True:
        active = max(int(path.stem) for path in (data_dir / f"{TOPIC}-0").glob("*.log"))
        if cleaned_to(data_dir) == active:
            return
        assert time.monotonic() < deadline, f"Kafka's cleaner is at {cleaned_to(data_dir)}, active is {active}"
        time.sleep(0.1)


def clean(data_dir: Path, now_ms: int) -> None:
    """With our cleaner, in place."""
    config = LogConfig(
        cleanup_policy="compact",
        segment_bytes=6000,
        segment_ms=1 << 50,  # our cleaner would begin a new segment, as the records are old
        min_cleanable_dirty_ratio=0.0,
        delete_retention_ms=1,
        index_interval_bytes=500,
    )
    data = DataDirectory.open(str(data_dir), config_for=lambda topic: config if topic == TOPIC else LogConfig())
    loop, worker, own = HandLoop(), HandWorker(), HandWorker()
    failures: list[BaseException] = []
    writer = LogWriter(data, loop, failures.append, worker=worker)
    cleaner = Cleaner(
        data,
        writer,
        loop,
        CleanerSettings(),
        workshop=InProcess(data.disk),
        worker=own,
        now_ms=lambda: now_ms,
        on_failed=lambda log, error: failures.append(error),
    )
    cleaner.look()
    while loop.ready or worker.jobs or own.jobs:
        loop.turn()
        worker.run_one()
        own.run_one()
    assert not failures
    log = data.get(TOPIC, 0)
    assert log is not None
    assert cleaner.state.runs == 1
    check_reading(log)
    cleaner.close()
    writer.close()
    data.close()


def check_reading(log: PartitionLog) -> None:
    """Whatever offset is asked for, it is found through the indexes."""
    for offset in range(0, log.end_offset, 7):
        assert log.read(offset, 1000)


def batches(data_dir: Path) -> list[tuple[BatchHeader, list[Record]]]:
    """All batches with records, of all segments."""
    found = []
    for path in sorted((data_dir / f"{TOPIC}-0").glob("*.log")):
        data = path.read_bytes()
        found += [(header, list(records(data, at, header))) for at, header in iterate_batches(data)]
    return found


def comparable(data_dir: Path) -> list[tuple[object, ...]]:
    """What has to be the same of every batch. The horizon is an hour of the clock: only that there is one is compared;
    and the length of compressed records, and the base timestamp, are the writer's business.
    """
    return [
        (
            header.base_offset,
            header.last_offset,
            header.attributes,
            header.max_timestamp,
            (header.producer_id, header.producer_epoch, header.base_sequence),
            tuple((each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in content),
        )
        for header, content in batches(data_dir)
        if content
    ]


def with_horizon(data_dir: Path) -> set[int]:
    """Tombstones and markers whose time to go is known."""
    return {
        each.offset
        for header, content in batches(data_dir)
        for each in content
        if header.delete_horizon_ms is not None and (each.value is None or header.is_control)
    }


def emptied(data_dir: Path) -> set[int]:
    """Last offsets of batches without records."""
    return {header.last_offset for header, content in batches(data_dir) if not content}


def test_kafkas_cleaner_and_ours_keep_the_same(kafka_libs: Path, tmp_path: Path) -> None:
    with running_broker(kafka_libs, tmp_path / "kafka", {**OVERRIDES, "log.cleaner.enable": "false"}) as broker:
        create(broker.bootstrap)
        write(broker.bootstrap, 1)
        broker.stop()
        for round_number in (1, 2):
            ours = tmp_path / f"ours-{round_number}"
            shutil.copytree(broker.data_dir, ours)
            before = len(batches(ours))
            began_ms = int(time.time() * 1000)
            with started_again(broker, cleaner=True):
                wait_for_kafkas_cleaner(broker.data_dir)
            clean(ours, began_ms)
            assert comparable(ours) == comparable(broker.data_dir)
            assert len(batches(ours)) < before
            # An empty batch of Kafka's keeps a producer's sequence; ours, also the end of a segment.
            assert emptied(broker.data_dir) <= emptied(ours)
            assert cleaned_to(ours) == cleaned_to(broker.data_dir)
            if round_number == 1:
                leaving = with_horizon(ours)
                assert leaving
                # Each goes on with what Kafka's cleaner has left behind.
                with started_again(broker, cleaner=False):
                    write(broker.bootstrap, 2)
        assert not leaving & {each.offset for _header, content in batches(ours) for each in content}
        files = sorted(str(path) for path in (ours / f"{TOPIC}-0").iterdir() if path.suffix in (".log", ".index"))
        text = run_tool(kafka_libs, "DumpLogSegments", "--files", ",".join(files), "--deep-iteration")
        assert not COMPLAINT.search(text), COMPLAINT.search(text)
        # And the other way round: Kafka serves what our cleaner has left behind.
        shutil.rmtree(broker.data_dir / f"{TOPIC}-0")
        shutil.copytree(ours / f"{TOPIC}-0", broker.data_dir / f"{TOPIC}-0")
        with started_again(broker, cleaner=True):
            seen = consume(broker.bootstrap)
    committed = [
        (each.offset, each.key, each.value)
        for header, content in batches(ours)
        for each in content
        if not header.is_control
    ]
    assert seen == committed


def consume(bootstrap: str) -> list[tuple[int, bytes | None, bytes | None]]:
    """Everything that a consumer of committed records gets."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    seen: list[tuple[int, bytes | None, bytes | None]] = []
    deadline = time.monotonic() + CLEANING_TIMEOUT_S
    while True:
        message = consumer.poll(1.0)
        assert time.monotonic() < deadline, f"{len(seen)} records and no end"
        if message is None:
            continue
        error = message.error()
        if error is not None:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            break
        offset = message.offset()
        assert offset is not None
        seen.append((offset, message.key(), message.value()))  # type: ignore[arg-type]  # bytes, as nobody decodes
    consumer.close()
    return seen

"""Kafka reads what our log writes: segments, indexes and checkpoints through DumpLogSegments, batches through its
record classes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinatord.broker.log import DataDirectory, LogConfig, PartitionLog, replay
from kafka_wire.records import keys
from kafka_wire.records.batch import TRANSACTIONAL, BatchBuilder, KeyValues, build_batch, build_control_batch
from kafka_wire.records.compression import Compression
from kafka_wire.records.control import ControlType
from kafka_wire.records.offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tests.broker.log.lookups import greatest
from tests.broker.log.world import HandLoop, HandWorker
from tests.reference.capture_batches import expected_records, java

pytestmark = pytest.mark.reference

COMPLAINT = re.compile(r"mismatch|Non-consecutive|out of order|Invalid|not valid|isvalid: false", re.IGNORECASE)
Dump = Callable[..., str]


@pytest.fixture
def dump(kafka_libs: Path) -> Dump:
    """DumpLogSegments with what it says on both streams: it complains on the second and succeeds all the same."""

    def run(*arguments: str) -> str:
        command = [
            "java",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{kafka_libs}/*",
            "org.apache.kafka.tools.DumpLogSegments",
            *arguments,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout + done.stderr

    return run


class Writing:
    """A data directory in files, written epoch by epoch."""

    def __init__(self, path: Path) -> None:
        from coordinatord.broker.log import LogWriter

        self.path = path
        self.loop, self.worker = HandLoop(), HandWorker()
        self.data = DataDirectory.open(str(path))
        self.writer = LogWriter(self.data, self.loop, self._failed, worker=self.worker)

    def _failed(self, error: BaseException) -> None:
        raise error

    def log(self, topic: str, config: LogConfig) -> PartitionLog:
        return self.data.create(topic, [0], topic.encode().ljust(16, b".")[:16], config)[0]

    def flush(self) -> None:
        while self.loop.ready or self.worker.jobs:
            self.loop.turn()
            self.worker.run_one()

    def close(self) -> None:
        self.writer.close()
        self.data.close()


@pytest.fixture
def writing(tmp_path: Path) -> Writing:
    return Writing(tmp_path / "data")


def test_segments_of_every_kind_of_batch(writing: Writing, dump: Dump) -> None:
    log = writing.log("events", LogConfig())
    for number, codec in enumerate(Compression):
        builder = BatchBuilder()
        for timestamp, key, value, headers in expected_records():
            builder.add(key, value, timestamp, headers)
        batch = builder.finish(compression=codec, producer_id=40 + number, producer_epoch=1, base_sequence=0)
        writing.writer.append(log, batch)
    writing.writer.append(log, build_control_batch(ControlType.COMMIT, 44, 1, 3, 1_700_000_000_900))
    writing.flush()
    writing.close()
    text = dump("--files", log.segments[0].log_path, "--print-data-log", "--deep-iteration")
    batches = re.findall(r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+).*?isvalid: (\w+)", text)
    assert [(int(first), int(last), int(count), sound) for first, last, count, sound in batches] == [
        *((40 * number, 40 * number + 39, 40, "true") for number in range(5)),
        (200, 200, 1, "true"),
    ]
    codecs = re.findall(r"compresscodec: (\w+)", text)
    assert codecs == ["none", "gzip", "snappy", "lz4", "zstd", "none"]
    shown = re.findall(
        r"\| offset: (\d+) CreateTime: (\d+) .*?(?: key: (\S+))?(?: payload: (\S+))?$", text, re.MULTILINE
    )
    wanted = [
        (str(40 * number + index), str(timestamp), (key or b"").decode(), (value or b"").decode())
        for number in range(5)
        for index, (timestamp, key, value, _headers) in enumerate(expected_records())
    ]
    assert shown[:200] == wanted
    assert "endTxnMarker: COMMIT coordinatorEpoch: 3" in text


def test_indexes_of_several_segments(writing: Writing, dump: Dump) -> None:
    log = writing.log("events", LogConfig(segment_bytes=60_000, index_interval_bytes=1000))
    for number in range(400):
        writing.writer.append(log, build_batch([(b"k", b"x" * (number % 500))] * 2, 1_700_000_000_000 + number % 37))
        if number % 9 == 0:
            writing.flush()
    writing.flush()
    writing.close()
    assert len(log.segments) > 3
    files = [file for s in log.segments for file in (s.log_path, s.index_path, s.time_index_path)]
    text = dump("--files", ",".join(files), "--index-sanity-check")
    for segment in log.segments:
        assert f"{segment.index_path} passed sanity check" in text
        assert f"{segment.time_index_path} passed sanity check" in text
    # Without the flag the tool looks up every entry in the log and reports those that do not fit.
    text = dump("--files", ",".join(files))
    assert not COMPLAINT.search(text), COMPLAINT.search(text)
    entries = re.findall(r"^offset: (\d+) position: (\d+)", text, re.MULTILINE)
    assert len(entries) == sum(segment.index_count for segment in log.segments) > 50


def test_the_tool_would_have_noticed(writing: Writing, dump: Dump) -> None:
    log = writing.log("events", LogConfig(index_interval_bytes=1000))
    for number in range(100):
        writing.writer.append(log, build_batch([(b"k", b"x" * 100)], 1_700_000_000_000 + number))
    writing.flush()
    writing.close()
    for path, position in ((log.segments[0].index_path, -5), (log.segments[0].time_index_path, -5)):
        content = bytearray(Path(path).read_bytes())
        content[position] ^= 1  # the last entry's offset, its timestamp
        Path(path).write_bytes(content)
        assert COMPLAINT.search(dump("--files", path))


def test_offsets_as_kafkas_decoder_shows_them(writing: Writing, dump: Dump) -> None:
    """Every form of record that classic groups write: with and without a retention time, a topic's id, members, static
    ones, none at all; tombstones of both kinds; and of a transaction, with its marker.
    """
    log = writing.log("__consumer_offsets", LogConfig(cleanup_policy="compact"))
    offset, group = OffsetCommitKey("readers", "events", 3), GroupMetadataKey("readers")
    members = [
        MemberMetadata("m-1", None, "client", "/127.0.0.1", 60_000, 45_000, b"\0\0", b"\0\1"),
        MemberMetadata("m-2", "static", "client", "/127.0.0.1", 60_000, 45_000, b"\0\0", b"\0\1"),
    ]
    plain: list[tuple[object, object]] = [
        (offset, OffsetCommitValue(77, 5, "note", 1_700_000_000_000)),
        (offset, OffsetCommitValue(78, -1, "", 1_700_000_000_000, topic_id=bytes(15) + b"\7")),
        (offset, OffsetCommitValue(79, 5, "", 1_700_000_000_000, expire_timestamp=1_700_000_000_500)),
        (group, GroupMetadataValue("consumer", 4, "range", "m-1", 1_700_000_000_001, members)),
        (group, GroupMetadataValue("consumer", 5, None, None, 1_700_000_000_002, [])),
        (offset, None),
        (group, None),
    ]
    for key, value in plain:
        record = keys.encode_key(key), None if value is None else keys.encode_value(value)
        writing.writer.append_records(log, KeyValues([record]), 1_700_000_000_003)
        writing.flush()
    builder = BatchBuilder()
    builder.add(keys.encode_key(offset), keys.encode_value(OffsetCommitValue(80, 5, "", 1_700_000_000_000)), 1)
    batch = builder.finish(producer_id=9, producer_epoch=1, base_sequence=0, attributes=TRANSACTIONAL)
    writing.writer.append(log, batch)
    writing.writer.append(log, build_control_batch(ControlType.COMMIT, 9, 1, 3, 1))
    writing.flush()
    writing.close()
    text = dump("--files", log.segments[0].log_path, "--offsets-decoder")
    shown = [line.split(" key: ", 1)[1] for line in text.splitlines() if line.startswith("| ") and " key: " in line]
    offset_key = '{"type":"1","data":{"group":"readers","topic":"events","partition":3}}'
    group_key = '{"type":"2","data":{"group":"readers"}}'
    assert [line.split(" payload: ")[0] for line in shown] == [offset_key] * 3 + [group_key] * 2 + [
        offset_key,
        group_key,
        offset_key,
    ]
    payloads = [line.split(" payload: ")[1] for line in shown]
    for payload, parts in zip(
        payloads,
        [
            ('"version":"4"', '"offset":77,"leaderEpoch":5,"metadata":"note"'),
            ('"version":"4"', '"offset":78,"leaderEpoch":-1,"metadata":""', '"topicId":"AAAAAAAAAAAAAAAAAAAABw"'),
            ('"version":"1"', '"offset":79', '"expireTimestamp":1700000000500'),
            ('"version":"3"', '"generation":4,"protocol":"range","leader":"m-1"', '"memberId":"m-1"', '"static"'),
            ('"version":"3"', '"generation":5,"protocol":null,"leader":null', '"members":[]'),
            ("<DELETE>",),
            ("<DELETE>",),
            ('"version":"4"', '"offset":80'),
        ],
        strict=True,
    ):
        for part in parts:
            assert part in payload
    assert "endTxnMarker: COMMIT coordinatorEpoch: 3" in text
    assert "producerId: 9 producerEpoch: 1 partitionLeaderEpoch: 0 isTransactional: true" in text


def test_kafkas_classes_read_our_batches(kafka_libs: Path) -> None:
    records = list(expected_records())
    lines = []
    for codec in Compression:
        builder = BatchBuilder()
        for timestamp, key, value, headers in records:
            builder.add(key, value, timestamp, headers)
        lines.append(builder.finish(1000, compression=codec).hex())

    def hexed(data: bytes | None) -> str:
        return "-" if data is None else data.hex()

    wanted = "\t".join(
        ",".join(
            [str(1000 + number), str(timestamp), hexed(key), hexed(value)]
            + [f"{name}={hexed(text)}" for name, text in headers]
        )
        for number, (timestamp, key, value, headers) in enumerate(records)
    )
    assert java(kafka_libs, "read", text="\n".join(lines) + "\n").splitlines() == [wanted] * len(Compression)


def test_a_brokers_directory_is_opened_by_our_log(kafka_broker: object, tmp_path: Path) -> None:
    """What Kafka itself wrote: partitions, ids, indexes; as it is after a kill, and after a clean stop."""
    from kafka import KafkaProducer

    broker = kafka_broker
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, compression_type="lz4", linger_ms=5)  # type: ignore[attr-defined]
    for number in range(500):
        producer.send("from-kafka", key=b"%d" % number, value=b"x" * number, timestamp_ms=1_700_000_000_000 + number)
    producer.flush(30)
    producer.close()
    for stop in ("killed", "stopped"):
        if stop == "stopped":
            broker.stop()  # type: ignore[attr-defined]
        copy = tmp_path / stop
        shutil.copytree(broker.data_dir, copy, ignore=shutil.ignore_patterns("*.tmp"))  # type: ignore[attr-defined]
        node_id = int(
            dict(line.split("=", 1) for line in (copy / "meta.properties").read_text().splitlines() if "=" in line)[
                "node.id"
            ]
        )
        data = DataDirectory.open(str(copy), node_id=node_id)
        assert data.was_clean == (stop == "stopped")
        assert data.recovered == []
        log = data.get("from-kafka", 0)
        assert log is not None
        assert log.topic_id != bytes(16)
        seen = [entry[1:3] for batch in replay(log) for entry in batch.records]
        assert sorted(seen) == sorted((1_700_000_000_000 + number, b"%d" % number) for number in range(500))
        latest = greatest(log)
        assert latest is not None
        assert latest.timestamp == 1_700_000_000_499
        data.close()

"""Record batches that other encoders wrote (tests/golden/records): read whole, and written back the same where
ours is the same encoder.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_wire.records.amend import recompress
from kafka_wire.records.batch import (
    BatchBuilder,
    build_control_batch,
    check_crc,
    control_type,
    iterate_batches,
    read_header,
    records,
)
from kafka_wire.records.compression import Compression
from kafka_wire.records.control import ControlType, decode_end_marker
from kafka_wire.records.key_values import key_values
from kafka_wire.records.produced import Limits, validate_produced
from tests.reference.capture_batches import expected_records

GOLDEN = Path(__file__).parents[1] / "golden" / "records"
MARKERS = {"commit", "abort"}


def load() -> dict[str, bytes]:
    """client/name -> bytes"""
    found = {}
    for path in sorted(GOLDEN.glob("*.tsv")):
        for line in path.read_text().splitlines()[1:]:
            name, text = line.split("\t")
            found[f"{path.stem}/{name}"] = bytes.fromhex(text)
    return found


ALL = load()
JAVA = "kafka-clients-4.3.0"
DATA = [name for name in ALL if name.rpartition("/")[2] not in MARKERS]


def test_every_client_and_codec_is_there() -> None:
    clients = {name.partition("/")[0].rpartition("-")[0] for name in ALL}
    assert clients == {"kafka-clients", "kafka-python", "confluent-kafka", "aiokafka"}
    for client in {name.partition("/")[0] for name in ALL}:
        for position, codec in enumerate(["none", "gzip", "snappy", "lz4", "zstd"]):
            assert read_header(ALL[f"{client}/{codec}"]).codec == position


@pytest.mark.parametrize("name", DATA)
def test_reads_what_the_client_was_given(name: str) -> None:
    data = ALL[name]
    got = []
    for position, header in iterate_batches(data):
        check_crc(data, position, header)
        batch = list(records(data, position, header))
        assert key_values(data, position, header) == [(r.offset, r.timestamp, r.key, r.value) for r in batch]
        assert [record.offset for record in batch] == list(range(header.base_offset, header.next_offset))
        got += batch
    java = name.startswith(JAVA)
    for record, (timestamp, key, value, headers) in zip(got, expected_records(), strict=True):
        # Python producers have no header without a value, and librdkafka was not given one either
        wanted = headers if java or "confluent" in name else [(header, text or b"") for header, text in headers]
        assert (record.key, record.value, record.headers) == (key, value, wanted)
        if "log-append-time" not in name:
            assert record.timestamp == timestamp


def test_log_append_time_is_the_time_of_every_record() -> None:
    header = read_header(ALL[f"{JAVA}/log-append-time"])
    assert header.is_log_append_time
    assert {record.timestamp for record in records(ALL[f"{JAVA}/log-append-time"])} == {header.max_timestamp}


def test_producer_fields() -> None:
    header = read_header(ALL[f"{JAVA}/idempotent"])
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7000, 3, 12345)
    assert header.last_sequence == 12345 + 39
    assert not header.is_transactional
    header = read_header(ALL[f"{JAVA}/transactional"])
    assert header.is_transactional
    assert not header.is_control


@pytest.mark.parametrize(
    ("name", "kind", "epoch"), [("commit", ControlType.COMMIT, 9), ("abort", ControlType.ABORT, 10)]
)
def test_markers(name: str, kind: ControlType, epoch: int) -> None:
    data = ALL[f"{JAVA}/{name}"]
    header = read_header(data)
    assert header.is_control
    assert header.is_transactional
    assert control_type(data, 0, header) == kind
    (record,) = records(data)
    assert decode_end_marker(record.value) == epoch
    ours = build_control_batch(kind, 7001, 4, epoch, header.base_timestamp, header.base_offset)
    ours[12:16] = data[12:16]  # leader epoch 2: the log's to set
    assert ours == data


@pytest.mark.parametrize("name", ["none", "idempotent"])
def test_writes_the_same_bytes_as_java(name: str) -> None:
    header = read_header(ALL[f"{JAVA}/{name}"])
    builder = BatchBuilder()
    for timestamp, key, value, headers in expected_records():
        builder.add(key, value, timestamp, headers)
    ours = builder.finish(
        producer_id=header.producer_id, producer_epoch=header.producer_epoch, base_sequence=header.base_sequence
    )
    assert ours == ALL[f"{JAVA}/{name}"]


@pytest.mark.parametrize("codec", Compression)
def test_recompressing_keeps_the_records(codec: Compression) -> None:
    for name in DATA:
        if name.startswith(JAVA):
            other = recompress(ALL[name], codec)
            header = read_header(other)
            check_crc(other, 0, header)
            assert header.codec == codec
            assert list(records(other)) == list(records(ALL[name]))


@pytest.mark.parametrize("name", [name for name in DATA if "log-append-time" not in name])
def test_clients_batches_are_taken(name: str) -> None:
    taken = validate_produced(ALL[name], 9, Limits(), now_ms=1_700_000_000_000)
    assert isinstance(taken[1], bytearray), taken
    assert taken[1] == ALL[name]

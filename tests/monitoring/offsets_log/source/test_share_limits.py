"""Delivery count limits of share groups from the log of the metadata, as brokers have it in their directories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coordinatord.monitoring.offsets_log.source.options import Options, read_options
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.offsets_log.source.share_limits import DEFAULT_LIMIT, LIMIT, delivery_limits
from kafka_wire.records.batch import build_batch
from kafka_wire.records.cluster_metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    TopicRecord,
    encode_record,
)
from tests.monitoring.pipeline.directories import write_segment

GROUPS = {"g", "h"}


def group(name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(32, name, LIMIT, value)


def brokers(value: str | None, node: str = "") -> ConfigRecord:
    return ConfigRecord(4, node, DEFAULT_LIMIT, value)


def batch(records: list[Any], offset: int = 0) -> bytearray:
    return build_batch([(None, encode_record(each, 0)) for each in records], 5, offset)


def options(directory: Path) -> Options:
    return read_options({"paths": json.dumps([str(directory)])})


@pytest.mark.parametrize(
    ("records", "limits"),
    [
        ([], {}),
        ([TopicRecord("t", b"t" * 16), ConfigRecord(32, "g", "share.auto.offset.reset", "earliest")], {}),
        ([group("g", "3"), group("other", "9")], {"g": 3}),
        ([group("g", "3"), group("g", "4")], {"g": 4}),
        ([group("g", "3"), group("g", None)], {}),
        ([brokers("7"), group("g", "3")], {"g": 3, "h": 7}),
        ([brokers("7"), brokers(None)], {}),
        ([brokers("7", node="1")], {}),  # of one broker, which may coordinate the group or not
        ([BeginTransactionRecord(), group("g", "3"), EndTransactionRecord()], {"g": 3}),
        ([BeginTransactionRecord(), group("g", "3")], {}),
        ([BeginTransactionRecord(), group("g", "3"), AbortTransactionRecord(), group("h", "2")], {"h": 2}),
    ],
)
def test_limits_in_a_log(records: list[Any], limits: dict[str, int], tmp_path: Path) -> None:
    write_segment(tmp_path / "__cluster_metadata-0", 0, [batch(records)] if records else [])
    assert delivery_limits(options(tmp_path), GROUPS) == limits


def test_the_log_goes_on_after_the_newest_snapshot(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    write_segment(directory, 0, [batch([group("g", "9"), group("h", "9")]), batch([group("h", "3")], 10)])
    (directory / f"{5:020d}-0000000001.checkpoint").write_bytes(batch([group("g", "8")]))
    (directory / f"{10:020d}-0000000001.checkpoint").write_bytes(batch([group("g", "2"), group("h", "4")]))
    assert delivery_limits(options(tmp_path), GROUPS) == {"g": 2, "h": 3}


def test_a_directory_without_the_log(tmp_path: Path) -> None:
    write_segment(tmp_path / "__consumer_offsets-0", 0, [])
    assert delivery_limits(options(tmp_path), GROUPS) == {}


def test_damage_is_one_sentence(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    write_segment(directory, 0, [build_batch([(None, b"\1\4\0\x7f")], 5)])
    with pytest.raises(SourceError, match=r"^a record of __cluster_metadata is damaged: "):
        delivery_limits(options(tmp_path), GROUPS)
    (directory / f"{1:020d}-0000000001.checkpoint").write_bytes(batch([group("g", "8")])[:-3])
    with pytest.raises(SourceError, match=r"checkpoint is damaged: "):
        delivery_limits(options(tmp_path), GROUPS)

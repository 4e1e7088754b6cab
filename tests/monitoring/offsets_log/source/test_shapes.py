"""Rows of one kind, and of several kinds in one frame."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from coordinatord.monitoring.offsets_log.decode.row_types import KINDS
from coordinatord.monitoring.offsets_log.source.shapes import Shape

PLACE = {"log_partition": 7, "log_offset": 12, "timestamp_ms": 1_000}
COMMIT = {
    "transactional": False, "producer_id": None, "producer_epoch": None, "record_bytes": 90, "tombstone": False,
    "value_version": 3, "group_id": "g", "topic": "orders", "partition": 2, "committed_offset": 5,
    "leader_epoch": None, "metadata": "", "commit_timestamp_ms": 999, "expire_timestamp_ms": None, "topic_id": None,
}  # fmt: skip
MARKER = {"producer_id": 41, "producer_epoch": 3, "marker": "ABORT", "coordinator_epoch": 6}
BOTH = ("offset_commits", "transaction_markers")


def batch(kind: str, row: dict[str, Any]) -> tuple[str, pa.RecordBatch]:
    return kind, pa.RecordBatch.from_pylist([PLACE | row], schema=KINDS[kind].schema)


def rows(shape: Shape, *batches: tuple[str, pa.RecordBatch]) -> list[dict[str, Any]]:
    made = list(shape.batches(batches))
    assert all(each.schema.equals(shape.schema) for each in made)
    return [row for each in made for row in each.to_pylist()]


def test_one_kind_has_its_own_columns() -> None:
    commit = batch("offset_commits", COMMIT)
    assert rows(Shape(["offset_commits"]), commit) == [PLACE | COMMIT]
    assert rows(Shape(["offset_commits"], ["topic", "log_offset"]), commit) == [{"topic": "orders", "log_offset": 12}]


def test_each_of_several_kinds_has_a_struct_that_is_null_in_rows_of_the_others() -> None:
    found = rows(Shape(BOTH), batch("offset_commits", COMMIT), batch("transaction_markers", MARKER))
    assert found == [
        {**PLACE, "kind": "offset_commits", "offset_commits": COMMIT, "transaction_markers": None},
        {**PLACE, "kind": "transaction_markers", "offset_commits": None, "transaction_markers": MARKER},
    ]


def test_chosen_columns_of_several_kinds() -> None:
    shape = Shape(BOTH, ["transaction_markers", "kind"])
    assert rows(shape, batch("transaction_markers", MARKER)) == [
        {"transaction_markers": MARKER, "kind": "transaction_markers"}
    ]

"""What Kafka's DumpLogSegments says of a segment, held against our rows, field by field."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from coordinatord.monitoring.offsets_log.decode.row_types import (
    KIND_OF_TYPE,
    NONE_IS_MINUS_ONE,
    NONE_IS_ZERO,
    OFFSET_COMMITS,
    RENAMED,
)
from tests.reference.definitions import snake_case

BATCH = re.compile(
    r"^baseOffset: \d+ .* producerId: (-?\d+) producerEpoch: (-?\d+) .* isTransactional: (\w+) isControl: (\w+)"
)
RECORD = re.compile(
    r"^\| offset: (\d+) \w+Time: (-?\d+) keySize: (-?\d+) valueSize: (-?\d+) .* key: (\{.*?\}) payload: (.*)$"
)
MARKER = re.compile(r"^\| offset: (\d+) .* endTxnMarker: (\w+) coordinatorEpoch: (\d+)")

Rows = dict[str, list[dict[str, Any]]]


def compare(dump: str, rows: Rows) -> dict[str, int]:
    """How many rows of each kind there are, all of which say what Kafka says; nothing is on one side alone."""
    ours = {row["log_offset"]: (kind, row) for kind, found in rows.items() for row in found}
    assert len(ours) == sum(map(len, rows.values()))
    seen: dict[str, int] = {}
    batch: tuple[str, ...] = ()
    for line in dump.splitlines():
        if match := BATCH.match(line):
            batch = match.groups()
        elif match := RECORD.match(line):
            kind, row = ours.pop(int(match[1]))
            check_record(match, batch, kind, row)
            seen[kind] = seen.get(kind, 0) + 1
        elif match := MARKER.match(line):
            kind, row = ours.pop(int(match[1]))
            assert (kind, row["marker"], row["coordinator_epoch"]) == ("transaction_markers", match[2], int(match[3]))
            assert (row["producer_id"], row["producer_epoch"]) == (int(batch[0]), int(batch[1]))
            seen[kind] = seen.get(kind, 0) + 1
        else:
            assert not line.startswith("|"), line
    assert ours == {}
    return seen


def check_record(match: re.Match[str], batch: tuple[str, ...], kind: str, row: dict[str, Any]) -> None:
    key = json.loads(match[5])
    assert kind == KIND_OF_TYPE[int(key["type"])]
    assert row["timestamp_ms"] == int(match[2])
    assert row["record_bytes"] == int(match[3]) + max(0, int(match[4]))
    assert row["transactional"] == (batch[2] == "true")
    assert row["producer_id"] == (int(batch[0]) if batch[0] != "-1" else None)
    agree(key["data"], row, kind)
    assert row["tombstone"] == (match[6] == "<DELETE>")
    if not row["tombstone"]:
        payload = json.loads(match[6])
        assert row["value_version"] == int(payload["version"])
        agree(payload["data"], row, kind)


def agree(kafkas: dict[str, Any], ours: dict[str, Any], where: str) -> None:
    """Every field that Kafka shows is ours, under our name and with null for none."""
    for name, value in kafkas.items():
        field = snake_case(name)
        column = RENAMED.get(field, field)
        if where != OFFSET_COMMITS and field == "offset":
            column = field
        none = (field in NONE_IS_MINUS_ONE and value == -1) or (field in NONE_IS_ZERO and value == 0)
        same(None if none else value, ours[column], f"{where}.{column}")


def same(value: Any, ours: Any, where: str) -> None:
    if isinstance(value, dict):
        assert isinstance(ours, dict), where
        agree(value, ours, where)
    elif isinstance(value, list):
        assert len(value) == len(ours), where
        for theirs, mine in zip(value, ours, strict=True):
            same(theirs, mine, f"{where}[]")
    elif isinstance(ours, bytes):
        assert base64.b64decode(value) == ours, where
    else:
        assert value == ours, where

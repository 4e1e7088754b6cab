"""A segment of `__consumer_offsets` that Kafka wrote, and what Kafka's DumpLogSegments says is in it.

Where it comes from: tests/golden/README.md. Our reading of each record must say the same, field by field, and a value
that we read and write again must be the same bytes: that is what Kafka will find in our log.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from kafka_wire.codecs import decode_message
from kafka_wire.records import batch, keys
from kafka_wire.records.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tests.protocol.as_json import as_json

FOLDER = Path(__file__).parents[1] / "golden" / "offsets_log"
SEGMENT = (FOLDER / "00000000000000000000.log").read_bytes()
DUMPED_RECORD = re.compile(r"^\| offset: (\d+) .* key: (\{.*?\}) payload: (.*)$")
DUMPED_BATCH = re.compile(
    r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* size: (\d+) .* crc: (\d+) isvalid: true$"
)


def dumped(pattern: re.Pattern[str]) -> list[tuple[str, ...]]:
    lines = (FOLDER / "dump.txt").read_text().splitlines()
    return [match.groups() for match in map(pattern.match, lines) if match]


def read_records() -> list[batch.Record]:
    found = []
    for position, header in batch.iterate_batches(SEGMENT):
        batch.check_crc(SEGMENT, position, header)
        found += batch.records(SEGMENT, position, header)
    return found


def test_batches_are_where_kafka_says() -> None:
    ours = []
    for _position, header in batch.iterate_batches(SEGMENT):
        last = header.base_offset + header.last_offset_delta
        ours.append((header.base_offset, last, header.record_count, header.size, header.crc))
    assert ours == [tuple(map(int, groups)) for groups in dumped(DUMPED_BATCH)]
    assert sum(size for *_, size, _ in ours) == len(SEGMENT)


def test_records_say_what_kafka_says() -> None:
    records, lines = read_records(), dumped(DUMPED_RECORD)
    assert [record.offset for record in records] == [int(offset) for offset, _, _ in lines]
    seen: Counter[int | str] = Counter()
    for record, (_, key_text, payload_text) in zip(records, lines, strict=True):
        kafka_key = json.loads(key_text)
        record_type = int(kafka_key["type"])
        key = keys.decode_key(record.key)
        assert type(key) is keys.KEY_TYPES[record_type]
        assert as_json(key, 0) == kafka_key["data"]
        assert keys.encode_key(key) == record.key
        if record.value is None:
            assert payload_text == "<DELETE>"
            seen["tombstone"] += 1
            continue
        value, payload = keys.decode_value(key, record.value), json.loads(payload_text)
        assert readable(as_json(value, int(payload["version"])), value) == readable(payload["data"], value)
        assert keys.encode_value(value) == record.value
        seen[record_type] += 1
    # Kafka writes no ConsumerGroupPartitionMetadata (4); no member of this log has an expression (16) or is in a share
    # group (10 to 15).
    assert set(seen) == {1, 2, *keys.RECORD_TYPE_OF.values(), "tombstone"} - {4, 16, *range(10, 16)}


def readable(data: dict[str, Any], value: Any) -> dict[str, Any]:
    """DumpLogSegments takes members' subscriptions and assignments apart; do the same with ours, for what it shows."""
    members = []
    for shown, member in zip(data.get("members", ()), getattr(value, "members", ()), strict=True):
        if isinstance(shown["subscription"], str):
            version = int.from_bytes(member.subscription[:2], "big")
            subscription = decode_message(ConsumerProtocolSubscription, version, member.subscription[2:])
            version = int.from_bytes(member.assignment[:2], "big")
            assignment = decode_message(ConsumerProtocolAssignment, version, member.assignment[2:])
            partitions = as_json(assignment, version)["assignedPartitions"]
            members.append({**shown, "subscription": subscription.topics, "assignment": partitions})
        else:
            partitions = shown["assignment"]["assignedPartitions"]
            members.append({**shown, "subscription": shown["subscription"]["topics"], "assignment": partitions})
    return {**data, "members": members} if members else data

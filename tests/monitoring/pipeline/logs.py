"""Stretches of `__consumer_offsets` for tests: arbitrary ones, with everything that a log can hold and much that it
should not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from coordinatord.monitoring.offsets_log.decode.projection import Wanted
from coordinatord.monitoring.offsets_log.decode.row_types import KINDS, QUARANTINE
from kafka_wire.codecs import encode_message
from kafka_wire.records.amend import set_log_append_time
from kafka_wire.records.batch import CONTROL, TRANSACTIONAL, BatchBuilder
from kafka_wire.records.compression import Compression
from kafka_wire.records.control import ControlType, encode_end_marker, encode_key
from kafka_wire.records.record_types import RECORD_TYPES
from kafka_wire.schema import schema_of
from tests.protocol.arbitrary import Seeded, arbitrary

START_MS = 1_700_000_000_000


def encoded(record_type: int, version: int, key: Any, value: Any) -> tuple[bytes, bytes | None]:
    """A record's bytes as a coordinator writes them; `value` None is a tombstone."""
    lead = record_type.to_bytes(2, "big")
    if value is None:
        return lead + encode_message(key, 0), None
    return lead + encode_message(key, 0), version.to_bytes(2, "big") + encode_message(value, version)


def arbitrary_record(rng: random.Random, record_type: int | None = None) -> tuple[bytes | None, bytes | None]:
    """Any record of any type and version, one in twelve of them damaged or of no known type."""
    if record_type is None:
        record_type = rng.choice((0, 1, 1, 1, 1, 1, 2, 2, *RECORD_TYPES))
    key_class, value_class = RECORD_TYPES[record_type]
    choices = Seeded(rng)
    version = rng.choice(list(schema_of(value_class).versions))
    message = None if rng.randrange(6) == 0 else arbitrary(value_class, version, choices)
    key, value = encoded(record_type, version, arbitrary(key_class, 0, choices), message)
    kind = rng.randrange(40)
    if kind == 0:
        return None, value
    if kind == 1:
        return rng.choice((b"", b"\0", b"\x00\x63abc", b"\xff\xff", b"\0\1")), value
    if kind == 2:
        return mutated(key, rng), value
    if kind == 3 and value is not None:
        return key, mutated(value, rng)
    if kind == 4 and value is not None:
        return key, value[: rng.randrange(len(value))]
    return key, value


def mutated(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        if out:
            out[rng.randrange(len(out))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(out)


def arbitrary_batch(rng: random.Random, base_offset: int) -> bytearray:
    """One sound batch: plain or compressed, of a transaction or not, or a marker."""
    builder = BatchBuilder()
    if rng.randrange(10) == 0:
        marker = rng.choice((ControlType.ABORT, ControlType.COMMIT))
        key, value = encode_key(marker), encode_end_marker(rng.randrange(9))
        if rng.randrange(6) == 0:
            key = rng.choice((key[:3], b"\0\0\0\7", b"\xff\xff\0\0"))
        builder.add(key, value[: rng.choice((6, 6, 6, 5))], START_MS)
        return builder.finish(
            base_offset, attributes=CONTROL | TRANSACTIONAL, producer_id=rng.randrange(4), producer_epoch=1
        )
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        headers = [("h", b"x"), ("n", None)] if rng.randrange(50) == 0 else ()
        builder.add(*arbitrary_record(rng), START_MS + rng.choice((-1000, 0, 5, 1 << 40)), headers)
    in_transaction = rng.randrange(4) == 0
    batch = builder.finish(
        base_offset,
        compression=rng.choice((*[Compression.NONE] * 4, *Compression)),
        attributes=TRANSACTIONAL if in_transaction else 0,
        producer_id=rng.randrange(4) if in_transaction else -1,
        producer_epoch=3 if in_transaction else -1,
    )
    if rng.randrange(10) == 0:
        set_log_append_time(batch, START_MS + 7)
    return batch


def arbitrary_log(rng: random.Random, batches: int) -> bytearray:
    """Batches with gaps between them, as compaction leaves them."""
    log, offset = bytearray(), rng.randrange(1000)
    for _ in range(batches):
        batch = arbitrary_batch(rng, offset)
        log += batch
        offset += int.from_bytes(batch[23:27], "big") + 1 + rng.choice((0, 0, 0, 7))
    return log


ALL = Wanted(log_partition=7, source="here")


def rows_of(tables: dict[str, Sequence[Any]]) -> dict[str, list[dict[str, Any]]]:
    """The rows of record batches by kind, in the order of the log."""
    return {
        kind: sorted(
            (row for b in tables[kind] for row in b.to_pylist()), key=lambda row: (row["log_offset"] or 0, str(row))
        )
        for kind in KINDS
        if tables.get(kind)
    }


def count(rows: dict[str, list[dict[str, Any]]]) -> int:
    """How many records the rows stand for, without the blobs of members."""
    return sum(len(found) for kind, found in rows.items() if kind != QUARANTINE) + sum(
        row["level"] == "record" for row in rows.get(QUARANTINE, ())
    )

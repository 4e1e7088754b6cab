"""A section of a log to Arrow record batches: `decode(buf, at, end, base, wanted)`.

```
bytes ── batches ──── sections ────── records ──┬─ offset commits: programs ─────────── columns
         CRC, place   decompressed    positions ├─ other types: kafka_wire's decoders ─ rows ── columns
                                      of keys,  ├─ control records: markers
                                      values    └─ anything rejected: quarantine, with the reason
```

For offset commits everything stays an array of positions in one buffer up to the columns: no record becomes a Python
object. Data that a kernel rejects goes to `plain`, which finds the reason, or makes a row after all (records with
headers).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from coordinatord.monitoring.offsets_log.decode import compiling, kernels, plain
from coordinatord.monitoring.offsets_log.decode.columns import (
    Interned,
    batch_of_rows,
    constant,
    encoded_schema,
    integers,
    texts,
    topic_ids,
)
from coordinatord.monitoring.offsets_log.decode.kernels import (
    AFTER,
    ATTRIBUTES,
    BASE_OFFSET,
    BATCH,
    BATCH_COLUMNS,
    COUNT,
    KEY_AT,
    KEY_END,
    LAST_DELTA,
    OFFSET,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_COLUMNS,
    SOUND,
    TIMESTAMP,
    VALUE_AT,
    VALUE_END,
    Bytes,
    Ints,
)
from coordinatord.monitoring.offsets_log.decode.programs import Programs, programs_of
from coordinatord.monitoring.offsets_log.decode.projection import Wanted
from coordinatord.monitoring.offsets_log.decode.row_types import (
    KINDS,
    NONE_IS_MINUS_ONE,
    OFFSET_COMMITS,
    QUARANTINE,
    TRANSACTION_MARKERS,
    column_name,
    column_type,
)
from coordinatord.monitoring.offsets_log.decode.rows import Row
from kafka_wire.errors import DecodeError, TruncatedError
from kafka_wire.records.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    read_header,
    record_bytes,
)
from kafka_wire.records.control import ControlType
from kafka_wire.records.offsets import OffsetCommitKey, OffsetCommitValue
from kafka_wire.schema import schema_of

#: Rows of the table that a walk over batches fills at a time.
BATCHES_AT_ONCE = 16_384
#: Decompressed bytes of one step, which then ends; the caller continues with the next batch.
MAX_UNPACKED_BYTES = 32 << 20

KEY = programs_of(OffsetCommitKey)
VALUE = programs_of(OffsetCommitValue)
COMMIT_TYPES = KINDS[OFFSET_COMMITS].record_types
COMMIT_SCHEMA = encoded_schema(OFFSET_COMMITS)


@dataclass(slots=True)
class Decoded:
    """The result of `decode`. `tables` has the record batches of each kind with rows. Batches up to `at` were read;
    `ended` is the reason why the step ended there: kernels.DONE, CUT_SHORT, NO_BATCH, or FULL if its memory is used up.
    """

    at: int
    ended: int
    batches: int = 0
    records: int = 0
    tables: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)

    def add(self, kind: str, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self.tables.setdefault(kind, []).append(batch)


class _Rows:
    """Rows made one by one, by kind, until they become record batches."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.by_kind: dict[str, list[Row]] = {}

    def add(self, kind: str, row: Row) -> None:
        if kind in self.wanted.kinds:
            self.by_kind.setdefault(kind, []).append(row)

    def into(self, decoded: Decoded) -> None:
        for kind, rows in self.by_kind.items():
            decoded.add(kind, batch_of_rows(kind, rows, self.wanted.log_partition, self.wanted.source))


def decode(buf: Bytes, at: int, end: int, base: int, wanted: Wanted, *, compiled: bool | None = None) -> Decoded:
    """Decode the whole batches in buf[at:end]. `base` is the position of buf[0] in the file.

    `compiled` selects the implementation: None uses the kernels once they are compiled, True compiles them.
    """
    if compiled is None:
        compiled = compiling.maybe_compile(end - at)
    elif compiled:
        compiling.compile_loops()
    return _decode_compiled(buf, at, end, base, wanted) if compiled else _decode_plain(buf, at, end, base, wanted)


def _decode_plain(buf: Bytes, at: int, end: int, base: int, wanted: Wanted) -> Decoded:
    data = buf[:end].tobytes()
    rows = _Rows(wanted)
    decoded = Decoded(at, kernels.DONE)
    while decoded.at < end:
        try:
            header = read_header(data, decoded.at, end)
            plain.check_framing(data, decoded.at, header, end)
        except TruncatedError:
            decoded.ended = kernels.CUT_SHORT
            break
        except DecodeError:
            decoded.ended = kernels.NO_BATCH
            break
        decoded.batches += 1
        decoded.records += max(0, header.record_count)
        for kind, row in plain.decode_batch(data, decoded.at, header, base + decoded.at, wanted):
            rows.add(kind, row)
        decoded.at += header.size
        if decoded.batches == BATCHES_AT_ONCE:
            decoded.ended = kernels.FULL
            break
    rows.into(decoded)
    return decoded


def _scan(buf: Bytes, at: int, end: int, *, with_crc: bool) -> tuple[Ints, int, int]:
    """Return (table of batches, position after them, reason why the walk ended)."""
    table = np.empty((min(BATCHES_AT_ONCE, (end - at) // HEADER_BYTES + 1), BATCH_COLUMNS), np.int64)
    found, after, ended = kernels.scan_batches(buf, at, end, with_crc, table)
    return table[:found], after, ended


def _decode_compiled(buf: Bytes, at: int, end: int, base: int, wanted: Wanted) -> Decoded:
    batches, after, ended = _scan(buf, at, end, with_crc=True)
    rows = _Rows(wanted)
    buf, sections, batches, refused = _sections(buf, batches, wanted)
    if len(batches) and batches[-1, AFTER] != after:  # the memory for decompressed records is used up
        after, ended = int(batches[-1, AFTER]), kernels.FULL
    decoded = Decoded(after, ended, len(batches), int(np.maximum(batches[:, COUNT], 0).sum()))

    room = int(np.minimum(np.maximum(batches[sections[:, 2], COUNT], 0), (sections[:, 1] - sections[:, 0]) // 7).sum())
    records = np.empty((RECORD_COLUMNS, room), np.int64)
    bad = np.zeros(len(sections), np.uint8)
    found = kernels.read_records(buf, sections, batches, LOG_APPEND_TIME, records, bad)
    refused += sections[bad != 0, 2].tolist()
    for number in sorted(refused):
        _plain_batch(buf, batches[number], base, wanted, rows)
    _route(_Side(buf, batches, np.ascontiguousarray(records[:, :found])), wanted, rows, decoded)
    rows.into(decoded)
    return decoded


def _plain_batch(buf: Bytes, batch: Ints, base: int, wanted: Wanted, rows: _Rows) -> None:
    data = buf[batch[POSITION] : batch[AFTER]].tobytes()
    for kind, row in plain.decode_batch(data, 0, read_header(data), base + int(batch[POSITION]), wanted):
        rows.add(kind, row)


def _sections(buf: Bytes, batches: Ints, wanted: Wanted) -> tuple[Bytes, Ints, Ints, list[int]]:
    """Return (buffer, position of each batch's records in it, the batches that fitted, the batches rejected so far).

    Decompressed records are appended to the buffer, so that one buffer holds everything.
    """
    keep = np.ones(len(batches), np.bool_)
    if wanted.first_offset is not None:
        first, last = batches[:, BASE_OFFSET], batches[:, BASE_OFFSET] + batches[:, LAST_DELTA]
        keep &= (first >= wanted.first_offset) | (last >= wanted.first_offset)  # the last may be less, or overflow
    if wanted.next_offset is not None:
        keep &= batches[:, BASE_OFFSET] < wanted.next_offset
    sound = batches[:, SOUND] == 1
    refused = np.flatnonzero(keep & ~sound).tolist()
    numbers = np.flatnonzero(keep & sound)
    sections = np.empty((len(numbers), 3), np.int64)
    sections[:, 0] = batches[numbers, POSITION] + HEADER_BYTES
    sections[:, 1] = batches[numbers, AFTER]
    sections[:, 2] = numbers
    packed = np.flatnonzero(batches[numbers, ATTRIBUTES] & CODEC_MASK)
    if not len(packed):
        return buf, sections, batches, refused
    return _unpack(buf, sections, batches, packed, refused)


def _unpack(
    buf: Bytes, sections: Ints, batches: Ints, packed: Any, refused: list[int]
) -> tuple[Bytes, Ints, Ints, list[int]]:
    parts, size = [buf], len(buf)
    drop: list[int] = []
    limit = len(batches)
    for section in packed:
        number = int(sections[section, 2])
        data = buf[batches[number, POSITION] : batches[number, AFTER]].tobytes()
        try:
            records = record_bytes(data, 0, read_header(data))
        except DecodeError:
            refused.append(number)
            drop.append(section)
            continue
        if size + len(records) > len(buf) + MAX_UNPACKED_BYTES and size > len(buf):
            limit = number
            break
        sections[section, 0], sections[section, 1] = size, size + len(records)
        parts.append(np.frombuffer(records, np.uint8))
        size += len(records)
    sections = np.delete(sections, drop, 0)
    sections = sections[sections[:, 2] < limit]
    return np.concatenate(parts), sections, batches[:limit], [number for number in refused if number < limit]


@dataclass(slots=True)
class _Side:
    """Records, the batches that contain them, and the buffer with their bytes."""

    buf: Bytes
    batches: Ints
    records: Ints

    def only(self, which: Any) -> _Side:
        return _Side(self.buf, self.batches, np.compress(which, self.records, 1))

    def at(self, rows: Any) -> _Side:
        return _Side(self.buf, self.batches, np.take(self.records, rows, 1))

    @property
    def count(self) -> int:
        count: int = self.records.shape[1]
        return count

    def of_batch(self, column: int) -> Ints:
        values: Ints = self.batches[self.records[BATCH], column]
        return values

    def data(self, row: int, column: int) -> bytes | None:
        """Return the key or value of one record; `column` is that of its start."""
        at, end = self.records[column, row], self.records[column + 1, row]
        return None if at < 0 else self.buf[at:end].tobytes()

    def place(self, row: int) -> Row:
        """Return the columns of a record that come from its batch."""
        batch = self.batches[self.records[BATCH, row]]
        timestamp, producer_id = int(self.records[TIMESTAMP, row]), int(batch[PRODUCER_ID])
        return {
            "log_offset": int(self.records[OFFSET, row]),
            "timestamp_ms": plain.time_or_none(timestamp),
            "transactional": bool(batch[ATTRIBUTES] & TRANSACTIONAL),
            "producer_id": None if producer_id == -1 else producer_id,
            "producer_epoch": None if producer_id == -1 else int(batch[PRODUCER_EPOCH]),
        }


def _route(side: _Side, wanted: Wanted, rows: _Rows, decoded: Decoded) -> None:
    """Decode each record by its type."""
    if wanted.first_offset is not None or wanted.next_offset is not None:
        offsets = side.records[OFFSET]
        keep = np.ones(len(offsets), np.bool_)
        if wanted.first_offset is not None:
            keep &= offsets >= wanted.first_offset
        if wanted.next_offset is not None:
            keep &= offsets < wanted.next_offset
        side = side.only(keep)
    control = side.of_batch(ATTRIBUTES) & CONTROL != 0
    if control.any():
        _markers(side.only(control), wanted, rows, decoded)
        side = side.only(~control)
    types = np.empty(side.count, np.int64)
    # A key that is null or too short for a type counts as type -1.
    kernels.leading_int16(side.buf, side.records[KEY_AT], side.records[KEY_END], types)
    commits = np.isin(types, COMMIT_TYPES)
    if OFFSET_COMMITS in wanted.kinds or QUARANTINE in wanted.kinds:
        _commits(side.only(commits), wanted, rows, decoded)
    others = ~commits
    if QUARANTINE not in wanted.kinds:
        others &= np.isin(types, list(wanted.types))
    for row in np.flatnonzero(others).tolist():
        _one(side, row, wanted, rows)


def _one(side: _Side, row: int, wanted: Wanted, rows: _Rows) -> None:
    """Decode a record in plain Python: it becomes a row, or a row of the quarantine."""
    for kind, found in plain.record_rows(side.data(row, KEY_AT), side.data(row, VALUE_AT), side.place(row), wanted):
        rows.add(kind, found)


def _markers(side: _Side, wanted: Wanted, rows: _Rows, decoded: Decoded) -> None:
    buf, records = side.buf, side.records
    sizes = (records[KEY_END] - records[KEY_AT], records[VALUE_END] - records[VALUE_AT])
    fit = (records[KEY_AT] >= 0) & (records[VALUE_AT] >= 0) & (sizes[0] >= 4) & (sizes[1] >= 6)
    key_at, value_at = np.where(fit, records[KEY_AT], 0), np.where(fit, records[VALUE_AT], 0)
    version, number, epoch = (np.zeros(side.count, np.int64) for _ in range(3))
    if len(buf) >= 6:
        kernels.leading_int16(buf, key_at, key_at + 2, version)
        kernels.leading_int16(buf, key_at + 2, key_at + 4, number)
        kernels.int32_at(buf, value_at + 2, epoch)
    fit &= (version >= 0) & ((number == ControlType.ABORT) | (number == ControlType.COMMIT))
    for row in np.flatnonzero(~fit).tolist():
        header = read_header(buf[side.of_batch(POSITION)[row] : side.of_batch(AFTER)[row]].tobytes())
        place = side.place(row)
        timestamp = -1 if place["timestamp_ms"] is None else place["timestamp_ms"]
        record = (place["log_offset"], timestamp, side.data(row, KEY_AT), side.data(row, VALUE_AT))
        for kind, found in plain.marker_rows(record, header):
            rows.add(kind, found)
    if TRANSACTION_MARKERS not in wanted.kinds:
        return
    side = side.only(fit)
    columns = [
        *_place_columns(side, wanted),
        integers(side.of_batch(PRODUCER_ID), pa.int64()),
        integers(side.of_batch(PRODUCER_EPOCH), pa.int16()),
        pa.array(np.where(number[fit] == ControlType.COMMIT, "COMMIT", "ABORT"), pa.string()),
        integers(epoch[fit], pa.int32()),
    ]
    decoded.add(TRANSACTION_MARKERS, pa.RecordBatch.from_arrays(columns, schema=KINDS[TRANSACTION_MARKERS].schema))


def _place_columns(side: _Side, wanted: Wanted) -> list[pa.Array]:
    timestamps = side.records[TIMESTAMP]
    return [
        constant(wanted.log_partition, pa.int32(), side.count),
        integers(side.records[OFFSET], pa.int64()),
        integers(timestamps, pa.int64(), timestamps == -1),
    ]


class Ran:
    """The result of a message's programs on many messages: numbers and texts by field name."""

    def __init__(self, programs: Programs, buf: Bytes, at: Ints, end: Ints, versions: Ints) -> None:
        self.programs = programs
        count = len(at)
        self._ints = np.empty((len(programs.ints), count), np.int64)
        self._at = np.empty((len(programs.texts), count), np.int64)
        self._end = np.empty((len(programs.texts), count), np.int64)
        self.bad = np.zeros(count, np.uint8)
        kernels.run_programs(
            buf, at, end, versions, programs.code, programs.starts, np.array(programs.int_defaults, np.int64),
            self._ints, self._at, self._end, self.bad,
        )  # fmt: skip

    def ints(self, name: str) -> Ints:
        found: Ints = self._ints[self.programs.ints[name]]
        return found

    def texts(self, name: str) -> tuple[Ints, Ints]:
        slot = self.programs.texts[name]
        return self._at[slot], self._end[slot]


def _commits(side: _Side, wanted: Wanted, rows: _Rows, decoded: Decoded) -> None:
    """Decode offset commits: each different key once, and no values of unwanted groups and topics."""
    buf, records = side.buf, side.records
    interned = Interned(buf, records[KEY_AT], records[KEY_END])
    key_of, first = interned.ids, interned.first
    keys = Ran(KEY, buf, records[KEY_AT][first] + 2, records[KEY_END][first], np.zeros(len(first), np.int64))
    for row in np.flatnonzero(keys.bad[key_of]).tolist():
        _one(side, row, wanted, rows)
    good = keys.bad == 0
    groups, topics = Interned(buf, *_good(keys.texts("group"), good)), Interned(buf, *_good(keys.texts("topic"), good))
    group_names, topic_names = [v.decode() for v in groups.values], [v.decode() for v in topics.values]
    if wanted.groups:
        good &= np.array([wanted.has_group(name) for name in group_names] + [False], np.bool_)[groups.ids]
    if wanted.topics:
        good &= np.array([wanted.has_topic(name) for name in topic_names] + [False], np.bool_)[topics.ids]
    keep = good[key_of]

    versions = np.empty(side.count, np.int64)
    kernels.leading_int16(buf, records[VALUE_AT], records[VALUE_END], versions)
    at = np.where(keep & (records[VALUE_AT] >= 0), records[VALUE_AT] + 2, -1)
    values = Ran(VALUE, buf, at, records[VALUE_END], versions)
    for row in np.flatnonzero(values.bad).tolist():
        _one(side, row, wanted, rows)
    kept = np.flatnonzero(keep & (values.bad == 0))
    if OFFSET_COMMITS not in wanted.kinds or not len(kept):
        return
    side = side.at(kept)
    dead = side.records[VALUE_AT] < 0
    columns = {
        **_record_columns(side, wanted, dead, versions[kept]),
        "group_id": groups.column(group_names, key_of[kept]),
        "topic": topics.column(topic_names, key_of[kept]),
        "partition": integers(keys.ints("partition")[key_of[kept]], pa.int32()),
        **_commit_values(buf, values, kept, dead),
    }
    decoded.add(
        OFFSET_COMMITS, pa.RecordBatch.from_arrays([columns[n] for n in COMMIT_SCHEMA.names], schema=COMMIT_SCHEMA)
    )


def _good(texts_: tuple[Ints, Ints], good: Any) -> tuple[Ints, Ints]:
    return np.where(good, texts_[0], -1), np.where(good, texts_[1], -1)


def _record_columns(side: _Side, wanted: Wanted, dead: Any, versions: Ints) -> dict[str, pa.Array]:
    """Return the columns that all records have, whatever their type."""
    producer_ids = side.of_batch(PRODUCER_ID)
    no_producer = producer_ids == -1
    records = side.records
    size = records[KEY_END] - records[KEY_AT] + (records[VALUE_END] - records[VALUE_AT])
    log_partition, log_offset, timestamp_ms = _place_columns(side, wanted)
    return {
        "log_partition": log_partition,
        "log_offset": log_offset,
        "timestamp_ms": timestamp_ms,
        "transactional": pa.array(side.of_batch(ATTRIBUTES) & TRANSACTIONAL != 0),
        "producer_id": integers(producer_ids, pa.int64(), no_producer),
        "producer_epoch": integers(side.of_batch(PRODUCER_EPOCH), pa.int16(), no_producer),
        "record_bytes": integers(size, pa.int32()),
        "tombstone": pa.array(dead),
        "value_version": integers(versions, pa.int16(), dead),
    }


def _commit_values(buf: Bytes, values: Ran, kept: Ints, dead: Any) -> dict[str, pa.Array]:
    """Return the columns of OffsetCommitValue, with the names and sentinels of `kinds`; null for a tombstone."""
    found: dict[str, pa.Array] = {}
    for declared in schema_of(OffsetCommitValue).fields:
        name, type_ = column_name(declared), column_type(declared.type)
        if declared.type.kind == "uuid":
            at, end = values.texts(declared.name)
            found[name] = topic_ids(buf, at[kept], end[kept])
        elif declared.type.kind == "string":
            at, end = values.texts(declared.name)
            found[name] = texts(buf, at[kept], end[kept])
        else:
            numbers = values.ints(declared.name)[kept]
            none = dead | (numbers == -1) if declared.name in NONE_IS_MINUS_ONE else dead
            found[name] = integers(numbers, type_, none)
    return found

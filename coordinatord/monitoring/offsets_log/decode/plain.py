"""A section of a log, decoded record by record in plain Python: used without numba, and the oracle of `chunk`.

This module uses nothing of `kernels`: `kafka_wire` alone reads batches, records, keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator

from coordinatord.monitoring.offsets_log.decode import quarantine
from coordinatord.monitoring.offsets_log.decode.projection import Wanted
from coordinatord.monitoring.offsets_log.decode.row_types import (
    GROUP_GENERATIONS,
    KIND_OF_TYPE,
    QUARANTINE,
    TRANSACTION_MARKERS,
)
from coordinatord.monitoring.offsets_log.decode.rows import (
    Damage,
    Refused,
    Row,
    decode_key,
    decode_value,
    record_type_of,
)
from kafka_wire.errors import DecodeError, TruncatedError
from kafka_wire.records.batch import TRANSACTIONAL, BatchHeader, check_crc, read_header
from kafka_wire.records.control import ControlType, read_end_marker
from kafka_wire.records.key_values import OffsetKeyValue, key_values

MAX_INT64 = 2**63 - 1


def decode_batch(data: bytes, at: int, header: BatchHeader, position: int, wanted: Wanted) -> Iterator[tuple[str, Row]]:
    """Return (kind, row) of all wanted records in the batch at `data[at:]`. `position` is the batch's position in its
    file.
    """
    try:
        check_crc(data, at, header)
        records = batch_records(data, at, header)
    except DecodeError as error:
        if wanted.has_offset(header.base_offset):
            batch = data[at : at + min(header.size, quarantine.MAX_BYTES)]
            yield (
                QUARANTINE,
                quarantine.bytes_row(
                    quarantine.BATCH, header.base_offset, None, batch, header.size, position, str(error)
                ),
            )
        return
    for record in records:
        if wanted.has_offset(record[0]):
            yield from marker_rows(record, header) if header.is_control else _record(record, header, wanted)


def check_framing(data: bytes, at: int, header: BatchHeader, end: int) -> None:
    """Raise DecodeError for a batch with a wrong CRC, unless another batch follows it, which confirms its length."""
    try:
        check_crc(data, at, header)
    except DecodeError as wrong:
        after = at + header.size
        try:
            read_header(data, after, end)
        except TruncatedError:
            pass  # the next one extends beyond the data, or there is none
        except DecodeError:
            raise wrong from None


def batch_records(data: bytes, at: int, header: BatchHeader) -> list[OffsetKeyValue]:
    """Return the records of a batch with a valid CRC. Raises DecodeError unless all their offsets are within the
    batch.
    """
    if header.base_offset < 0 or header.last_offset_delta < 0 or header.last_offset > MAX_INT64:
        raise DecodeError(f"a batch cannot have the offsets {header.base_offset} to {header.last_offset}")
    records = key_values(data, at, header)
    for offset, timestamp, _key, _value in records:
        if not header.base_offset <= offset <= header.last_offset:
            raise DecodeError(
                f"a record of offset {offset} is in the batch {header.base_offset} to {header.last_offset}"
            )
        if not -MAX_INT64 - 1 <= timestamp <= MAX_INT64:
            raise DecodeError(f"a timestamp of {timestamp}")
    return records


def marker_rows(record: OffsetKeyValue, header: BatchHeader) -> Iterator[tuple[str, Row]]:
    """Return the row of a control record."""
    offset, timestamp, key, value = record
    try:
        marker = read_end_marker(key, value)
        if marker is None:
            raise DecodeError("a control record of no known type")
    except DecodeError as error:
        yield QUARANTINE, quarantine.record_row(offset, time_or_none(timestamp), key, value, f"control record: {error}")
        return
    control_type, coordinator_epoch = marker
    yield (
        TRANSACTION_MARKERS,
        {
            "log_offset": offset,
            "timestamp_ms": time_or_none(timestamp),
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "marker": ControlType(control_type).name,
            "coordinator_epoch": coordinator_epoch,
        },
    )


def time_or_none(timestamp: int) -> int | None:
    return None if timestamp == -1 else timestamp


def _record(record: OffsetKeyValue, header: BatchHeader, wanted: Wanted) -> Iterator[tuple[str, Row]]:
    offset, timestamp, key, value = record
    row: Row = {
        "log_offset": offset,
        "timestamp_ms": time_or_none(timestamp),
        "transactional": bool(header.attributes & TRANSACTIONAL),
        "producer_id": None if header.producer_id == -1 else header.producer_id,
        "producer_epoch": None if header.producer_id == -1 else header.producer_epoch,
    }
    yield from record_rows(key, value, row, wanted)


def record_rows(key: bytes | None, value: bytes | None, place: Row, wanted: Wanted) -> Iterator[tuple[str, Row]]:
    """Return the rows of one record. `place` has the columns that come from neither key nor value, including the first
    two of every table.
    """
    offset, timestamp = place["log_offset"], place["timestamp_ms"]
    try:
        record_type = record_type_of(key)
        assert key is not None
        if record_type not in wanted.types and QUARANTINE not in wanted.kinds:
            return
        row = decode_key(record_type, key)
        if not wanted.has_group(row["group_id"]) or ("topic" in row and not wanted.has_topic(row["topic"])):
            return
        damage: list[Damage] = []
        if value is not None:
            columns, damage = decode_value(record_type, value)
            row.update(columns)
    except Refused as refused:
        yield QUARANTINE, quarantine.record_row(offset, timestamp, key, value, str(refused))
        return
    size = len(key) + len(value or b"")
    yield KIND_OF_TYPE[record_type], {**place, "record_bytes": size, "tombstone": value is None, **row}
    for reason, data in damage:
        yield (
            QUARANTINE,
            {
                **quarantine.bytes_row(quarantine.MEMBER, offset, timestamp, data, len(data), None, reason),
                "record_type": record_type,
                "key": key[: quarantine.MAX_BYTES],
            },
        )


assert KIND_OF_TYPE[2] == GROUP_GENERATIONS

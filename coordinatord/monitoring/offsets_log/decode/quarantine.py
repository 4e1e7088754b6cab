"""Undecodable data as rows: its place, the reason, and its bytes."""

from __future__ import annotations

from coordinatord.monitoring.offsets_log.decode.rows import Row

#: Stored bytes of a longer damaged section: `source` and `position` locate the whole section.
MAX_BYTES = 1 << 20

# --- levels of rows --------------------------------------------------------------------------------------------------
RECORD = "record"  # one record: `key` and `value` are its bytes
MEMBER = "member"  # a subscription or assignment in a record that is also a row of group_generations: `bytes`
BATCH = "batch"  # a whole batch: `bytes`
BYTES = "bytes"  # a section in which no batch can be found: `bytes`


def record_row(offset: int, timestamp: int | None, key: bytes | None, value: bytes | None, reason: str) -> Row:
    size = len(key or b"") + len(value or b"")
    return {
        "log_offset": offset,
        "timestamp_ms": timestamp,
        "level": RECORD,
        "reason": reason,
        "record_type": int.from_bytes(key[:2], "big", signed=True) if key is not None and len(key) >= 2 else None,
        "key": None if key is None else key[:MAX_BYTES],
        "value": None if value is None else value[:MAX_BYTES],
        "byte_count": size,
    }


def bytes_row(
    level: str, offset: int | None, timestamp: int | None, data: bytes, size: int, position: int | None, reason: str
) -> Row:
    """Return a row for `size` damaged bytes, of which `data` may be only the beginning."""
    return {
        "log_offset": offset,
        "timestamp_ms": timestamp,
        "level": level,
        "reason": reason,
        "bytes": data[:MAX_BYTES],
        "byte_count": size,
        "position": position,
    }

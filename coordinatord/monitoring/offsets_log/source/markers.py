"""The content before the end of a partition: records that a consumer can read, or markers and aborted records; and the
transaction that is open there. Offsets alone do not show it: a marker has an offset, but no consumer gets its record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coordinatord.monitoring.analysis.ends import Open, Tail
from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import CONTROL, TRANSACTIONAL, BatchHeader, iterate_batches
from kafka_wire.records.control import ControlType, decode_key
from kafka_wire.records.key_values import key_values

BACK_BYTES = 256 << 10
"""Number of bytes before the end that are searched for the last record that can be read."""


class Batch(NamedTuple):
    """A batch of a partition; `marker` is the type of a control batch."""

    header: BatchHeader
    marker: ControlType | None


def batches(data: bytes) -> list[Batch]:
    """Return the whole batches in a piece of a log, up to one that cannot be read."""
    found: list[Batch] = []
    try:
        for position, header in iterate_batches(data, partial=True):
            marker = None
            if header.attributes & CONTROL:
                marker = ControlType.UNKNOWN
                for _offset, _timestamp, key, _value in key_values(data, position, header):
                    marker = decode_key(key)
            found.append(Batch(header, marker))
    except DecodeError:
        return found
    return found


def readable_end(found: Sequence[Batch], begin: int, end: int) -> int | None:
    """Return the offset after the last record in [begin, end) that a consumer can read: one outside of transactions, of
    a committed transaction, or of an open one. `begin` if there is none; None if the batches do not reach the end.
    """
    last = at = begin
    inside: dict[int, int] = {}
    for header, marker in found:
        if header.next_offset > end:
            break
        at = header.next_offset
        if marker is None and header.attributes & TRANSACTIONAL:
            inside[header.producer_id] = at
        elif marker is None:
            last = at
        elif marker == ControlType.COMMIT:
            last = max(last, inside.pop(header.producer_id, last))
        elif marker == ControlType.ABORT:
            inside.pop(header.producer_id, None)
    return None if at < end else max([last, *inside.values()])


def tail_of(found: Sequence[Batch], begin: int, end: int) -> Tail:
    """Return the tail of a partition that ends at `end`, from the batches since `begin`. Transactions that began before
    these batches remain unknown.
    """
    inside: dict[int, BatchHeader] = {}
    for header, marker in found:
        if marker is not None:
            inside.pop(header.producer_id, None)
        elif header.attributes & TRANSACTIONAL:
            inside.setdefault(header.producer_id, header)
    readable = readable_end(found, begin, end)
    if not inside:
        return Tail(readable)
    first = min(inside.values(), key=lambda header: header.base_offset)
    stable = first.base_offset
    return Tail(readable, stable, readable_end(found, begin, stable), Open(first.producer_id, first.base_timestamp))

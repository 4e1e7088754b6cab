"""What lies at the end of a partition: records that a consumer can read, or markers and aborted records; and the
transaction that is open there. Offsets alone do not tell: a marker takes one, and no consumer gets a record of it.
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
"""How many bytes before the end are looked at for the last record that can be read."""


class Batch(NamedTuple):
    """A batch of a partition; `marker` is the type of a control batch."""

    header: BatchHeader
    marker: ControlType | None


def batches(data: bytes) -> list[Batch]:
    """The whole batches in a piece of a log, up to one that cannot be read."""
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
    """The offset behind the last record in [begin, end) that a consumer can read: one outside of transactions, of a
    committed one, or of one that is not over. `begin` if there is none; None if the batches do not reach the end.
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
    """The tail of a partition that ends at `end`, from the batches since `begin`: of a transaction that began before
    these nothing is known.
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

"""Reads record batches for a share fetch: their offsets, and which belong to aborted transactions."""

from __future__ import annotations

from typing import Final, NamedTuple

from coordinatord.broker.topics.partition import Partition
from coordinatord.broker.topics.producers import Aborted
from coordinatord.coordination.share.partition.events import OffsetRange
from kafka_wire.records.batch import TRANSACTIONAL, BatchHeader, control_type, iterate_batches
from kafka_wire.records.control import ControlType

Data = bytes | memoryview

READ_BYTES: Final = 64 * 1024
"""The most bytes that are read at a time, unless a batch is larger: a fetch asks for 50 MB, and acquires some records.
"""


class Batches(NamedTuple):
    """Whole record batches: their bytes, where each begins, their offsets, and those of aborted transactions."""

    data: Data
    positions: list[int]
    ranges: list[OffsetRange]
    aborted: list[OffsetRange]

    def between(self, first: int, last: int) -> Data:
        """Return the bytes of the batches that contain offsets from `first` to `last`."""
        begin = 0
        end = len(self.ranges)
        for at, offsets in enumerate(self.ranges):
            if offsets.first <= first:
                begin = at
            if offsets.first > last:
                end = at
                break
        positions = [*self.positions, len(self.data)]
        if begin == 0 and end == len(self.ranges):
            return self.data
        return bytes(self.data[positions[begin] : positions[end]])


def end_offset(partition: Partition, *, committed_only: bool) -> int:
    """Return the offset before which records can be read."""
    return partition.last_stable_offset if committed_only else partition.log.high_watermark


def read(
    partition: Partition, offset: int, last: int, max_bytes: int, *, at_least_one: bool, committed_only: bool
) -> Batches | None:
    """Return the batches from `offset` to the one that contains `last`, or at least the first one, in `max_bytes` bytes
    unless `at_least_one` is larger. None if there are none. Raises what reads of a damaged log raise.
    """
    end = end_offset(partition, committed_only=committed_only)
    parts: list[Data] = []
    headers: list[tuple[int, BatchHeader]] = []
    size, next_offset = 0, offset
    while next_offset < end and (next_offset <= last or not headers):
        left = max_bytes - size
        must_fit = bool(headers) or not at_least_one
        part = partition.log.read(next_offset, min(READ_BYTES, left)) if left > 0 or not must_fit else b""
        if must_fit and len(part) > left:
            break
        begin = size
        for at, header in iterate_batches(part):
            if header.base_offset >= end or (headers and header.base_offset > last):
                break
            headers.append((begin + at, header))
            size = begin + at + header.size
        if size == begin:
            break
        parts.append(part if size == begin + len(part) else part[: size - begin])
        next_offset = headers[-1][1].next_offset
    if not headers:
        return None
    data = bytes(parts[0]) if len(parts) == 1 else b"".join(parts)
    aborted: list[OffsetRange] = []
    if committed_only and partition.has_aborted:
        transactions = partition.aborted_transactions(offset, headers[-1][1].next_offset)
        aborted = aborted_batches(data, headers, transactions)
    return Batches(
        data,
        [at for at, _ in headers],
        [OffsetRange(header.base_offset, header.last_offset) for _, header in headers],
        aborted,
    )


def aborted_batches(
    data: Data, headers: list[tuple[int, BatchHeader]], transactions: list[Aborted]
) -> list[OffsetRange]:
    """Return the batches that belong to aborted transactions, as a consumer finds them: from the first offset of the
    transaction to its marker (SharePartition.fetchAbortedTransactionRecordBatches).
    """
    left = sorted(transactions, key=lambda each: each.first_offset, reverse=True)
    open_producers: set[int] = set()
    found = []
    for at, header in headers:
        if header.producer_id < 0:
            continue
        while left and left[-1].first_offset <= header.last_offset:
            open_producers.add(left.pop().producer_id)
        if header.is_control:
            if control_type(data, at, header) is ControlType.ABORT:
                open_producers.discard(header.producer_id)
        elif header.attributes & TRANSACTIONAL and header.producer_id in open_producers:
            found.append(OffsetRange(header.base_offset, header.last_offset))
    return found

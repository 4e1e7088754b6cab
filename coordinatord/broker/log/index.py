"""The two sparse indexes of a segment, in Kafka's format.

`.index`: int32 offset relative to the segment's base, int32 position of the batch which ends with that offset.
`.timeindex`: int64 timestamp, int32 relative offset: records up to that offset have at most that timestamp. Both
ascend; there is an entry about every index.interval.bytes. Indexes are hints: no response waits for a flush of an
index, and indexes are cut back and rebuilt after an unclean stop. A lookup reads the file instead of keeping it in
memory.
"""

from __future__ import annotations

import struct
from bisect import bisect_right

from coordinatord.broker.log.disk import File

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")

#: Size in bytes at which the search stops reading single entries and reads the rest at once.
_READ_BYTES = 16 * 1024


def floor_entry(
    file: File, entry: struct.Struct, count: int, field: int, value: int
) -> tuple[int, tuple[int, ...]] | None:
    """Return (number, entry) of the last of `count` entries whose `field` is <= value; None if the first is greater."""
    low, high = 0, count
    size = entry.size
    while (high - low) * size > _READ_BYTES:
        middle = (low + high) // 2
        if entry.unpack(file.pread(size, middle * size))[field] <= value:
            low = middle
        else:
            high = middle
    data = file.pread((high - low) * size, low * size)
    unpack = entry.unpack_from
    at = bisect_right(range(len(data) // size), value, key=lambda number: unpack(data, number * size)[field]) - 1
    return (low + at, unpack(data, at * size)) if at >= 0 else None


def ascending(file: File, entry: struct.Struct, count: int) -> int:
    """Return the number of leading entries, of the first `count`, that ascend in both fields: all, unless a write was
    torn.
    """
    data = file.pread(count * entry.size, 0)
    known = (-1, -1)
    for number, fields in enumerate(entry.iter_unpack(data[: len(data) - len(data) % entry.size])):
        if fields[0] <= known[0] or fields[1] < known[1] or (fields[1] == known[1] and number):
            return number
        known = fields
    return count


def last_entry(file: File, entry: struct.Struct, count: int) -> tuple[int, ...] | None:
    if not count:
        return None
    return entry.unpack(file.pread(entry.size, (count - 1) * entry.size))

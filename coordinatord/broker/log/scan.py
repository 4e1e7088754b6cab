"""Iteration over a segment's batches from one position to another, in chunks of bounded size.

There are two kinds: `scan` reads everything and checks every CRC (recovery, replay); `find_position` reads headers
only, over the few kilobytes between an index entry and the batch to find.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from coordinatord.broker.log.config import LONG_MAX, MAX_BATCH_BYTES
from coordinatord.broker.log.disk import File
from coordinatord.broker.log.errors import LogDamaged
from kafka_wire.errors import DecodeError, TruncatedError
from kafka_wire.records.batch import (
    ATTRIBUTES_AT,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    check_crc,
    read_header,
)
from kafka_wire.records.crc import crc32c

#: Bytes per read: Kafka's default of offsets.load.buffer.size.
LOAD_BUFFER_BYTES = 5 * 1024 * 1024
#: Bytes per step of a header walk: an index interval and a little more.
WALK_BYTES = 4096 + 1024


class Scanned(NamedTuple):
    """One batch: `buffer[at : at + header.size]`, at `position` in the file. The buffer stays valid after the next
    step.
    """

    position: int
    header: BatchHeader
    buffer: bytes
    at: int


def scan(
    file: File,
    path: str,
    position: int,
    end: int,
    *,
    next_offset: int = 0,
    chunk_bytes: int = LOAD_BUFFER_BYTES,
) -> Iterator[Scanned]:
    """Yield every batch in [position, end), CRC checked, offsets ascending from `next_offset`. Raises LogDamaged at the
    first incomplete or invalid one.
    """
    size = chunk_bytes
    new, unpack = tuple.__new__, HEADER.unpack_from
    while position < end:
        wanted = min(size, end - position)
        buffer = file.pread(wanted, position)
        view = memoryview(buffer)
        have = len(buffer)
        at = 0
        size = chunk_bytes
        while at < have:
            # Inlined, as each batch may have only one record: read_header and check_crc report the errors.
            header = BatchHeader._make(unpack(buffer, at)) if have - at >= HEADER_BYTES else None
            if (
                header is None
                or header.magic != MAGIC
                or not HEADER_BYTES - LENGTH_OVERHEAD <= header.length <= have - at - LENGTH_OVERHEAD
                or crc32c(view[at + ATTRIBUTES_AT : at + LENGTH_OVERHEAD + header.length]) != header.crc
            ):
                rest = _more_of(buffer, at, path, position, end)
                if rest and have < wanted and not at:
                    raise LogDamaged(path, position, f"the file ends at {position + have}, {end} bytes were expected")
                if rest:
                    size = max(rest, chunk_bytes)
                    break
                raise AssertionError("a batch was unsound and is not")
            following = header.base_offset + header.last_offset_delta + 1
            if header.base_offset < next_offset or header.last_offset_delta < 0 or following > LONG_MAX:
                raise LogDamaged(
                    path,
                    position + at,
                    f"offsets {header.base_offset} to {header.last_offset} where {next_offset} was next",
                )
            next_offset = following
            yield new(Scanned, (position + at, header, buffer, at))
            at += header.length + LENGTH_OVERHEAD
        if not have:
            raise LogDamaged(path, position, f"the file ends here, {end} bytes were expected")
        position += at


def _more_of(buffer: bytes, at: int, path: str, position: int, end: int) -> int:
    """Return the size of the batch at `at` if only the buffer's end cuts it off. Raises LogDamaged if the batch is
    invalid or cut off by the file's end.
    """
    try:
        check_crc(buffer, at, read_header(buffer, at, len(buffer)))
    except TruncatedError as error:
        size = _whole_batch_bytes(buffer, at)
        if position + at + size > end or size > MAX_BATCH_BYTES:
            raise LogDamaged(path, position + at, f"the last batch is cut short ({error})") from None
        return size
    except DecodeError as error:
        raise LogDamaged(path, position + at, str(error)) from None
    return 0


def _whole_batch_bytes(buffer: bytes, at: int) -> int:
    """Return the size in the header of the batch that begins at `at` and is not wholly in `buffer`."""
    if len(buffer) - at < LENGTH_OVERHEAD:
        return HEADER_BYTES
    return LENGTH_OVERHEAD + int.from_bytes(buffer[at + 8 : at + LENGTH_OVERHEAD], "big", signed=True)


def find_position(file: File, path: str, position: int, end: int, offset: int) -> tuple[int, BatchHeader] | None:
    """Return the position of the first batch whose last offset is at least `offset`, walking headers from `position`.
    None if there is no such batch before `end`.
    """
    for at, header in walk(file, path, position, end):
        if header.last_offset >= offset:
            return at, header
    return None


def walk(
    file: File, path: str, position: int, end: int, chunk_bytes: int = WALK_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of every batch in [position, end). Records are skipped, CRCs not checked."""
    buffer, start = b"", position
    while position < end:
        at = position - start
        if at < 0 or at + HEADER_BYTES > len(buffer):
            buffer, start, at = file.pread(min(chunk_bytes, end - position), position), position, 0
            if len(buffer) < HEADER_BYTES:
                raise LogDamaged(path, position, "the segment ends inside a batch header")
        header = BatchHeader._make(HEADER.unpack_from(buffer, at))
        if header.magic != MAGIC or header.length < HEADER_BYTES - LENGTH_OVERHEAD or position + header.size > end:
            raise LogDamaged(path, position, f"no batch header (magic {header.magic}, length {header.length})")
        yield position, header
        position += header.size

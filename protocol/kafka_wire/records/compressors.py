"""The four codecs of a record batch, each in the framing that Kafka's clients use.

gzip and zstd are plain streams. lz4 is the LZ4 frame format with independent blocks (Kafka's reader rejects linked
blocks). snappy has two framings: the Java client writes the blocks of xerial's SnappyOutputStream (a 16-byte header,
then length-prefixed raw blocks), librdkafka one raw block; like Kafka, this module reads both framings and writes
xerial's.
"""

from __future__ import annotations

import mmap
import struct
from typing import Any

import cramjam

from kafka_wire.records.compression import MAX_DECOMPRESSED_BYTES, Compression, CompressionError, TooLargeError

#: xerial's SnappyOutputStream cuts its input into blocks of this many bytes.
XERIAL_BLOCK_BYTES = 32 * 1024
XERIAL_MAGIC = b"\x82SNAPPY\x00"
#: version and lowest compatible version, both 1
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)

LARGE_BYTES = 1 << 20
"""Decompressed data of this size is not copied."""

LZ4_MAGIC = 0x184D2204
_LZ4_HEADER = struct.Struct("<IBB")
_LZ4_INDEPENDENT = 0x20
_LZ4_LEAST_BLOCK = 4

_INT32 = struct.Struct(">i")
_FIRST_OUTPUT_BYTES = 64 * 1024
_OUTPUT_FULL = "whole buffer"


def compress(codec: Compression, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """Return `data` compressed with `codec` in Kafka's framing. `level` is the codec's own scale; None is its
    default.
    """
    if codec is Compression.GZIP:
        return bytes(cramjam.gzip.compress(data, level))
    if codec is Compression.SNAPPY:
        return _compress_xerial(memoryview(data))
    if codec is Compression.LZ4:
        compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        view = memoryview(data)
        for start in range(0, len(view), LARGE_BYTES):
            compressor.compress(bytes(view[start : start + LARGE_BYTES]))
        return bytes(compressor.finish())
    if codec is Compression.ZSTD:
        return bytes(cramjam.zstd.compress(data, level))
    return bytes(data)


def decompress(codec: int, data: memoryview, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes | memoryview:
    """Return `data` decompressed: bytes, or a view if it is large. Raises CompressionError if `data` is not of `codec`,
    or exceeds `max_bytes` decompressed.
    """
    if codec == Compression.NONE:
        return bytes(data)
    if not data:
        raise CompressionError("no compressed data")
    if codec == Compression.GZIP:
        return _grow(cramjam.gzip, data, max_bytes)
    if codec == Compression.SNAPPY:
        return _decompress_snappy(data, max_bytes)
    if codec == Compression.LZ4:
        return _grow(cramjam.lz4, data, max_bytes)
    if codec == Compression.ZSTD:
        return _grow(cramjam.zstd, data, max_bytes)
    raise CompressionError(f"unknown compression type {codec}")


def check_lz4_frame(data: memoryview) -> None:
    """Raise CompressionError unless Kafka's Java clients can read the LZ4 frame (with their Lz4BlockInputStream):
    blocks must be independent, and the header must use only features that these clients support.
    """
    if len(data) < _LZ4_HEADER.size:
        raise CompressionError("an LZ4 frame is cut short")
    magic, flags, block = _LZ4_HEADER.unpack_from(data)
    if magic != LZ4_MAGIC or flags >> 6 != 1:
        raise CompressionError("not an LZ4 frame of version 1")
    if not flags & _LZ4_INDEPENDENT:
        raise CompressionError("the blocks of an LZ4 frame are linked")
    if flags & 3 or block & 0x8F or block >> 4 < _LZ4_LEAST_BLOCK:
        raise CompressionError("an LZ4 frame has a dictionary, or flags that are reserved")


def _room(size: int) -> bytearray | mmap.mmap:
    """Return a buffer for `size` decompressed bytes. The kernel zeroes large buffers page by page as they are written:
    zeroing 100 MB beforehand would block all threads of the interpreter for a tenth of a second.
    """
    return bytearray(size) if size < LARGE_BYTES else mmap.mmap(-1, size)


def _written(room: bytearray | mmap.mmap, size: int) -> bytes | memoryview:
    """Return the content of a buffer: for a large one a view, since a copy would block all threads as well."""
    view = memoryview(room)[:size]
    return bytes(view) if size < LARGE_BYTES else view


def _grow(module: Any, data: memoryview, max_bytes: int) -> bytes | memoryview:
    """Decompress into a buffer that grows until the output fits or would exceed `max_bytes`."""
    size = min(max(_FIRST_OUTPUT_BYTES, 8 * len(data)), max_bytes)
    while True:
        room = _room(size)
        try:
            return _written(room, module.decompress_into(data, room))
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise CompressionError(f"bad {module.__name__} data: {error}") from None
        if size >= max_bytes:
            raise TooLargeError(f"more than {max_bytes} bytes when decompressed")
        size = min(4 * size, max_bytes)


def _compress_xerial(data: memoryview) -> bytes:
    parts = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK_BYTES]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, max_bytes: int) -> bytes | memoryview:
    blocks = [data] if data[: len(XERIAL_MAGIC)] != XERIAL_MAGIC else _xerial_blocks(data)
    try:
        total = 0
        for block in blocks:
            total += cramjam.snappy.decompress_raw_len(block)
            if total > max_bytes:
                raise TooLargeError(f"more than {max_bytes} bytes when decompressed")
        room = _room(total)
        at = 0
        with memoryview(room) as view:
            for block in blocks:
                at += cramjam.snappy.decompress_raw_into(block, view[at:])
    except cramjam.DecompressionError as error:
        raise CompressionError(f"bad snappy data: {error}") from None
    return _written(room, at)


def _xerial_blocks(data: memoryview) -> list[memoryview]:
    pos, end = len(XERIAL_HEADER), len(data)
    blocks = []
    while pos < end:
        if end - pos < 4:
            raise CompressionError("snappy data is cut short")
        (size,) = _INT32.unpack_from(data, pos)
        pos += 4
        if size <= 0 or size > end - pos:
            raise CompressionError("a snappy block's length is wrong")
        blocks.append(data[pos : pos + size])
        pos += size
    return blocks

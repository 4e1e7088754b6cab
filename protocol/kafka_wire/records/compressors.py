"""The four codecs of a record batch, each in the framing that Kafka's clients use.

gzip and zstd are plain streams. lz4 is the LZ4 frame format with independent blocks (Kafka's reader rejects linked
ones). snappy has two framings: the Java client writes the blocks of xerial's SnappyOutputStream (a 16-byte header, then
length-prefixed raw blocks), librdkafka one raw block; like Kafka we read both and write xerial's.
"""

from __future__ import annotations

import struct
from typing import Any

import cramjam

from kafka_wire.records.compression import MAX_DECOMPRESSED_BYTES, Compression, CompressionError, TooLargeError

#: xerial's SnappyOutputStream cuts its input into blocks of this many bytes.
XERIAL_BLOCK_BYTES = 32 * 1024
XERIAL_MAGIC = b"\x82SNAPPY\x00"
#: version and lowest compatible version, both 1
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)

_INT32 = struct.Struct(">i")
_FIRST_OUTPUT_BYTES = 64 * 1024
_OUTPUT_FULL = "whole buffer"


def compress(codec: Compression, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """`data` compressed with `codec` in Kafka's framing. `level` is the codec's own scale; None is its default."""
    if codec is Compression.GZIP:
        return bytes(cramjam.gzip.compress(data, level))
    if codec is Compression.SNAPPY:
        return _compress_xerial(memoryview(data))
    if codec is Compression.LZ4:
        compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        compressor.compress(bytes(data))
        return bytes(compressor.finish())
    if codec is Compression.ZSTD:
        return bytes(cramjam.zstd.compress(data, level))
    return bytes(data)


def decompress(codec: int, data: memoryview, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """`data` decompressed. CompressionError when it is not of `codec`, or exceeds `max_bytes` decompressed."""
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


def _grow(module: Any, data: memoryview, max_bytes: int) -> bytes:
    """Decompress into a buffer that grows until the output fits or would exceed `max_bytes`."""
    size = min(max(_FIRST_OUTPUT_BYTES, 8 * len(data)), max_bytes)
    while True:
        out = bytearray(size)
        try:
            return bytes(memoryview(out)[: module.decompress_into(data, out)])
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


def _decompress_snappy(data: memoryview, max_bytes: int) -> bytes:
    if data[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return _snappy_block(data, max_bytes, 0)
    pos, end = len(XERIAL_HEADER), len(data)
    parts: list[bytes] = []
    total = 0
    while pos < end:
        if end - pos < 4:
            raise CompressionError("snappy data is cut short")
        (size,) = _INT32.unpack_from(data, pos)
        pos += 4
        if size <= 0 or size > end - pos:
            raise CompressionError("a snappy block's length is wrong")
        block = _snappy_block(data[pos : pos + size], max_bytes, total)
        total += len(block)
        parts.append(block)
        pos += size
    return b"".join(parts)


def _snappy_block(data: memoryview, max_bytes: int, before: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(data)
        if size > max_bytes - before:
            raise TooLargeError(f"more than {max_bytes} bytes when decompressed")
        out = bytearray(size)
        return bytes(memoryview(out)[: cramjam.snappy.decompress_raw_into(data, out)])
    except cramjam.DecompressionError as error:
        raise CompressionError(f"bad snappy data: {error}") from None

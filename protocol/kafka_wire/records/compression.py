"""Compression of a record batch: the codecs' numbers, errors and limits. compressors.py does the work, and is imported
for the first batch that is compressed, since cramjam takes a start a millisecond.

The caller limits decompression: a few kilobytes can claim gigabytes, so the output buffer grows in steps and never
exceeds `max_bytes`.
"""

from __future__ import annotations

from enum import IntEnum

from kafka_wire.errors import DecodeError

#: Default limit of one batch's records, decompressed. Kafka decompresses as a stream and so has no limit;
#: socket.request.max.bytes is 100 MiB.
MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024


class CompressionError(DecodeError):
    """Records that cannot be decompressed: not of the stated codec, truncated, or larger than allowed."""


class TooLargeError(CompressionError):
    """Records that are larger than allowed when decompressed."""


class Compression(IntEnum):
    """Bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

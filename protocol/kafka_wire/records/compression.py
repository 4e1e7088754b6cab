"""Compression of a record batch: the codecs' numbers, errors and limits. compressors.py has the implementation, and is
imported for the first compressed batch, since importing cramjam takes a millisecond of a start.

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
    """Raised for records that cannot be decompressed: not of the stated codec, truncated, or larger than allowed."""


class TooLargeError(CompressionError):
    """Raised for records that are larger than allowed when decompressed."""


class Compression(IntEnum):
    """Bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

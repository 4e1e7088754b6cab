"""Zigzag varints as in records (Kafka's ByteUtils.writeVarint/writeVarlong)."""

from __future__ import annotations

from kafka_wire.errors import LengthError, TruncatedError

#: Seven bits per byte: a 64-bit value takes at most ten bytes.
MAX_VARLONG_BYTES = 10


def encode(value: int) -> bytes:
    """Return `value` (64-bit signed) as a zigzag varint."""
    rest = ((value << 1) ^ (value >> 63)) & 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


class _Encoded(dict[int, bytes]):
    """value -> its bytes: a lookup table for common lengths and deltas. Entries are stored when they are first
    computed, since computing them beforehand would slow down each start; other values are computed each time.
    """

    def __missing__(self, value: int) -> bytes:
        made = encode(value)
        if -64 <= value < 8192:
            self[value] = made
        return made


#: VARINT[n] are the bytes of n. Values of one or two bytes are kept: nearly every length and delta of an offset commit.
VARINT = _Encoded()


def decode(data: bytes | bytearray | memoryview, pos: int) -> tuple[int, int]:
    """Return (value, position after it). Raises TruncatedError at the end of `data`, LengthError for more than ten
    bytes.
    """
    result = shift = 0
    size = len(data)
    while True:
        if pos >= size:
            raise TruncatedError("a varint reaches beyond the end of the records")
        byte = data[pos]
        pos += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= 7 * MAX_VARLONG_BYTES:
            raise LengthError("a varint is longer than ten bytes")
    if result >> 64:
        raise LengthError("a varint does not fit in 64 bits")
    return (result >> 1) ^ -(result & 1), pos

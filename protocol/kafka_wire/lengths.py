"""Lengths and tag buffers of flexible versions (KIP-482), for generated and hand-written codecs: unsigned varints, and
tagged fields by position.
"""

from __future__ import annotations

from kafka_wire import errors

MAX_VARINT_BYTES = 5


def read_uvarint(buf: bytes, pos: int, value: int) -> tuple[int, int]:
    """Finish an unsigned varint whose first byte, `value`, had its high bit set; `pos` is after that byte.

    At most five bytes, as in Kafka's `ByteUtils`. A value above int32 is an error; Kafka reads it as negative.
    """
    value &= 0x7F
    for shift in range(7, 7 * MAX_VARINT_BYTES, 7):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0x7FFFFFFF:
                raise errors.LengthError(f"varint {value} does not fit an int32")
            return value, pos
    raise errors.LengthError("varint of more than five bytes")


def write_uvarint(value: int) -> bytes:
    """Return an unsigned varint, least significant group first."""
    if value < 0x80:
        return ONE_BYTE[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


ONE_BYTE = [bytes([value]) for value in range(0x80)]


def read_tags(buf: bytes, pos: int, end: int) -> tuple[list[tuple[int, int, int]], int]:
    """Read a tag buffer into [(tag, start, stop)]. Tags must ascend (KIP-482); Kafka writes, but never checks, that."""
    count = buf[pos]
    pos += 1
    if count > 0x7F:
        count, pos = read_uvarint(buf, pos, count)
    if count > end - pos:
        raise errors.LengthError(f"{count} tagged fields in {end - pos} bytes")
    found = []
    last = -1
    for _ in range(count):
        tag = buf[pos]
        pos += 1
        if tag > 0x7F:
            tag, pos = read_uvarint(buf, pos, tag)
        if tag <= last:
            raise errors.LengthError(f"tag {tag} after tag {last}")
        last = tag
        size = buf[pos]
        pos += 1
        if size > 0x7F:
            size, pos = read_uvarint(buf, pos, size)
        if size > end - pos:
            raise errors.TruncatedError(f"tagged field {tag} of {size} bytes, {end - pos} are left")
        found.append((tag, pos, pos + size))
        pos += size
    return found, pos

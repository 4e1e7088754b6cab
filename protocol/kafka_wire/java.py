"""Java functions that Kafka's behaviour depends on: `String.hashCode`, `String.trim`, the absolute value of an int."""

from __future__ import annotations

import sys
from operator import mul

MIN_VALUE = -(1 << 31)
_UTF_16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"
_TOGETHER = 256
"""Code units that are multiplied by their powers of 31 in one call of C: in Python, one by one, takes twice as long."""
_POWERS = tuple(pow(31, exponent, 1 << 32) for exponent in range(_TOGETHER, -1, -1))
_TRIMMED = "".join(map(chr, range(0x21)))


def string_hash(text: str) -> int:
    """Return `String.hashCode()`: a polynomial of 31 over UTF-16 code units, as a signed int32."""
    units: bytes | memoryview
    if text.isascii():
        units = text.encode("ascii")
    else:
        units = memoryview(text.encode(_UTF_16, "surrogatepass")).cast("H")
    value = 0
    for start in range(0, len(units), _TOGETHER):
        some = units[start : start + _TOGETHER]
        powers = _POWERS[-len(some) - 1 :]
        value = (value * powers[0] + sum(map(mul, some, powers[1:]))) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def trim(text: str) -> str:
    """Return `String.trim()`: the text without characters up to U+0020 at both ends. `str.strip` also removes Unicode's
    spaces.
    """
    return text.strip(_TRIMMED)


def absolute(value: int) -> int:
    """Return Kafka's `Utils.abs`: Integer.MIN_VALUE, whose absolute value is not an int, becomes 0."""
    return 0 if value == MIN_VALUE else abs(value)

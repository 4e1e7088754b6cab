"""Java functions that Kafka's behaviour depends on: `String.hashCode`, `String.trim`, the absolute value of an int."""

from __future__ import annotations

MIN_VALUE = -(1 << 31)
_TRIMMED = "".join(map(chr, range(0x21)))


def string_hash(text: str) -> int:
    """Return `String.hashCode()`: a polynomial of 31 over UTF-16 code units, as a signed int32."""
    value = 0
    if text.isascii():
        for byte in text.encode("ascii"):
            value = value * 31 + byte & 0xFFFFFFFF
    else:
        data = text.encode("utf-16-be", "surrogatepass")
        for index in range(0, len(data), 2):
            value = value * 31 + (data[index] << 8 | data[index + 1]) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def trim(text: str) -> str:
    """Return `String.trim()`: the text without characters up to U+0020 at both ends. `str.strip` also removes Unicode's
    spaces.
    """
    return text.strip(_TRIMMED)


def absolute(value: int) -> int:
    """Return Kafka's `Utils.abs`: Integer.MIN_VALUE, whose absolute value is not an int, becomes 0."""
    return 0 if value == MIN_VALUE else abs(value)

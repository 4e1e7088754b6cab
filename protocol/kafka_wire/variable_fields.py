"""Search for the positions of the variable fields in an encoded message.

The layout is not declared a second time: the regular encoder encodes the message twice, once with all bits of these
fields zero and once with all bits one; the bytes that differ are the fields.
"""

from __future__ import annotations


def in_common(zeros: bytes, ones: bytes, holes: tuple[int, ...]) -> list[bytes]:
    """Return the bytes before, between and after the variable fields; `holes` are the field sizes in bytes."""
    constants: list[bytes] = []
    found: list[int] = []
    start = position = 0
    while position < len(zeros):
        if zeros[position] == ones[position]:
            position += 1
            continue
        constants.append(zeros[start:position])
        start = position
        while position < len(zeros) and zeros[position] != ones[position]:
            position += 1
        found.append(position - start)
        start = position
    constants.append(zeros[start:])
    assert tuple(found) == holes, f"fields of {found} bytes"
    return constants

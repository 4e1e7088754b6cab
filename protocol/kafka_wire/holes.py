"""Where the fields of an encoded message lie that differ from one such message to the next.

That is not written down a second time: the message is encoded twice by those who always do it, once with fields that
are all zeros and once all ones, and what differs are the fields.
"""

from __future__ import annotations


def in_common(zeros: bytes, ones: bytes, holes: tuple[int, ...]) -> list[bytes]:
    """The bytes before, between and after the fields, whose sizes are `holes`."""
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

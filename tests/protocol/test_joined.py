"""Large buffers are copied in pieces."""

from __future__ import annotations

import pytest

from kafka_wire.message_parts import PIECE_BYTES, joined


@pytest.mark.parametrize("sizes", [[], [0], [3, 4], [PIECE_BYTES, 1], [2 * PIECE_BYTES + 5, 0, 7], [5, PIECE_BYTES]])
def test_a_copy_is_what_was_copied(sizes: list[int]) -> None:
    parts = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    copied = joined(parts)
    assert isinstance(copied, bytearray)
    assert copied == b"".join(parts)

"""Integers without numba: the call that stands in for the loop gives what the loop gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinatord.monitoring.offsets_log.decode import kernels


@settings(deadline=None)
@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([1, 2, 4, 8]), st.integers(0, 5))
def test_the_same_as_the_loop(value: int, size: int, at: int) -> None:
    value >>= 8 * (8 - size)
    data = np.frombuffer(bytes(at) + value.to_bytes(size, "big", signed=True) + b"\xff", np.uint8)
    assert kernels._at_once(data, at, size) == value
    if kernels.HAVE_NUMBA:
        assert kernels._big_endian(data, at, size) == value

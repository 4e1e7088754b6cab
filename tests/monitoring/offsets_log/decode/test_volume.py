"""The volume from which on loops are compiled, and what stands in for them before."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinatord.monitoring.offsets_log.decode import compiling, kernels
from kafka_wire.records.crc import crc32c

#: The loops themselves, whether or not this process has compiled them.
LOOPS = {function.__name__: function for function in compiling._loops}


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A process that has read nothing; the list has an element for each time that it compiles."""
    compiled: list[int] = []

    def compile_loops() -> bool:
        compiled.append(compiling._bulk_bytes)
        monkeypatch.setattr(compiling, "_is_compiled", True)
        return True

    monkeypatch.setattr(compiling, "_is_compiled", None)
    monkeypatch.setattr(compiling, "_bulk_bytes", 0)
    monkeypatch.setattr(compiling, "compile_loops", compile_loops)
    return compiled


def test_loops_are_compiled_when_enough_has_been_read_in_bulk(fresh: list[int]) -> None:
    size = compiling.COMPILE_BYTES // 2
    assert [compiling.maybe_compile(size - 1), compiling.maybe_compile(size)] == [False, False]
    assert compiling.maybe_compile(compiling.BULK_BYTES)
    assert fresh == [compiling.COMPILE_BYTES - 1 + compiling.BULK_BYTES]
    assert compiling.maybe_compile(1), "and they stay compiled"
    assert len(fresh) == 1


def test_loops_are_compiled_at_once_for_a_large_log(fresh: list[int]) -> None:
    compiling.expect(compiling.COMPILE_BYTES - 1)
    assert fresh == []
    compiling.expect(compiling.COMPILE_BYTES)
    assert len(fresh) == 1


def test_a_follower_of_a_log_never_compiles(fresh: list[int]) -> None:
    size = compiling.BULK_BYTES - 1
    assert not any(compiling.maybe_compile(size) for _ in range(2 * compiling.COMPILE_BYTES // size))
    assert fresh == []


def test_numba_is_imported_by_volume_alone() -> None:
    """Decoding little imports no numba; without numba, compiling returns False."""
    program = """
import sys
import numpy as np
from coordinatord.monitoring.offsets_log.decode import chunk, compiling
from coordinatord.monitoring.offsets_log.decode.projection import Wanted
chunk.decode(np.zeros(100, np.uint8), 0, 100, 0, Wanted())
assert "numba" not in sys.modules
sys.modules["numba"] = None
assert compiling.compile_loops() is False
assert compiling.maybe_compile(10 * compiling.COMPILE_BYTES) is False
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@settings(deadline=None)
@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([1, 2, 4, 8]), st.integers(0, 5))
def test_an_integer_at_once_is_that_of_the_loop(value: int, size: int, at: int) -> None:
    value >>= 8 * (8 - size)
    data = np.frombuffer(bytes(at) + value.to_bytes(size, "big", signed=True) + b"\xff", np.uint8)
    assert kernels._big_endian_at_once(data, at, size) == value
    with np.errstate(over="ignore"):
        assert LOOPS["_big_endian"](data, at, size) == value


@settings(deadline=None)
@given(st.binary(max_size=40), st.integers(0, 5))
def test_a_checksum_at_once_is_that_of_the_loop(data: bytes, at: int) -> None:
    buffer = np.frombuffer(bytes(at) + data + b"\xff", np.uint8)
    expected = crc32c(data)
    assert kernels._crc32c_at_once(buffer, at, at + len(data)) == expected
    assert LOOPS["_crc32c"](buffer, at, at + len(data)) == expected

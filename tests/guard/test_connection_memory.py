"""What our objects of an idle connection take, as tracemalloc counts it: the same on every machine.

The transport's own, uvloop's and the kernel's come on top: bench/FINDINGS.md has them.
"""

from __future__ import annotations

import tracemalloc

import pytest

from coordinatord.transport.net.connection import Connection
from tests.handlers.world import World

pytestmark = pytest.mark.interpreted

CONNECTIONS = 500
MOST_BYTES = 750


def test_an_idle_connection_takes_no_more_than_it_did() -> None:
    door = World().wire().connection.door
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = [Connection(door, "PLAINTEXT") for _ in range(CONNECTIONS)]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    counted = (after - before) / len(kept)
    assert counted < MOST_BYTES, f"{counted:.0f} bytes"

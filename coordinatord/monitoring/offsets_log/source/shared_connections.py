"""Connections that the parts of one command share. Needs no client library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

opened: ContextVar[dict[str, Any] | None] = ContextVar("opened", default=None)
"""The connections of the innermost `shared` block, by address and settings; None outside of such a block."""


@contextmanager
def shared() -> Iterator[None]:
    """Run a block in which `connecting.connected` connects once to each cluster; the end of the block disconnects. To
    connect takes a tenth of a second: too long for each of a log's fifty partitions.
    """
    connections: dict[str, Any] = {}
    before = opened.set(connections)
    try:
        yield
    finally:
        opened.reset(before)
        for each in connections.values():
            each.disconnect()

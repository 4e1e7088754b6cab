"""Connections that the parts of one command share. Needs no client library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

consumers: ContextVar[dict[str, Any] | None] = ContextVar("consumers", default=None)
"""kafka-python's consumers of the innermost `shared` block, by address and settings; None outside of such a block."""


@contextmanager
def shared() -> Iterator[None]:
    """Run a block in which `connecting.connected` opens one consumer for each cluster, and reuses it. The end of the
    block closes it. To connect takes a tenth of a second: too long for each of a log's fifty partitions.
    """
    opened: dict[str, Any] = {}
    before = consumers.set(opened)
    try:
        yield
    finally:
        consumers.reset(before)
        for consumer in opened.values():
            consumer.close()

"""What members state when they join, one copy of what many state alike.

Each request is decoded into objects of its own: two timeouts, and for each protocol a pair of its name and metadata,
some 300 bytes. The members of a group, and those of most other groups, state the same. So a member keeps the copy that
was stated before, if it is among the latest.
"""

from __future__ import annotations

from functools import lru_cache

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) in the member's order of preference."""

Stated = tuple[Protocols, int, int]
"""Protocols, rebalance timeout and session timeout in milliseconds."""

SHORT_BYTES = 1_024
"""Longer protocols are their member's own: clients choose what is kept here."""


def stated(protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> Stated:
    """The same, with the objects of an earlier member if there was one like it."""
    size = 0
    for name, metadata in protocols:
        size += len(name) + len(metadata)
    if size > SHORT_BYTES:
        return protocols, rebalance_timeout_ms, session_timeout_ms
    return _before(protocols, rebalance_timeout_ms, session_timeout_ms)


@lru_cache(maxsize=256)
def _before(protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> Stated:
    return protocols, rebalance_timeout_ms, session_timeout_ms

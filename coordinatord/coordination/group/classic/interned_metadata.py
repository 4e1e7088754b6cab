"""Shared copies of the metadata that members send when they join.

Each request is decoded into its own objects: two timeouts, and for each protocol a pair of name and metadata, some 300
bytes. The values are equal for all members of a group, and for those of most other groups. So a member keeps the
earlier copy of equal values, if it is among the latest.
"""

from __future__ import annotations

from functools import lru_cache

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) in the member's order of preference."""

Interned = tuple[Protocols, int, int]
"""Protocols, rebalance timeout and session timeout in milliseconds, shared with members of equal values."""

SHORT_BYTES = 1_024
"""Maximum size of shared protocols: clients choose what is kept here, so longer ones are not shared."""


def interned(protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> Interned:
    """Return the arguments, as the objects of an earlier member with equal values if there was one."""
    size = 0
    for name, metadata in protocols:
        size += len(name) + len(metadata)
    if size > SHORT_BYTES:
        return protocols, rebalance_timeout_ms, session_timeout_ms
    return _before(protocols, rebalance_timeout_ms, session_timeout_ms)


@lru_cache(maxsize=256)
def _before(protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> Interned:
    return protocols, rebalance_timeout_ms, session_timeout_ms

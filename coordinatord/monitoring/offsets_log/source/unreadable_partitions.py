"""Errors of a cluster for partitions that cannot be read now, or not by this user. Needs no client library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka_wire.errors import ErrorCode

SHOWN_NAMES = 5
"""Number of partitions that a sentence names."""

MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""Errors that another node may not return, or this node a moment later."""


def not_allowed(bootstrap: str, settings: Mapping[str, Any], topic: str) -> str:
    """Return the message to a user without the ACL."""
    user = settings.get("sasl_plain_username")
    who, principal = (f"the user {user}", f"User:{user}") if user else ("this user", "PRINCIPAL")
    return (
        f"{bootstrap} does not let {who} read {topic}: allow it, with kafka-acls --add --allow-principal {principal} "
        f"--operation Read --topic {topic}"
    )


def no_leader(names: Sequence[str]) -> str:
    """Return a sentence, without its full stop, about partitions for which no node responds."""
    if len(names) == 1:
        return f"{names[0]} has no leader now"
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return f"{', '.join(names[:SHOWN_NAMES])}{more} have no leader now"

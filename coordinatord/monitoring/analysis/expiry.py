"""When committed offsets expire (KIP-211), as Kafka's OffsetExpirationCondition counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coordinatord.monitoring.analysis.commit_window import Trail
from coordinatord.monitoring.analysis.generations import TopicPartition
from coordinatord.monitoring.analysis.status import Members

CONSUMER = "consumer"
IN_USE, NOT_SUBSCRIBED, EMPTY, SIMPLE, EXPLICIT = "in use", "not subscribed", "empty", "simple", "explicit"


class Expiry(NamedTuple):
    """The start of the retention of a group's committed offset, and its end: None while a member reads the topic."""

    topic: str
    partition: int
    counts_from: str
    expires_ms: int | None


def expiry(
    group_type: str | None, members: Members, topic: str, partition: int, committed_ms: int, retention_ms: int
) -> Expiry:
    """Return the expiry of an offset of a classic or a consumer group that was committed at `committed_ms`."""
    from_commit_ms = committed_ms + retention_ms
    if members.has_any is None:
        return Expiry(topic, partition, SIMPLE, from_commit_ms)
    if members.has_any:
        reads = members.topics is None or topic in members.topics
        return (
            Expiry(topic, partition, IN_USE, None)
            if reads
            else Expiry(topic, partition, NOT_SUBSCRIBED, from_commit_ms)
        )
    if group_type == CONSUMER or members.empty_ms is None:
        return Expiry(topic, partition, NOT_SUBSCRIBED, from_commit_ms)
    return Expiry(topic, partition, EMPTY, members.empty_ms + retention_ms)


def expiries(
    group_type: str | None,
    members: Members,
    trails: Mapping[TopicPartition, Trail],
    retention_ms: int | None,
    explicit: Mapping[TopicPartition, int] | None = None,
) -> list[Expiry]:
    """Return the offsets of a group that will expire, by topic and partition; none if the retention is not known.
    `explicit` has the times that clients gave with their commits (OffsetCommit up to v4).
    """
    found = [Expiry(*place, EXPLICIT, at_ms) for place, at_ms in (explicit or {}).items()]
    if retention_ms is not None:
        found += [
            expiry(group_type, members, *place, trail.last.time_ms, retention_ms)
            for place, trail in trails.items()
            if trail.last is not None and place not in (explicit or {})
        ]
    return sorted(each for each in found if each.expires_ms is not None)

"""The topics that the members subscribe to: the coordinator protects their offsets.

Every version of the consumer protocol's subscription starts with its version and the fields of version 0. That part can
be parsed without knowing the rest.
"""

from __future__ import annotations

from functools import lru_cache

from coordinatord.coordination.group.state import Group

SHORT_BYTES = 1_024
"""Maximum size of metadata whose parsed topics are cached."""


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """Return the topics of all members; None if the members are no consumers, or if any metadata cannot be parsed."""
    if not group.uses_consumer_protocol():
        return None
    if group.protocol_name is None:
        return None if group.members else frozenset()
    all_topics: set[frozenset[str]] = set()
    for metadata in group.all_metadata():
        of_member = _read_before(metadata) if len(metadata) <= SHORT_BYTES else _read(metadata)
        if of_member is None:
            return None
        all_topics.add(of_member)
    return all_topics.pop() if len(all_topics) == 1 else frozenset().union(*all_topics)


def _read(metadata: bytes) -> frozenset[str] | None:
    topics = topics_of(metadata)
    return None if topics is None else frozenset(topics)


_read_before = lru_cache(maxsize=256)(_read)
"""`_read` with a cache: members of a group, and similar groups, send equal metadata, and again in each rebalance."""


def topics_of(metadata: bytes) -> list[str] | None:
    """Return the topics at the start of a subscription; None if the bytes are not a subscription."""
    if len(metadata) < 6 or int.from_bytes(metadata[:2], "big", signed=True) < 0:
        return None
    count = int.from_bytes(metadata[2:6], "big", signed=True)
    position = 6
    if count < 0 or count * 2 > len(metadata) - position:
        return None
    topics: list[str] = []
    for _ in range(count):
        length = int.from_bytes(metadata[position : position + 2], "big", signed=True)
        position += 2
        if length < 0 or position + length > len(metadata):
            return None
        topics.append(metadata[position : position + length].decode(errors="replace"))
        position += length
    user_data_length = int.from_bytes(metadata[position : position + 4], "big", signed=True)
    if position + 4 + max(user_data_length, 0) > len(metadata):
        return None
    return topics

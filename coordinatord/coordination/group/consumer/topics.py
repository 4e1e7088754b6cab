"""The topics, as a group of the consumer protocol sees them.

A topic's hash covers its id, name, number of partitions and the racks of each partition; a group's hash covers the
hashes of the topics that it is subscribed to (metadata_hash.py). The coordinator logs the group's hash with its epoch:
another hash means that the partitions must be assigned again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol


class Topic(NamedTuple):
    """A topic as a group sees it. `hash` is its `metadata_hash.topic_hash`."""

    topic_id: bytes
    name: str
    partitions: int
    hash: int


class Topics(Protocol):
    """All topics. `version` rises with each change, `created_version` is its value when a topic was last created."""

    @property
    def version(self) -> int: ...

    @property
    def created_version(self) -> int: ...

    def find(self, name: str) -> Topic | None: ...

    def find_id(self, topic_id: bytes) -> Topic | None: ...

    def names(self) -> Iterable[str]: ...

    def num_partitions(self, topic_id: bytes) -> int:
        """Return the number of partitions; -1 if there is no such topic."""
        ...

    def racks(self, topic_id: bytes, partition: int) -> frozenset[str]: ...

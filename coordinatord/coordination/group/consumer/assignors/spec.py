"""The input and output of an assignor (org.apache.kafka.coordinator.group.api.assignor).

Kafka's results depend on the iteration order of its hash tables, which depends on the order in which keys were put into
them. So the order of an assignor's input is significant:

- `GroupSpec.members`: the order in which TargetAssignmentBuilder puts members into its HashMap. That is the iteration
  order of the group's TimelineHashMap (`hash_map.timeline_order`), then members that the step adds or updates.
- `MemberSpec.topic_ids`: a `JavaSet` in the iteration order of the member's set of topic names (`hash_map.name_set`,
  and `hash_map.union` with the matches of its expression). A plain frozenset is read in ascending order.
- `MemberSpec.assigned`: topics and partitions as in the record of the member's target assignment, which is as an
  assignor returned them. A plain frozenset of partitions is read in ascending order.

A caller that needs a correct result, but not Kafka's own, may ignore the order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

UUID: TypeAlias = bytes
"""A topic's id: 16 bytes, as everywhere in kafka_wire."""


class PartitionAssignorError(Exception):
    """No assignment can be computed: Kafka's PartitionAssignorException, for which clients get UNKNOWN_SERVER_ERROR."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member as an assignor sees it (MemberSubscriptionAndAssignmentImpl)."""

    rack_id: str | None
    instance_id: str | None
    topic_ids: frozenset[UUID]
    """Existing topics that the member subscribes to, by name or expression."""
    assigned: Mapping[UUID, frozenset[int]]
    """The member's target assignment before this one."""
    names: int = 0
    """Number of subscribed topic names, if some of the topics do not exist: Kafka sizes its tables by names."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group as an assignor sees it (GroupSpecImpl). It must not be changed while an assignor runs."""

    members: Mapping[str, MemberSpec]
    homogeneous: bool
    """True if all members subscribe to the same topics."""
    assignable: Mapping[UUID, frozenset[int]] | None = None
    """The partitions that may be assigned, in a share group: those with an initialised state. None: all."""


class TopicsImage(Protocol):
    """Topics as an assignor sees them (SubscribedTopicDescriber). Only the first step of an assignor calls it."""

    def num_partitions(self, topic_id: UUID) -> int:
        """Return the number of partitions of a topic; -1: no such topic."""
        ...

    def racks(self, topic_id: UUID, partition: int) -> frozenset[str]:
        """Return the racks of a partition's replicas. Neither of Kafka 4.3's two assignors uses them."""
        ...


Assignment: TypeAlias = dict[str, dict[UUID, frozenset[int]]]
"""Each member of the group with its partitions by topic, possibly none. Members, topics and partitions (which are
`JavaSet`s) are in the order in which Kafka writes them into records."""

Slices: TypeAlias = Generator[None, None, Assignment]
"""A running assignor: it yields when other work may run, a few milliseconds after the last yield."""

Assignor: TypeAlias = Callable[[GroupSpec, TopicsImage], Slices]

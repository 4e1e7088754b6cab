"""A share group (KIP-932): members, target assignment, and the topics whose share partitions have state.

Several members may have the same partition, so a member takes over its target at once: nothing is revoked, and the
group is Empty or Stable. Epochs are those of consumer groups (consumer/state.py). The target has only partitions whose
state the share coordinator has initialised:

| a topic is   | when                                                                                         |
|--------------|----------------------------------------------------------------------------------------------|
| initializing | the share coordinator was asked to create the state of these partitions                      |
| initialized  | it has created it: these partitions may be assigned                                          |
| deleting     | it was asked to delete the state, because the group or its offsets of the topic are deleted  |

All fields except those under "volatile" are durable: `replay` alone writes them, through the methods here. A member is
never changed, only replaced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coordinatord.coordination.group.consumer.assignors.spec import Slices
from coordinatord.coordination.group.consumer.java_collections.hash_map import SMALLEST_TIMELINE, timeline_table
from coordinatord.coordination.group.consumer.metadata_hash import group_hash
from coordinatord.coordination.group.consumer.state import GroupEnvironment, Session, ShareLimits, Target
from coordinatord.coordination.group.consumer.topics import Topic, Topics
from coordinatord.coordination.group.states import MemberState, ShareState


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member, as in the log."""

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    assigned: Target = field(default_factory=dict)


class TopicPartitions(NamedTuple):
    """A topic's name and some of its partitions."""

    name: str
    partitions: frozenset[int]


StateTopics = Mapping[bytes, TopicPartitions]
"""Topics by id, in the order of Kafka's hash maps: Kafka writes them into records in this order."""


@dataclass(frozen=True, slots=True)
class StatePartitions:
    """The topics for which the share coordinator has state, or is asked to create or delete it."""

    initializing: StateTopics = field(default_factory=dict)
    initialized: StateTopics = field(default_factory=dict)
    deleting: tuple[bytes, ...] = ()


def limits_of(surroundings: GroupEnvironment) -> ShareLimits:
    """Return the settings of share groups, on a node that serves them."""
    assert surroundings.share is not None
    return surroundings.share


class NewState(NamedTuple):
    """State that the share coordinator has to create. A start offset of -1: by share.auto.offset.reset."""

    topic_id: bytes
    partition: int
    state_epoch: int
    start_offset: int = -1


@dataclass(slots=True, eq=False)
class ShareGroup:
    """The state of one group; its id is in `Group`."""

    epoch: int = 1
    metadata_hash: int = 0
    assignment_epoch: int = 1
    assignment_timestamp_ms: int = 0
    members: dict[str, ShareMember] = field(default_factory=dict)
    target: dict[str, Target] = field(default_factory=dict)
    partitions: StatePartitions | None = None  # None: there is no such record

    # derived from the members
    slots: int = SMALLEST_TIMELINE  # of Kafka's table of members: determines the order for assignors
    subscriptions: Counter[frozenset[str]] = field(default_factory=Counter)

    # volatile
    sessions: dict[str, Session] = field(default_factory=dict)
    topics_version: int = -1  # version of the topics in `metadata_hash`; -1: not computed since the load
    partitions_ms: int = 0  # when `partitions` was written or loaded: initialisation is tried again after a time
    checked: tuple[int, int] = (
        -1,
        -1,
    )  # versions of group and topics when no partition lacked state
    settled_version: int = -1  # `Group.version` in which all partitions with state were in the target
    assigning: Assigning | None = None
    is_dead: bool = False

    @property
    def state(self) -> ShareState:
        """The group's state."""
        if self.is_dead:
            return ShareState.DEAD
        return ShareState.STABLE if self.members else ShareState.EMPTY

    def put(self, member: ShareMember) -> None:
        """Add a member, or replace the one with its id."""
        self._count(self.members.get(member.member_id), -1)
        self.slots = timeline_table(len(self.members), self.slots)
        self.members[member.member_id] = member
        self._count(member, 1)

    def remove(self, member_id: str) -> None:
        """Remove a member, if there is one with this id."""
        self._count(self.members.pop(member_id, None), -1)

    def subscribed_topics(self) -> set[str]:
        """Return the names that members subscribe to."""
        return set[str]().union(*self.subscriptions)

    def is_homogeneous(self) -> bool:
        """Return whether all members subscribe to the same topics."""
        return len(self.subscriptions) <= 1

    def hash_of(self, topics: Topics) -> int:
        """Return the hash of the subscribed topics in their current state."""
        found: dict[str, Topic | None] = {name: topics.find(name) for name in self.subscribed_topics()}
        return group_hash({name: topic.hash for name, topic in found.items() if topic is not None})

    def _count(self, member: ShareMember | None, change: int) -> None:
        if member is not None:
            self.subscriptions[member.topics] += change
            if not self.subscriptions[member.topics]:
                del self.subscriptions[member.topics]


@dataclass(slots=True)
class Assigning:
    """A target assignment that takes more than one slice: a timer of the group continues it. Meanwhile members keep the
    target before it.
    """

    slices: Slices
    epoch: int
    """The group epoch when the computation started."""


class Deletion(NamedTuple):
    """The reply to a request that deletes state: its response, which is final if there are no partitions whose state
    the share coordinator has to delete.
    """

    response: Any
    partitions: tuple[tuple[bytes, int], ...] = ()


class Answer(NamedTuple):
    """The reply to a request that the share coordinator has a part in: the response, and the state that it has to
    create; then the shell tells the group's actor the outcome (events.ShareStateCreated).
    """

    response: Any
    create: tuple[NewState, ...] = ()

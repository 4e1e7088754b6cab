"""A group of the consumer protocol (KIP-848): members, target assignment, and values derived from them.

The coordinator assigns partitions; members reconcile themselves with the assignments
in heartbeat responses. There are three epochs:

- the **group epoch** rises with each change of members, subscriptions or topics;
- the **assignment epoch** is the group epoch for which the target assignment was computed;
- a **member epoch** is the assignment epoch that the member has reached: it has revoked the partitions that it had to.

| a member is            | when                                                                                        |
|------------------------|---------------------------------------------------------------------------------------------|
| Stable                 | it owns the whole target of its member epoch                                                |
| UnrevokedPartitions    | it still owns partitions that it must revoke; its epoch stays behind until it has           |
| UnreleasedPartitions   | other members still own partitions of its target                                            |

| the group is | when                                                      |
|--------------|-----------------------------------------------------------|
| Empty        | it has no members                                         |
| Assigning    | the assignment epoch is behind the group epoch            |
| Reconciling  | a member is not Stable in the assignment epoch            |
| Stable       | all members are                                           |

All fields except those under "volatile" are durable: `replay` alone writes them, through the methods here. A member is
never changed, only replaced. Where Kafka keeps the current epoch of each partition, this module keeps its owner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from coordinatord.coordination.group.consumer.assignors.spec import Slices
from coordinatord.coordination.group.consumer.java_collections.hash_map import SMALLEST_TIMELINE, timeline_table
from coordinatord.coordination.group.consumer.metadata_hash import group_hash
from coordinatord.coordination.group.consumer.topics import Topic, Topics
from coordinatord.coordination.group.states import ConsumerState as ConsumerState
from coordinatord.coordination.group.states import MemberState as MemberState
from kafka_wire.records.consumer_group import ClassicMemberMetadata

K = TypeVar("K")

NEVER: Final = 1 << 62
"""A deadline in milliseconds that is never reached: no timer is set."""

LEAVING: Final = -1
"""The member epoch with which a member leaves; also that of a member whose current assignment was deleted."""

LEAVING_FOR_NOW: Final = -2
"""The member epoch with which a static member leaves temporarily, and which it has until it rejoins."""

Epochs = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> the assignment epoch in which the member got it. Topics and partitions are in the order of
Kafka's hash maps: Kafka writes them into records in this order.
"""

Target = Mapping[bytes, frozenset[int]]
"""Topic id -> partitions."""


@dataclass(slots=True)
class ConsumerMember:
    """A member, as in the log. `classic`: the member uses the classic protocol (its group is being migrated).

    A member must not be changed, see above. The class is not frozen, because then a
    member would take three times as long to create.
    """

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    expression: str | None = ""
    assignor: str | None = None
    assigned: Epochs = field(default_factory=dict)
    revoking: Epochs = field(default_factory=dict)
    classic: ClassicMemberMetadata | None = None

    def moved(
        self, epoch: int, previous_epoch: int, state: MemberState, assigned: Epochs, revoking: Epochs
    ) -> ConsumerMember:
        """Return the member with another current assignment. `replace` takes three times as long, and a group's
        rebalance consists mostly of these calls.
        """
        return ConsumerMember(
            self.member_id, epoch, previous_epoch, state, self.instance_id, self.rack_id, self.rebalance_timeout_ms,
            self.client_id, self.client_host, self.topics, self.expression, self.assignor, assigned, revoking,
            self.classic,
        )  # fmt: skip

    def has_not_moved(self, before: ConsumerMember) -> bool:
        """Return whether the current assignment is unchanged."""
        return (
            self.epoch == before.epoch
            and self.previous_epoch == before.previous_epoch
            and self.state is before.state
            and self.assigned == before.assigned
            and self.revoking == before.revoking
        )

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Return whether the member owns its whole target of this epoch."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch


@dataclass(frozen=True, slots=True)
class Resolved:
    """The topics that an expression matched when it was last resolved: with the version of the topics, and the time."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(slots=True)
class Session:
    """A member's deadlines in milliseconds since the Unix epoch. `timer_ms`: see classic/members.py."""

    timeout_ms: int
    deadline_ms: int = NEVER
    timer_ms: int = NEVER
    revoke_deadline_ms: int = NEVER
    revoke_epoch: int = 0  # the deadline above is void when the member has left this epoch
    join_deadline_ms: int = NEVER  # of a classic member: to rejoin
    sync_deadline_ms: int = NEVER  # of a classic member: to sync
    steady: Any = None  # the last Result of a heartbeat without changes


@dataclass(slots=True)
class Assigning:
    """A target assignment that is being computed: see assigning.py."""

    slices: Slices
    epoch: int
    """The group epoch when the computation started."""
    assignor: str
    is_void: bool = False
    """A member has replaced another since: start again."""
    heard: Any = None
    """The heartbeat that waits for the assignment: heartbeat.Heard, or None."""


class ShareLimits(Protocol):
    """Settings of share groups, under Kafka's names; the methods use the group's own settings first."""

    max_size: int  # group.share.max.size
    initialize_retry_interval_ms: int  # group.share.initialize.retry.interval.ms

    def session_timeout_ms(self, group_id: str) -> int: ...

    def heartbeat_interval_ms(self, group_id: str) -> int: ...

    def assignment_interval_ms(self, group_id: str) -> int: ...


class Limits(Protocol):
    """Settings of consumer groups, under Kafka's names; the methods use the group's own settings first."""

    assignors: tuple[str, ...]  # group.consumer.assignors: the first is the default
    max_size: int  # group.consumer.max.size
    upgrades: bool  # group.consumer.migration.policy
    downgrades: bool
    expression_refresh_ms: int  # group.consumer.regex.refresh.interval.ms
    strict_commits: bool  # group.consumer.strict.member.epoch

    @property
    def version(self) -> int:
        """Version that changes with a group's own settings."""
        ...

    def session_timeout_ms(self, group_id: str) -> int: ...

    def heartbeat_interval_ms(self, group_id: str) -> int: ...

    def assignment_interval_ms(self, group_id: str) -> int: ...


class GroupEnvironment(NamedTuple):
    """The node's topics and settings, as groups see them."""

    topics: Topics
    limits: Limits
    share: ShareLimits | None = None
    """None on a node without share groups."""


@dataclass(slots=True, eq=False)
class ConsumerGroup:
    """The state of one group; its id, offsets and transactions are in `Group`."""

    epoch: int = 1
    metadata_hash: int = 0
    assignment_epoch: int = 1
    assignment_timestamp_ms: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    target: dict[str, Target] = field(default_factory=dict)
    resolved: dict[str, Resolved] = field(default_factory=dict)
    has_partition_metadata: bool = False  # Kafka 4.0 wrote such a record; the next epoch deletes it

    # derived from the members
    static_members: dict[str, str] = field(default_factory=dict)  # instance id -> member id
    slots: int = SMALLEST_TIMELINE  # of Kafka's table of members: determines the order for assignors
    subscriptions: Counter[frozenset[str]] = field(default_factory=Counter)
    expressions: Counter[str] = field(default_factory=Counter)
    assignors: Counter[str] = field(default_factory=Counter)
    protocols: Counter[str] = field(default_factory=Counter)  # those of classic members
    classic_members: int = 0
    owners: dict[bytes, dict[int, str]] = field(default_factory=dict)  # topic id -> partition -> member id
    unreconciled: set[str] = field(default_factory=set)

    # volatile
    sessions: dict[str, Session] = field(default_factory=dict)
    topics_version: int = -1  # version of the topics in `metadata_hash`; -1: not computed since the load
    assigning: Assigning | None = None
    is_resolving: bool = False  # the expressions are about to be resolved
    may_describe: Any = None  # events.MayDescribe of the request that caused that
    resolving: Any = None  # patterns.Resolving, once started
    account: Any = None  # of the epoch that the group is reconciling to: epoch_record.py
    came: dict[str, Any] = field(default_factory=dict)  # a Joined for each new member since the epoch rose
    departing: dict[str, tuple[ConsumerMember, Target]] = field(default_factory=dict)  # to be removed by the step
    asked: dict[str, Any] = field(default_factory=dict)  # unresolved expressions -> the Trigger that added them
    seen: dict[str, Topic] = field(default_factory=dict)  # the subscribed topics when the hash was last computed
    seen_before: dict[str, Topic] = field(default_factory=dict)  # and the time before
    is_dead: bool = False

    @property
    def state(self) -> ConsumerState:
        """The group's state; the module's docstring has the table."""
        if self.is_dead:
            return ConsumerState.DEAD
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerState.ASSIGNING
        return ConsumerState.RECONCILING if self.unreconciled else ConsumerState.STABLE

    def put(self, member: ConsumerMember) -> None:
        """Add a member, or replace the one with its id."""
        old = self.members.get(member.member_id)
        self._count(old, -1)
        if old is not None and old.instance_id != member.instance_id:
            self._forget_instance(old)
        self.slots = timeline_table(len(self.members), self.slots)
        self.members[member.member_id] = member
        self._count(member, 1)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._check_reconciled(member)

    def move(self, member: ConsumerMember, before: ConsumerMember) -> None:
        """Replace a member that differs from `before` in its current
        assignment only, mostly in the epochs of partitions.
        """
        member_id = member.member_id
        if member.revoking != before.revoking or member.assigned != before.assigned:
            self._disown_all(before)
        self._own_all(member)
        self.slots = timeline_table(len(self.members), self.slots)
        self.members[member_id] = member
        self._check_reconciled(member)

    def remove(self, member_id: str) -> None:
        """Remove a member, if there is one with this id."""
        member = self.members.pop(member_id, None)
        self._count(member, -1)
        self.unreconciled.discard(member_id)
        if member is not None:
            self._forget_instance(member)

    def set_assignment_epoch(self, epoch: int, timestamp_ms: int) -> None:
        """Set the epoch of the target assignment."""
        self.assignment_epoch, self.assignment_timestamp_ms = epoch, timestamp_ms
        for member in self.members.values():
            self._check_reconciled(member)

    def is_owned(self, topic_id: bytes, partition: int) -> bool:
        """Return whether a member owns the partition, or has not revoked it yet."""
        return partition in self.owners.get(topic_id, ())

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the member with this instance id, or None."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def subscribed_topics(self) -> set[str]:
        """Return the names that members subscribe to, and those that their expressions have matched."""
        found: set[str] = set()
        for names in self.subscriptions:
            found |= names
        for resolved in self.resolved.values():
            found |= resolved.topics
        return found

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the names that one member subscribes to, with those that its expression has matched."""
        resolved = self.resolved.get(member.expression) if member.expression else None
        return member.topics if resolved is None else member.topics | resolved.topics

    def is_homogeneous(self) -> bool:
        """Return whether all members subscribe to the same topics in the same way."""
        if not self.expressions:
            return len(self.subscriptions) <= 1
        if len(self.expressions) > 1 or self.expressions.total() != len(self.members):
            return False
        return not any(self.subscriptions)

    def hash_of(self, topics: Topics) -> int:
        """Return the hash of the subscribed topics in their current state, which becomes `seen`."""
        self.seen_before, self.seen = self.seen, {}
        seen = self.seen
        for name in self.subscribed_topics():
            topic: Topic | None = topics.find(name)
            if topic is not None:
                seen[name] = topic
        return group_hash({name: topic.hash for name, topic in seen.items()})

    def topics_seen(self) -> dict[str, Topic] | None:
        """Return the subscribed topics that the hash covers; None if they are unknown since the load."""
        return self.seen if self.topics_version >= 0 else None

    def are_all_classic_without(self, leaving: Iterable[ConsumerMember]) -> bool:
        """Return whether all members except these use the classic protocol."""
        gone = list(leaving)
        staying = len(self.members) - len(gone)
        return self.classic_members - sum(member.classic is not None for member in gone) == staying

    # Internal

    def _forget_instance(self, member: ConsumerMember) -> None:
        """Remove the member's instance id."""
        if self.static_members.get(member.instance_id or "") == member.member_id:
            del self.static_members[member.instance_id or ""]

    def _count(self, member: ConsumerMember | None, change: int) -> None:
        """Add a member to the counts, or remove it from them."""
        if member is None:
            return
        _add(self.subscriptions, member.topics, change)
        if member.expression:
            _add(self.expressions, member.expression, change)
        if member.assignor is not None:
            _add(self.assignors, member.assignor, change)
        if member.classic is not None:
            self.classic_members += change
            for protocol in member.classic.supported_protocols:
                _add(self.protocols, protocol.name, change)
        if change > 0:
            self._own_all(member)
        else:
            self._disown_all(member)

    def _own_all(self, member: ConsumerMember) -> None:
        for part in (member.assigned, member.revoking):
            for topic_id, partitions in part.items():
                owners = self.owners.get(topic_id)
                if owners is None:
                    owners = self.owners[topic_id] = {}
                for partition in partitions:
                    owners[partition] = member.member_id

    def _disown_all(self, member: ConsumerMember) -> None:
        """Remove the member as owner, unless another member owns the partition: in a compacted log, another member's
        record may precede this member's revocation.
        """
        for part in (member.assigned, member.revoking):
            for topic_id, partitions in part.items():
                owners = self.owners.get(topic_id)
                if owners is None:
                    continue
                for partition in partitions:
                    if owners.get(partition) == member.member_id:
                        del owners[partition]
                if not owners:
                    del self.owners[topic_id]

    def _check_reconciled(self, member: ConsumerMember) -> None:
        if member.is_reconciled_to(self.assignment_epoch):
            self.unreconciled.discard(member.member_id)
        else:
            self.unreconciled.add(member.member_id)


def _add(counts: Counter[K], key: K, change: int) -> None:
    count = counts[key] + change
    if count:
        counts[key] = count
    else:
        del counts[key]

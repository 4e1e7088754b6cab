"""A group of the consumer protocol (KIP-848): members, target assignment, and what follows from them.

The coordinator assigns partitions; members reconcile themselves with what they are told in heartbeats. Three epochs:

- the **group epoch** rises with each change of members, subscriptions or topics;
- the **assignment epoch** is the group epoch for which the target assignment was computed;
- a **member's epoch** is the assignment epoch that the member has reached: it has revoked what it must give up.

| a member is            | when                                                                                        |
|------------------------|---------------------------------------------------------------------------------------------|
| Stable                 | it owns its whole target of its epoch                                                       |
| UnrevokedPartitions    | it still owns what it must give up; its epoch stays behind until it has                     |
| UnreleasedPartitions   | partitions of its target are still owned by others                                          |

| the group is | when                                                      |
|--------------|-----------------------------------------------------------|
| Empty        | it has no members                                         |
| Assigning    | the assignment epoch is behind the group epoch            |
| Reconciling  | a member is not Stable in the assignment epoch            |
| Stable       | all are                                                   |

All of it is durable but the fields under "volatile": `replay` alone writes it, through the methods here. A
member is never changed, only replaced. What Kafka keeps as the current epoch of each partition is here its owner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from coordinatord.coordination.group.consumer.assignors.java_hash_map import SMALLEST_TIMELINE, timeline_table
from coordinatord.coordination.group.consumer.assignors.spec import Slices
from coordinatord.coordination.group.consumer.metadata_hash import group_hash
from coordinatord.coordination.group.consumer.topics import Topic, Topics
from coordinatord.coordination.group.states import ConsumerState as ConsumerState
from coordinatord.coordination.group.states import MemberState as MemberState
from kafka_wire.records.consumer_group import ClassicMemberMetadata

K = TypeVar("K")

NEVER: Final = 1 << 62
"""A deadline in milliseconds that never comes: no timer is set."""

LEAVING: Final = -1
"""The epoch with which a member leaves; also that of a member whose current assignment was deleted."""

LEAVING_FOR_NOW: Final = -2
"""The epoch with which a static member leaves to come back, and that it has until then."""

Epochs = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> the assignment epoch in which the member got it. Topics and partitions are in the order of
Kafka's hash maps: it writes them into records in this order.
"""

Target = Mapping[bytes, frozenset[int]]
"""Topic id -> partitions."""


@dataclass(slots=True, repr=False)
class ConsumerMember:
    """A member, as the log has it. `classic`: it uses the classic protocol (its group is being migrated).

    Nobody changes one, see above. It is not frozen, because then it would take three times as long to make.
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
        """The member with another current assignment. A group's rebalance is little else: `replace` takes three times
        as long.
        """
        return ConsumerMember(
            self.member_id, epoch, previous_epoch, state, self.instance_id, self.rack_id, self.rebalance_timeout_ms,
            self.client_id, self.client_host, self.topics, self.expression, self.assignor, assigned, revoking,
            self.classic,
        )  # fmt: skip

    def has_not_moved(self, before: ConsumerMember) -> bool:
        """Whether its current assignment is what it was."""
        return (
            self.epoch == before.epoch
            and self.previous_epoch == before.previous_epoch
            and self.state is before.state
            and self.assigned == before.assigned
            and self.revoking == before.revoking
        )

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether the member has all that this epoch gives it."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch


@dataclass(frozen=True, slots=True, repr=False)
class Resolved:
    """What an expression matched when it was last resolved: in which version of the topics, and when."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(slots=True, repr=False)
class Session:
    """A member's deadlines in epoch milliseconds. `timer_ms`: see classic/members.py."""

    timeout_ms: int
    deadline_ms: int = NEVER
    timer_ms: int = NEVER
    revoke_deadline_ms: int = NEVER
    revoke_epoch: int = 0  # the deadline above is void when the member has left this epoch
    join_deadline_ms: int = NEVER  # of a classic member: to rejoin
    sync_deadline_ms: int = NEVER  # of a classic member: to sync
    steady: Any = None  # the last Result of a heartbeat that brought nothing new


@dataclass(slots=True, repr=False)
class Assigning:
    """A target assignment that is being computed: see assigning.py."""

    slices: Slices
    epoch: int
    """The group's, when it began."""
    assignor: str
    new_member_id: str
    """The member that came with the request, if it is new."""
    is_void: bool = False
    """A member has taken another's place since: begin anew."""
    heard: Any = None
    """The heartbeat that waits for it: heartbeat.Heard, None if nobody does."""


class Limits(Protocol):
    """Settings of consumer groups, under Kafka's names; the methods look for the group's own first."""

    assignors: tuple[str, ...]  # group.consumer.assignors: the first is the default
    max_size: int  # group.consumer.max.size
    upgrades: bool  # group.consumer.migration.policy
    downgrades: bool
    expression_refresh_ms: int  # group.consumer.regex.refresh.interval.ms
    strict_commits: bool  # group.consumer.strict.member.epoch

    @property
    def version(self) -> int:
        """Changes when a group's own settings do."""
        ...

    def session_timeout_ms(self, group_id: str) -> int: ...

    def heartbeat_interval_ms(self, group_id: str) -> int: ...

    def assignment_interval_ms(self, group_id: str) -> int: ...


class GroupEnvironment(NamedTuple):
    """What a consumer group sees of its node."""

    topics: Topics
    limits: Limits


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroup:
    """The state of one group; its id, offsets and transactions are the `Group`'s."""

    epoch: int = 1
    metadata_hash: int = 0
    assignment_epoch: int = 1
    assignment_timestamp_ms: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    target: dict[str, Target] = field(default_factory=dict)
    resolved: dict[str, Resolved] = field(default_factory=dict)
    has_partition_metadata: bool = False  # Kafka 4.0 wrote such a record; the next epoch deletes it

    # what follows from the members
    static_members: dict[str, str] = field(default_factory=dict)  # instance id -> member id
    slots: int = SMALLEST_TIMELINE  # of Kafka's table of members: decides in which order an assignor sees them
    subscriptions: Counter[frozenset[str]] = field(default_factory=Counter)
    expressions: Counter[str] = field(default_factory=Counter)
    assignors: Counter[str] = field(default_factory=Counter)
    protocols: Counter[str] = field(default_factory=Counter)  # those of classic members
    classic_members: int = 0
    owners: dict[bytes, dict[int, str]] = field(default_factory=dict)  # topic id -> partition -> member id
    unreconciled: set[str] = field(default_factory=set)

    # volatile
    sessions: dict[str, Session] = field(default_factory=dict)
    topics_version: int = -1  # of the topics from which `metadata_hash` was last computed; -1: since the load never
    assigning: Assigning | None = None
    is_resolving: bool = False  # the expressions are about to be resolved
    may_describe: Any = None  # events.MayDescribe of the request that asked for that
    resolving: Any = None  # patterns.Resolving, when that has begun
    account: Any = None  # of the epoch that the group is on its way to: epoch_record.py
    came: dict[str, Any] = field(default_factory=dict)  # a Joined for each new member since the epoch rose
    departing: dict[str, tuple[ConsumerMember, Target]] = field(default_factory=dict)  # whom the step removes
    asked: dict[str, Any] = field(default_factory=dict)  # expressions to be resolved -> a Trigger: who asked for them
    seen: dict[str, Topic] = field(default_factory=dict)  # the subscribed topics when the hash was last computed
    seen_before: dict[str, Topic] = field(default_factory=dict)  # and the time before
    is_dead: bool = False

    @property
    def state(self) -> ConsumerState:
        """See the module's docstring."""
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
        """`put` for a member that has another current assignment than `before`, and else nothing new. Most have the
        same partitions in another epoch.
        """
        member_id = member.member_id
        if member.revoking != before.revoking or member.assigned != before.assigned:
            self._disown_all(before)
        self._own_all(member)
        self.slots = timeline_table(len(self.members), self.slots)
        self.members[member_id] = member
        self._check_reconciled(member)

    def remove(self, member_id: str) -> None:
        """Remove a member, if there is one of this id."""
        member = self.members.pop(member_id, None)
        self._count(member, -1)
        self.unreconciled.discard(member_id)
        if member is not None:
            self._forget_instance(member)

    def set_assignment_epoch(self, epoch: int, timestamp_ms: int) -> None:
        """There is a target assignment for this epoch."""
        self.assignment_epoch, self.assignment_timestamp_ms = epoch, timestamp_ms
        for member in self.members.values():
            self._check_reconciled(member)

    def is_owned(self, topic_id: bytes, partition: int) -> bool:
        """Whether a member owns the partition, or has not given it up yet."""
        return partition in self.owners.get(topic_id, ())

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member with this instance id."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def subscribed_topics(self) -> set[str]:
        """The names that members subscribe to, and those that their expressions have matched."""
        found: set[str] = set()
        for names in self.subscriptions:
            found |= names
        for resolved in self.resolved.values():
            found |= resolved.topics
        return found

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names that one member subscribes to, with those that its expression has matched."""
        resolved = self.resolved.get(member.expression) if member.expression else None
        return member.topics if resolved is None else member.topics | resolved.topics

    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics in the same way."""
        if not self.expressions:
            return len(self.subscriptions) <= 1
        if len(self.expressions) > 1 or self.expressions.total() != len(self.members):
            return False
        return not any(self.subscriptions)

    def hash_of(self, topics: Topics) -> int:
        """The hash of the subscribed topics as they are now, which are `seen` from now on."""
        self.seen_before, self.seen = self.seen, {}
        seen = self.seen
        for name in self.subscribed_topics():
            topic: Topic | None = topics.find(name)
            if topic is not None:
                seen[name] = topic
        return group_hash({name: topic.hash for name, topic in seen.items()})

    def topics_seen(self) -> dict[str, Topic] | None:
        """The subscribed topics that the hash covers; None if the load did not tell."""
        return self.seen if self.topics_version >= 0 else None

    def are_all_classic_without(self, leaving: Iterable[ConsumerMember]) -> bool:
        """Whether nobody but these uses the consumer protocol."""
        gone = list(leaving)
        staying = len(self.members) - len(gone)
        return self.classic_members - sum(member.classic is not None for member in gone) == staying

    # Within

    def _forget_instance(self, member: ConsumerMember) -> None:
        """The member does not go by its instance id any more."""
        if self.static_members.get(member.instance_id or "") == member.member_id:
            del self.static_members[member.instance_id or ""]

    def _count(self, member: ConsumerMember | None, change: int) -> None:
        """Add a member to the counts, or take it out of them."""
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
        """In a compacted log, another member may be seen to own a partition before this one has given it up."""
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

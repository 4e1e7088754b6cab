"""Kafka's SimpleAssignor of share groups (KIP-932), with exactly Kafka's results, in Kafka's order.

Several members may have the same partition. If there are fewer partitions than members, each partition has
`ceil(members / partitions)` members, else one; members differ by one partition at most. Members keep what they have: a
member above its share loses the first partitions in the order of its hash table, a partition with too many members
loses the first of these, and members below their share then take the partitions that lack members in turn. Partitions
whose state is not initialised yet (`GroupSpec.assignable`) are not assigned.

If all members subscribe to the same topics, all partitions are shared out at once (SimpleHomogeneousAssignmentBuilder),
otherwise topic by topic among their subscribers (SimpleHeterogeneousAssignmentBuilder).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from math import ceil
from typing import Generic, TypeVar

from coordinatord.base.budget import Work
from coordinatord.coordination.group.consumer.assignors.assignment_builder import Draft, held, known
from coordinatord.coordination.group.consumer.assignors.mixed import missing
from coordinatord.coordination.group.consumer.assignors.slices import member_order
from coordinatord.coordination.group.consumer.assignors.spec import (
    UUID,
    GroupSpec,
    PartitionAssignorError,
    Slices,
    TopicsImage,
)
from coordinatord.coordination.group.consumer.java_collections.hash_map import (
    INTEGERS,
    SMALLEST_TABLE,
    TOPIC_PARTITIONS,
    UUIDS,
    HashTable,
    Kind,
    grown,
    ordered,
    placed,
    roomy,
)

K = TypeVar("K")

NAME = "simple"


def assign(spec: GroupSpec, topics: TopicsImage) -> Slices:
    """Compute an assignment; raises PartitionAssignorError if a topic does not exist."""
    work = Work()
    drafts = _Drafts(spec, (yield from member_order(spec, work)))
    subscriptions = [spec.members[member_id].topic_ids for member_id in drafts.members]
    if not any(subscriptions):
        return {member_id: {} for member_id in drafts.members}
    if spec.homogeneous:
        yield from _assign_all(spec, topics, drafts, list(ordered(subscriptions[0])), work)
        return drafts.finished()
    subscribed = HashTable(UUIDS)
    for topic_ids in subscriptions:
        subscribed.put_all(ordered(topic_ids))
    for topic, partitions in [(topic, _assignable(spec, topics, topic)) for topic in subscribed]:
        subscribers = [member for member, topic_ids in enumerate(subscriptions) if topic in topic_ids]
        yield from _assign_topic(drafts, topic, partitions, subscribers, work)
    return drafts.finished()


def _assignable(spec: GroupSpec, topics: TopicsImage, topic: UUID) -> list[int]:
    count = topics.num_partitions(topic)
    if count == -1:
        raise PartitionAssignorError(missing(topic))
    if spec.assignable is None:
        return list(range(count))
    allowed = spec.assignable.get(topic, frozenset())
    return [partition for partition in range(count) if partition in allowed]


class _Drafts:
    """The assignments of all members; members are numbers here, in Kafka's order."""

    def __init__(self, spec: GroupSpec, members: list[str]) -> None:
        self.members = members
        self.before = [known(spec.members[member_id].assigned) for member_id in members]
        self._drafts: dict[int, Draft] = {}

    def of(self, member: int) -> Draft:
        """Return the member's assignment, to be changed."""
        draft = self._drafts.get(member)
        if draft is None:
            draft = self._drafts[member] = Draft(self.before[member])
        return draft

    def finished(self) -> dict[str, dict[UUID, frozenset[int]]]:
        """Return the assignment; a member that lost all partitions of a topic still has the topic, as in Kafka."""
        return {
            member_id: self._drafts[member].finished() if member in self._drafts else self.before[member]
            for member, member_id in enumerate(self.members)
        }


def _assign_all(
    spec: GroupSpec, topics: TopicsImage, drafts: _Drafts, subscribed: list[UUID], work: Work
) -> Generator[None, None, None]:
    targets = [(topic, partition) for topic in subscribed for partition in _assignable(spec, topics, topic)]
    members = range(len(drafts.members))
    sharing = _Sharing(TOPIC_PARTITIONS, lambda key: key, targets, members, drafts, work)
    topic_ids = frozenset(subscribed)
    for member, before in enumerate(drafts.before):
        desired, count = sharing.desired[member], 0
        for topic, partitions in before.items():
            if topic not in topic_ids:
                drafts.of(member).remove_topic(topic)
                continue
            for partition in held(partitions):
                sharing.keep(member, (topic, partition))
                count += 1
            if count >= desired and partitions:
                drafts.of(member)
        if work.done(1 + count):
            yield
    yield from sharing.share_out()


def _assign_topic(
    drafts: _Drafts, topic: UUID, partitions: list[int], subscribers: Sequence[int], work: Work
) -> Generator[None, None, None]:
    sharing = _Sharing(INTEGERS, lambda partition: (topic, partition), partitions, subscribers, drafts, work)
    for member, before in enumerate(drafts.before):
        for partition in held(before.get(topic, frozenset())):
            sharing.keep(member, partition)
    if work.done(1 + len(drafts.before)):
        yield
    yield from sharing.share_out()


class _Sharing(Generic[K]):
    """Partitions that are shared out among some members. `K` is a partition of one topic, or with its topic."""

    def __init__(
        self,
        kind: Kind[K],
        partition_of: Callable[[K], tuple[UUID, int]],
        targets: Sequence[K],
        members: Sequence[int],
        drafts: _Drafts,
        work: Work,
    ) -> None:
        self._kind = kind
        self._partition_of = partition_of
        self._targets = targets
        self._drafts = drafts
        self._work = work
        self._limit = -(-len(members) // len(targets)) if targets else 0
        """Members of each partition."""
        share = self._limit * len(targets) / len(members)
        self.desired = [0] * len(drafts.members)
        """Partitions of each member. Kafka computes with doubles, too."""
        for place, member in enumerate(members):
            self.desired[member] = ceil(share * (place + 1)) - ceil(share * place)
        self._order = HashTable(kind, roomy(len(targets) + 1))
        self._holders: dict[K, dict[int, None]] = {}
        self._held: dict[int, dict[K, None]] = {}

    def keep(self, member: int, key: K) -> None:
        """Let a member keep a partition that it has."""
        self._holders_of(key)[member] = None
        self._held.setdefault(member, {})[key] = None

    def share_out(self) -> Generator[None, None, None]:
        """Take partitions from members that have too many, and from those that share one with too many others; then
        share out what lacks members.
        """
        sizes = {key: grown(SMALLEST_TABLE, len(holders)) for key, holders in self._holders.items()}
        for member, keys in self._held.items():
            excess = len(keys) - self.desired[member]
            for key in placed(self._kind, list(keys))[:excess] if excess > 0 else ():
                self._revoke(member, key)
            if self._work.done(1 + max(excess, 0)):
                yield
        for key, holders in self._holders.items():
            excess = len(holders) - self._limit
            for member in placed(INTEGERS, list(holders), sizes[key])[:excess] if excess > 0 else ():
                self._revoke(member, key)
            if self._work.done(1 + max(excess, 0)):
                yield
        for key in self._targets:
            self._holders_of(key)
            if self._work.done():
                yield
        yield from self._fill()

    def _fill(self) -> Generator[None, None, None]:
        unfilled = [member for member, desired in enumerate(self.desired) if self._count(member) < desired]
        at, has_assigned = 0, False
        for key in self._order:
            holders = self._holders[key]
            while len(holders) < self._limit:
                if at == len(unfilled):
                    if not has_assigned or not unfilled:
                        break
                    at, has_assigned = 0, False
                member = unfilled[at]
                at += 1
                if member in holders:
                    continue
                topic, partition = self._partition_of(key)
                self._drafts.of(member).add(topic, [partition], SMALLEST_TABLE)
                self.keep(member, key)
                has_assigned = True
                if self._count(member) >= self.desired[member]:
                    at -= 1
                    del unfilled[at]
            if not unfilled:
                break
            if self._work.done(2):
                yield

    def _revoke(self, member: int, key: K) -> None:
        del self._holders[key][member]
        del self._held[member][key]
        self._drafts.of(member).discard(*self._partition_of(key))

    def _count(self, member: int) -> int:
        return len(self._held.get(member, ()))

    def _holders_of(self, key: K) -> dict[int, None]:
        holders = self._holders.get(key)
        if holders is None:
            self._order.compute_if_absent(key)
            holders = self._holders[key] = {}
        return holders

"""The uniform assignor for members with different topics (Kafka's UniformHeterogeneousAssignmentBuilder).

Members keep their partitions of the topics that they still subscribe to. Topics with the most partitions for
each subscriber come first. Free partitions go to the subscribers with the fewest partitions. Then topics are
visited again and again, and partitions move from the subscribers with the most to those with the fewest,
until a whole round has moved none, or after 16 rounds. Subscribers of the same topics then differ by one
partition at most; others may differ by more.
"""

from __future__ import annotations

import base64
from collections.abc import Generator, Iterable

from coordinatord.base.budget import Work
from coordinatord.coordination.group.consumer.assignors.assignment_builder import Draft, known
from coordinatord.coordination.group.consumer.assignors.balancer import Balancer
from coordinatord.coordination.group.consumer.assignors.slices import member_order, topic_sizes
from coordinatord.coordination.group.consumer.assignors.spec import (
    UUID,
    Assignment,
    GroupSpec,
    PartitionAssignorError,
    Slices,
    TopicsImage,
)
from coordinatord.coordination.group.consumer.java_collections.hash_map import ordered, roomy, uuid_order

_ROUNDS = 16
_NOBODY = -1


def missing(topic: UUID) -> str:
    """Return Kafka's message for a topic that does not exist."""
    text = base64.urlsafe_b64encode(topic).decode().rstrip("=")
    return f"Members are subscribed to topic {text} which doesn't exist in the topic metadata."


def assign(spec: GroupSpec, topics: TopicsImage) -> Slices:
    """Compute an assignment; raises PartitionAssignorError if a topic does not exist."""
    builder = _Builder(spec, topic_sizes(spec, topics))
    yield from builder.number()
    if not builder.readers:
        return {member_id: {} for member_id in builder.members}
    yield from builder.keep()
    yield from builder.deal()
    yield from builder.balance()
    return (yield from builder.finish())


class _Builder:
    """The builder of one assignment. Members are numbers here: positions in Kafka's order of members."""

    def __init__(self, spec: GroupSpec, sizes: dict[UUID, int]) -> None:
        self.spec = spec
        self.sizes = sizes
        self.members: list[str] = []
        self.readers: dict[UUID, list[int]] = {}
        """Subscribers by topic, in ascending order."""
        self.owners: dict[UUID, list[int]] = {}
        """Owners by topic and partition."""
        self.loads = [0] * len(spec.members)
        """Number of partitions by member."""
        self.before: list[dict[UUID, frozenset[int]]] = []
        self.drafts: dict[int, Draft] = {}
        """Changed assignments, by member."""
        self.work = Work()

    def number(self) -> Generator[None, None, None]:
        """Number the members, and list the subscribers of each topic."""
        self.members = yield from member_order(self.spec, self.work)
        for member, member_id in enumerate(self.members):
            topics = self.spec.members[member_id].topic_ids
            for topic in ordered(topics):
                if topic not in self.readers:
                    count = self.sizes[topic]
                    if count == -1:
                        raise PartitionAssignorError(missing(topic))
                    self.readers[topic] = []
                    self.owners[topic] = [_NOBODY] * count
                self.readers[topic].append(member)
            if self.work.done(1 + len(topics) // 8):
                yield

    def keep(self) -> Generator[None, None, None]:
        """Let each member keep its partitions of the topics that it subscribes to."""
        for member, member_id in enumerate(self.members):
            spec = self.spec.members[member_id]
            before = known(spec.assigned)
            self.before.append(before)
            for topic, partitions in before.items():
                if topic not in spec.topic_ids:
                    self._draft(member).remove_topic(topic)
                    continue
                self.loads[member] += len(partitions)
                owners = self.owners[topic]
                if max(partitions) >= len(owners):  # Kafka's array is too short for it
                    raise PartitionAssignorError(f"{member_id} has a partition that its topic does not have.")
                for partition in partitions:
                    owners[partition] = member
            if self.work.done(1 + 2 * len(before) + self.loads[member] // 8):
                yield

    def deal(self) -> Generator[None, None, None]:
        """Assign the partitions without an owner to the subscribers with the fewest."""
        free = {}
        for topic, owners in self.owners.items():
            if partitions := [partition for partition, owner in enumerate(owners) if owner == _NOBODY]:
                free[topic] = partitions
        for topic in self._by_need(free):
            balancer = Balancer(self.readers[topic], self.loads)
            for partition in free[topic]:
                self._give(topic, partition, balancer.taker())
                if self.work.done():
                    yield

    def balance(self) -> Generator[None, None, None]:
        """Move partitions until no move improves the balance any more."""
        visited = self._by_need(topic for topic, readers in self.readers.items() if len(readers) > 1)
        last_moved = None
        for _ in range(_ROUNDS):
            for topic in visited:
                if topic == last_moved:
                    return
                moved = yield from self._balance_topic(topic)
                if moved or last_moved is None:
                    last_moved = topic

    def finish(self) -> Slices:
        """Return the assignment."""
        result: Assignment = {}
        for member, member_id in enumerate(self.members):
            draft = self.drafts.get(member)
            result[member_id] = self.before[member] if draft is None else draft.finished()
            if draft is not None and self.work.done(1 + self.loads[member]):
                yield
        return result

    def _balance_topic(self, topic: UUID) -> Generator[None, None, bool]:
        """Move a topic's partitions from the subscribers with the most to
        those with the fewest; return whether any moved.
        """
        balancer = Balancer(self.readers[topic], self.loads)
        if self.work.done(1 + len(self.readers[topic]) // 8):
            yield
        if balancer.imbalance <= 1:
            return False
        has: dict[int, list[int]] = {}
        for partition, owner in enumerate(self.owners[topic]):
            has.setdefault(owner, []).append(partition)
        moved = False
        while not balancer.balanced():
            giver = balancer.giver()
            while giver is not None and not has.get(giver):
                balancer.exclude_giver()
                giver = balancer.giver()
            if giver is None:
                break
            partition = has[giver].pop()
            taker = balancer.taker()
            if balancer.balanced():
                break
            self._take(topic, partition, giver)
            self._give(topic, partition, taker)
            moved = True
            if self.work.done(2):
                yield
        return moved

    def _by_need(self, topics: Iterable[UUID]) -> list[UUID]:
        """Sort topics by the most partitions for each subscriber, then by the fewest subscribers, then by id."""

        def need(topic: UUID) -> tuple[float, int, tuple[int, int]]:
            readers = len(self.readers[topic])
            return -(len(self.owners[topic]) / readers), readers, uuid_order(topic)

        return sorted(topics, key=need)

    def _draft(self, member: int) -> Draft:
        draft = self.drafts.get(member)
        if draft is None:
            draft = self.drafts[member] = Draft(self.before[member])
        return draft

    def _give(self, topic: UUID, partition: int, member: int) -> None:
        for_each = -(-len(self.owners[topic]) // len(self.readers[topic]))
        self._draft(member).add(topic, (partition,), roomy(for_each))
        self.owners[topic][partition] = member
        self.loads[member] += 1

    def _take(self, topic: UUID, partition: int, member: int) -> None:
        self._draft(member).remove(topic, (partition,))
        self.owners[topic][partition] = _NOBODY
        self.loads[member] -= 1

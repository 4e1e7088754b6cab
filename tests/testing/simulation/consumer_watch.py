"""What must hold in groups of the consumer protocol, under the names of the public TLA+ models of KIP-848.

The models are Jack Vanlightly's (github.com/Vanlightly/kafka-tlaplus, consumer_group_protocol_kip_848_v2.tla).

| invariant                | what it says                                                                             |
|--------------------------|------------------------------------------------------------------------------------------|
| NoDoubleClientAssignment | no two clients that are members of the group both believe that they own a partition      |
| ValidPartitionEpoch      | what nobody has, by the group's own account, is in no member's assignment, nor in what a |
|                          | member has yet to give up; what somebody has is in that member's alone                   |
| ValidMemberEpoch         | a client in the target's epoch owns nothing that the target gives to another member      |
| LegalTargetAssignment    | a target gives each partition of the subscription to one member, and to one only         |
| EventuallyConverges      | when nothing goes wrong any more, every member gets its target (see consumer_worlds.py)  |

A client believes that it owns a partition while its epoch is positive: with -1 or 0 it has left, or has been told that
it is out. Besides, the log replayed gives the state in memory, and acknowledged commits stay, as in classic groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinatord.broker.log import replay
from coordinatord.broker.topics.names import OFFSETS_TOPIC
from coordinatord.coordination.group.consumer.state import ConsumerGroup, GroupEnvironment
from coordinatord.coordination.group.replay import replay as replay_record
from coordinatord.coordination.group.result import Dropped, Result
from coordinatord.coordination.group.state import Group
from coordinatord.coordination.runtime.log import Producer
from coordinatord.coordination.service.groups import GroupActor
from coordinatord.testing.member.result import Assigned, Lost, Revoked
from coordinatord.testing.member.send import Send
from coordinatord.testing.member.state import STABLE as CLASSIC_STABLE
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import KeyValues, Records
from kafka_wire.records.keys import decode_key, decode_value
from kafka_wire.records.offsets import OffsetCommitKey
from tests.coordination.group.consumer_world import durable
from tests.testing.simulation.invariants import Watch

if TYPE_CHECKING:
    from tests.testing.simulation.members import Consumer
    from tests.testing.simulation.nodes import Node, SimulatedDaemon

RAISED = frozenset(
    {
        # A static member that was killed comes back before its session is over.
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        # It was away while the group became a classic one, or came to an end.
        ErrorCode.GROUP_ID_NOT_FOUND,
        # The first generation of the classic group has not begun yet: Kafka's coordinator does not expect that.
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""What a poll may raise here: then the application ends, and is started again."""


class ConsumerWatch(Watch):
    """See the module."""

    # What nodes do

    def started(self, node: Node, daemon: SimulatedDaemon) -> None:
        super().started(node, daemon)
        coordinator = daemon.coordinator
        append = coordinator.log.append

        def append_checked(partition: int, records: Records, now_ms: int, producer: Producer | None = None) -> int:
            epoch = append(partition, records, now_ms, producer)
            if isinstance(records, KeyValues):
                keys = [decode_key(key) for key, _ in records.pairs if key is not None]
                for group_id in {each.group_id for each in keys if hasattr(each, "group_id")}:
                    actor = coordinator.actors.get(group_id)
                    if actor is not None:
                        self.check_group(actor.group)
            return epoch

        coordinator.log.append = append_checked  # type: ignore[method-assign]

    def _stepped(self, node: Node, actor: GroupActor, result: Result, now_ms: int) -> None:
        group = actor.group
        if group.consumer is not None and group.consumer.members:
            self.needed_ms[group.group_id] = now_ms
        for transition in result.transitions:
            if transition.new.shown == "Empty":
                self.needed_ms[group.group_id] = now_ms
            elif transition.new.shown == "Stable":
                self.rebalances += 1
            self.world.story.say(
                node.name,
                f"{group.group_id}: {transition.old.shown} → {transition.new.shown}, epoch "
                f"{transition.generation_id}: {transition.reason}",
            )
        for change in result.changes:
            if type(change) is Dropped:
                self.world.story.say(node.name, f"{group.group_id}: drops {change.member_id}: {change.cause}")

    def _taken_back(self, node: Node, key: Any) -> None:
        """Members' records have tombstones all the time; offsets only when nobody has needed the group for long."""
        if isinstance(key, OffsetCommitKey):
            super()._taken_back(node, key)

    # What must hold of a group

    def check_group(self, group: Group) -> None:
        """After each of its records, and from time to time."""
        consumer, surroundings = group.consumer, group.surroundings
        if consumer is None or surroundings is None:
            return
        self.checks += 1
        self.check_partition_epochs(group.group_id, consumer)
        self.check_target(group.group_id, consumer, surroundings)
        self.check_clients(group.group_id, consumer, surroundings)

    def check_partition_epochs(self, group_id: str, consumer: ConsumerGroup) -> None:
        """ValidPartitionEpoch."""
        for member in consumer.members.values():
            for part, what in ((member.assigned, "is assigned"), (member.revoking, "has yet to give up")):
                for topic_id, epochs in part.items():
                    for number in epochs:
                        owner = consumer.owners.get(topic_id, {}).get(number)
                        if owner != member.member_id:
                            self.fail(
                                f"ValidPartitionEpoch: {group_id}: {member.member_id} {what} partition {number}, which "
                                f"{owner or 'nobody'} has"
                            )

    def check_target(self, group_id: str, consumer: ConsumerGroup, surroundings: GroupEnvironment) -> None:
        """LegalTargetAssignment."""
        given: dict[tuple[bytes, int], str] = {}
        for member_id, target in consumer.target.items():
            for topic_id, numbers in target.items():
                for number in numbers:
                    other = given.setdefault((topic_id, number), member_id)
                    if other != member_id:
                        self.fail(
                            f"LegalTargetAssignment: {group_id}: partition {number} is given to {other} and {member_id}"
                        )
        topics = surroundings.topics
        if consumer.assignment_epoch < consumer.epoch or consumer.topics_version != topics.version:
            return  # members or topics have changed since
        if not consumer.assignment_timestamp_ms:
            return  # it is the assignment of the classic group that this one was, perhaps in the middle of a rebalance
        for name in consumer.subscribed_topics() if consumer.members else ():
            topic = topics.find(name)
            for number in range(topic.partitions if topic is not None else 0):
                assert topic is not None
                if (topic.topic_id, number) not in given:
                    self.fail(f"LegalTargetAssignment: {group_id}: {name}-{number} is given to nobody")

    def check_clients(self, group_id: str, consumer: ConsumerGroup, surroundings: GroupEnvironment) -> None:
        """ValidMemberEpoch."""
        of_others: dict[tuple[str, int], str] = {}
        for member_id, target in consumer.target.items():
            for topic_id, numbers in target.items():
                topic = surroundings.topics.find_id(topic_id)
                if topic is not None:
                    of_others.update({(topic.name, number): member_id for number in numbers})
        for who in self.world.consumers.values():
            epoch, member_id, _ = who.member.generation
            if who.group.group_id != group_id or not who.alive or epoch != consumer.assignment_epoch:
                continue
            for partition in self.held_by(who):
                other = of_others.get(partition, member_id)
                if other != member_id and member_id in consumer.members:
                    self.fail(
                        f"ValidMemberEpoch: {group_id}: {who.name} is in epoch {epoch} and owns "
                        f"{partition[0]}-{partition[1]}, which is given to {other}"
                    )

    def held_by(self, who: Consumer) -> list[tuple[str, int]]:
        """The partitions that a client believes to own."""
        return list(who.member.partitions) if self.believes(who) else []

    def believes(self, who: Consumer) -> bool:
        """Whether a client takes itself for a member. A classic one that rejoins waits to be told what it owns: if its
        group was upgraded in the middle of a rebalance, the coordinator does not know what it had before.
        """
        member = who.member
        if not who.alive or member.generation.generation_id <= 0:
            return False
        return member.membership is not None or member.state is CLASSIC_STABLE

    # What members do

    def changed(self, who: Consumer, change: Assigned | Revoked | Lost) -> None:
        group_id = who.group.group_id
        if change.partitions:
            words = {Assigned: "takes", Revoked: "gives up", Lost: "has lost"}[type(change)]
            numbers = ", ".join(str(number) for _, number in change.partitions)
            epoch = who.member.generation.generation_id
            self.world.story.say(who.name, f"{words} {numbers} (epoch {epoch})")
        actor = self.world.actor(group_id)
        group = None if actor is None else actor.group
        members = {} if group is None else group.members if group.consumer is None else group.consumer.members
        for topic, number in change.partitions:
            holders = self.owners.setdefault((group_id, topic, number), {})
            if not isinstance(change, Assigned):
                holders.pop(who, None)
                continue
            self.checks += 1
            holders[who] = who.member.generation.generation_id
            believing = [
                each for each in holders if each.member.generation.member_id in members and self.believes(each)
            ]
            # What a group that became a classic one gives, its own rules tell: a generation has one assignment.
            if len(believing) > 1 and group is not None and group.consumer is not None:
                names = " and ".join(each.name for each in believing)
                self.fail(f"NoDoubleClientAssignment: {group_id}: {topic}-{number} is owned by {names}")
        if actor is not None:
            self.check_group(actor.group)

    def poll_failed(self, who: Consumer, polled: Any) -> None:
        if polled.error in RAISED:
            self.world.story.say(who.name, f"poll raises {polled.error.name}: {polled.what}")
        else:
            super().poll_failed(who, polled)

    def _joined(self, send: Send, response: Any, life: int) -> None:
        """The leaders of classic members that are in a consumer group lead nobody."""

    def _synced(self, send: Send, response: Any, life: int) -> None:
        """The same."""

    def _assigns(self, who: Consumer, send: Send) -> None:
        """The same."""

    # From time to time

    def look(self) -> None:
        for node in self.world.machine.workers:
            daemon = node.daemon
            if daemon is None or node.stopping:
                continue
            for actor in daemon.coordinator.actors.values():
                self.check_group(actor.group)
                consumer = actor.group.consumer
                if consumer is not None and consumer.members:
                    self.needed_ms[actor.group.group_id] = node.clock()
        super().look()

    def _look_for_dead(self, node: Node, group: Group, now_ms: int) -> None:
        """Classic members of a group that has been a consumer group were heard of under other rules."""

    def _replayed(self, daemon: SimulatedDaemon, partition: int) -> dict[str, Group]:
        log = daemon.data.get(OFFSETS_TOPIC, partition)
        assert log is not None
        groups: dict[str, Group] = {}
        settings = daemon.coordinator.group_settings
        for batch in replay(log):
            for _, _, key_bytes, value_bytes in batch.records:
                key: Any = decode_key(key_bytes)
                group_id = key.group_id if hasattr(key, "group_id") else key.group
                group = groups.setdefault(group_id, Group(group_id, settings, str))
                replay_record(group, key, None if value_bytes is None else decode_value(key, value_bytes))
        return {group_id: group for group_id, group in groups.items() if group.exists}

    def _compare(self, node: Node, group_id: str, logged: Group | None, live: Group | None) -> None:
        super()._compare(node, group_id, logged, live)
        assert logged is not None
        assert live is not None
        if durable(logged) != durable(live):
            self.fail(f"{node.name}: {group_id}: the log says {logged.consumer}, memory {live.consumer}")

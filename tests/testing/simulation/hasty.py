"""What clients send that do not wait: more requests behind those that are not answered, on the same connection.

Some clients pipeline (Sarama, librdkafka), some commit from a thread that has not heard of the rebalance yet, and some
wait for something else at the worst of times: a leader that cannot assign for want of metadata, or stands still. All of
that is legal. Nothing of it may have an answer lost, another's answer, or a commit of an earlier generation taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinatord.testing.member.send import NO_GENERATION, Generation, Send
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics

if TYPE_CHECKING:
    from tests.testing.simulation.members import Consumer, MemberWire

OFTEN, RARELY = 0.3, 0.03
"""How often a member's request is followed by others before it is answered: by impatient members, and by most."""

BEHIND_MS = 30_000
"""How long an answer is waited for once the one before it is there."""


class Hasty:
    """The second thread of one consumer. Its answers are looked at by nobody but the watch."""

    def __init__(self, consumer: Consumer, life: int) -> None:
        self.consumer = consumer
        self.random = consumer.engine.chance(f"{consumer.name} {life} hasty")
        self.often = OFTEN if self.random.random() < 0.4 else RARELY
        self.sends: set[Send] = set()
        self.earlier: Generation = NO_GENERATION
        self.latest: Generation = NO_GENERATION

    def heard(self, generation: Generation) -> None:
        """The member is in this one now."""
        if generation.generation_id >= 0 and generation.member_id and generation != self.latest:
            self.earlier, self.latest = self.latest, generation

    def follow(self, wire: MemberWire, send: Send) -> None:
        """Something was asked of the coordinator: perhaps ask more, before it has answered."""
        if not self.consumer.world.is_mayhem or self.random.random() > self.often:
            return
        wait_ms = send.timeout_ms + BEHIND_MS
        for _ in range(self.random.choice((1, 2, 2, 6))):
            what = self.random.choice(
                (self._fetch, self._commit, self._commit, self._late_commit, self._heartbeat, _find)
            )
            request, generation = what() if what is not _find else (_find(), NO_GENERATION)
            if request is not None:
                more = Send(wire.cable.server.number, True, request, wait_ms, generation)  # type: ignore[attr-defined]
                self.sends.add(more)
                self.consumer.write(more, wire)

    def leads(self) -> None:
        """The member is to assign, and something comes between. Others may be removed while they wait, or it itself."""
        consumer, chance = self.consumer, self.random
        if not consumer.world.is_mayhem or chance.random() < 0.5:
            return
        if chance.random() < 0.5:
            consumer.member.metadata_wanted = True  # it has heard that what it knows is old
            consumer.metadata_stalls_ms = chance.choice((0, 2_000, 10_000, 20_000))
        else:
            consumer.pause(chance.choice((300, 3_000, consumer.group.session_ms // 2)))
        group_id = consumer.group.group_id
        if chance.random() < 0.6:
            consumer.engine.at(
                consumer.engine.now_ms + chance.choice((50, 250, 1_500)), self._remove, group_id, chance.random() < 0.5
            )

    def _remove(self, group_id: str, the_leader: bool) -> None:
        world = self.consumer.world
        actor = world.actor(group_id)
        if actor is None:
            return
        group = actor.group
        ids = [each for each in group.members if (each == group.leader_id) is the_leader]
        if ids:
            world.operator.remove(group_id, self.random.choice(ids))

    # What is asked

    def _fetch(self) -> tuple[Any, Generation]:
        group = self.consumer.group
        numbers = list(range(self.consumer.world.plan.topic_partitions))
        topics = [OffsetFetchRequestTopics(group.topic, bytes(16), numbers)]
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group.group_id, topics=topics)], require_stable=True)
        return asked, NO_GENERATION

    def _heartbeat(self) -> tuple[Any, Generation]:
        its = self.latest
        if not its.member_id:
            return None, its
        member = self.consumer.member
        return HeartbeatRequest(
            self.consumer.group.group_id, its.generation_id, its.member_id, member.settings.group_instance_id
        ), its

    def _commit(self) -> tuple[Any, Generation]:
        return self._commit_in(self.latest)

    def _late_commit(self) -> tuple[Any, Generation]:
        """It was made before the rebalance, and is sent after it."""
        return self._commit_in(self.earlier)

    def _commit_in(self, its: Generation) -> tuple[Any, Generation]:
        consumer = self.consumer
        partitions = sorted(consumer.member.partitions)
        if not its.member_id or not partitions:
            return None, its
        topic, number = self.random.choice(partitions)
        offsets = [OffsetCommitRequestPartition(number, consumer.world.next_serial())]
        return OffsetCommitRequest(
            consumer.group.group_id,
            its.generation_id,
            its.member_id,
            consumer.member.settings.group_instance_id,
            topics=[OffsetCommitRequestTopic(topic, partitions=offsets)],
        ), its


def _find() -> Any:
    return FindCoordinatorRequest(key_type=0, coordinator_keys=["somebody else's group"])


def is_for_the_leader(send: Send, response: Any) -> bool:
    """A JoinGroup answer with all members."""
    return type(send.request) is JoinGroupRequest and response is not None and bool(response.members)

"""Members of the consumer protocol, and classic ones beside them, and the group that they are in, on one virtual clock.

As world.py, with the group of tests/coordination/group/consumer_world.py. After each change of an owner it is checked
that no two members of the group hold a partition: NoDoubleClientAssignment, as the public TLA+ model of KIP-848 calls
it.
"""

from __future__ import annotations

from typing import Any

from coordinatord.coordination.group import events as group_events
from coordinatord.coordination.group.consumer.commits import fetch_refusal
from coordinatord.coordination.group.consumer.state import ConsumerState
from coordinatord.coordination.group.states import STABLE
from coordinatord.testing.member.consumer.state import MemberState
from coordinatord.testing.member.result import Assigned
from coordinatord.testing.member.send import Send
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.leave_group import LeaveGroupRequest
from kafka_wire.api.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup
from kafka_wire.api.sync_group import SyncGroupRequest
from kafka_wire.errors import ErrorCode
from tests.coordination.group import consumer_world
from tests.testing.member.world import GROUP_ID, NODE, SERVE, Consumer, World, refusal


class GroupShell(consumer_world.World):
    """The group's shell, with members at the other end of the parked requests."""

    def __init__(self, world: ConsumerWorld, **limits: Any) -> None:
        super().__init__(**limits)
        self.world = world
        self.asked = 0
        self.askers: dict[int, tuple[Consumer, Send]] = {}

    def ask(self, consumer: Consumer, send: Send, request: Any) -> None:
        self.asked += 1
        self.askers[self.asked] = (consumer, send)
        if isinstance(request, JoinGroupRequest):
            self.tell(group_events.Join.of(request, 9, self.asked, consumer.name, "/127.0.0.1"))
        else:
            self.tell(group_events.Sync.of(request, 5, self.asked))

    def tell(self, event: Any) -> Any:
        reply = super().tell(event)
        for reply_to, response in list(self.answers.items()):
            del self.answers[reply_to]
            self.world.answer(*self.askers.pop(reply_to), response)
        return reply

    def _without_memory(self, event: Any) -> Any:
        return None  # tests/coordination/group does that; here histories are long

    def check(self) -> None:
        if len(self.log) % 10 == 0:
            super().check()


class ConsumerWorld(World):
    """See the module. `topics`: name -> partitions."""

    group: Any

    def __init__(self, topics: dict[str, int], *, latency_ms: int = 1, seed: int = 0, **limits: Any) -> None:
        self.limits = limits
        super().__init__({}, latency_ms=latency_ms, seed=seed)
        self.doubles: list[str] = []
        for name, count in topics.items():
            self.put(name, count)

    def new_group(self, **settings: int) -> Any:
        return GroupShell(self, **self.limits)

    def put(self, name: str, partitions: int) -> None:
        """Make a topic, or let it grow."""
        self.topics[name] = partitions
        self.group.topics.put(name, partitions)

    def consumer(self, name: str = "c", topics: list[str] | None = None, **settings: Any) -> Consumer:
        settings.setdefault("group_protocol", "consumer")
        settings.setdefault("auto_offset_reset", "earliest")
        return super().consumer(name, topics, **settings)

    def owns(self, consumer: Consumer, change: Any) -> None:
        group = self.group.group.consumer
        for partition in change.partitions:
            if not isinstance(change, Assigned):
                if self.owners.get(partition) is consumer:
                    del self.owners[partition]
                continue
            other = self.owners.get(partition, consumer)
            if other is not consumer and group is not None:
                # One that has left since its application does not poll owns nothing; the application is told later.
                generations = [each.member.generation for each in (other, consumer)]
                if all(each.generation_id > 0 and each.member_id in group.members for each in generations):
                    self.doubles.append(f"{partition}: {other.name} and {consumer.name} at {self.now_ms}")
            self.owners[partition] = consumer

    def is_stable(self) -> bool:
        for consumer in self.consumers:
            membership = consumer.member.membership
            if consumer.alive and membership is not None and membership.state is MemberState.FATAL:
                consumer.kill()  # its poll has raised, and the application has ended
        mine = [each for each in self.consumers if each.alive and not each.member.closed]
        group = self.group.group
        if group.consumer is None:
            members, is_stable = group.members, not mine or group.state is STABLE
        else:
            members, is_stable = group.consumer.members, not mine or group.consumer.state is ConsumerState.STABLE
        owned = sorted(partition for each in mine for partition in each.owned)
        wanted = sorted(
            {(name, n) for each in mine for name in self.subscribed(each) for n in range(self.topics[name])}
        )
        are_settled = all(each.member.is_settled for each in mine) and len(members) == len(mine)
        return is_stable and are_settled and owned == wanted

    def subscribed(self, consumer: Consumer) -> set[str]:
        """The topics that it subscribes to and that exist. (Expressions of these tests match all topics.)"""
        names = self.topics if consumer.member.membership and consumer.member.membership.pattern else None
        return set(consumer.member.subscription & self.topics.keys()) if names is None else set(names)

    # The brokers

    def serve(self, consumer: Consumer, send: Send) -> None:
        request = send.request
        error = self.coordinator_error
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            if error:
                response = ConsumerGroupHeartbeatResponse(error_code=error)
            else:
                response = self.group.tell(group_events.ConsumerHeartbeat(request, consumer.name, "/127.0.0.1"))
            self.answer(consumer, send, response)
        elif send.group and error:
            self.answer(consumer, send, refusal(request, error))
        elif isinstance(request, (JoinGroupRequest, SyncGroupRequest)):
            self.group.ask(consumer, send, request)
        elif isinstance(request, HeartbeatRequest):
            self.answer(consumer, send, self.group.tell(request))
        elif isinstance(request, LeaveGroupRequest):
            self.answer(consumer, send, self.group.tell(group_events.Leave.of(request, 5)))
        elif isinstance(request, OffsetCommitRequest):
            self.answer(consumer, send, self.group.tell(group_events.Commit.of(request, 9)))
        elif isinstance(request, OffsetFetchRequest):
            self.answer(consumer, send, *self.fetch_offsets(request))
        elif isinstance(request, MetadataRequest):
            self.answer(consumer, send, *self.metadata(request))
        else:
            self.answer(consumer, send, *SERVE[type(request)](self, request))

    def fetch_offsets(self, request: OffsetFetchRequest) -> tuple[Any]:
        asked = request.groups[0]
        group = self.group.group.consumer
        if group is not None:
            error = fetch_refusal(group, asked.member_id, asked.member_epoch)
            if error is not None:
                return (OffsetFetchResponse(groups=[OffsetFetchResponseGroup(GROUP_ID, [], error)]),)
        return super().fetch_offsets(request)

    def metadata(self, request: MetadataRequest) -> tuple[Any]:
        topics = []
        for asked in request.topics or []:
            topic = self.group.topics.find(asked.name) if asked.name else self.group.topics.find_id(asked.topic_id)
            if topic is None:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if asked.name else ErrorCode.UNKNOWN_TOPIC_ID
                topics.append(MetadataResponseTopic(error, asked.name, asked.topic_id))
                continue
            partitions = [MetadataResponsePartition(0, n, NODE, 0, [NODE], [NODE]) for n in range(topic.partitions)]
            topics.append(MetadataResponseTopic(0, topic.name, topic.topic_id, partitions=partitions))
        return (MetadataResponse(brokers=[MetadataResponseBroker(NODE, "localhost", 9092)], topics=topics),)


def states_of(consumer: Consumer) -> list[MemberState]:
    """The states that it went through."""
    return [MemberState(each.new) for each in consumer.transitions]

"""Members and the group that they are in, on one virtual clock: both halves pure, and a network between them.

The group is the one of coordinatord.coordination.group with the shell of tests/coordination/group, which checks it
after each step; topics are a few lines of their own. Latency is the same for every message. `World.run` lets time pass;
whatever is decided at one moment is decided in the order in which it was asked for, so a world is the same every time.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

from coordinatord.coordination.group import events as group_events
from coordinatord.coordination.group.classic.step import step as group_step
from coordinatord.coordination.group.states import STABLE as GROUP_STABLE
from coordinatord.testing.member.assignors.java_hash import TopicPartition
from coordinatord.testing.member.events import Failed, Poll, Received, Subscribe, Woken
from coordinatord.testing.member.result import Assigned, Polled, Result, Transition
from coordinatord.testing.member.send import Send
from coordinatord.testing.member.state import STABLE, Member, MemberSettings
from coordinatord.testing.member.step import step
from coordinatord.testing.member.timer import NEVER
from kafka_wire.api.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafka_wire.api.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kafka_wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_wire.api.leave_group import LeaveGroupRequest
from kafka_wire.api.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafka_wire.api.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kafka_wire.api.sync_group import SyncGroupRequest
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import build_batch
from tests.coordination.group.world import GROUP_ID
from tests.coordination.group.world import World as GroupWorld

NODE = 1
MAX_EVENTS_AT_ONCE = 1_000
TOPIC_ID = bytes(15)


class Consumer:
    """An application with a member: it polls, works on what it got for a while, and polls again."""

    def __init__(self, world: World, name: str, topics: list[str], **settings: Any) -> None:
        self.world = world
        self.name = name
        self.work_ms = 0
        self.poll_timeout_ms = 1_000
        self.polls = True
        self.alive = True
        self.cut = False  # nothing gets through, either way
        self.wakes_at_ms = NEVER
        self.records: list[tuple[TopicPartition, int]] = []
        self.polled: list[Polled] = []
        self.changes: list[Any] = []
        self.committed: list[Any] = []
        self.transitions: list[Transition] = []
        self.sent: list[Any] = []  # requests
        self.closed_at_ms: int | None = None
        self.member = Member(MemberSettings(GROUP_ID, **settings), world.random.random)
        self.tell(Subscribe(topics))
        world.at(world.now_ms, self.poll)

    def poll(self) -> None:
        member = self.member
        if not self.alive or not self.polls or member.in_poll or member.closing is not None or member.closed:
            return
        if member.sync_commit is not None:
            self.world.at(self.world.now_ms + 10, self.poll)  # one call at a time
        else:
            self.tell(Poll(self.poll_timeout_ms))

    def tell(self, event: Any) -> Result:
        result = step(self.member, event, self.world.now_ms)
        self.heard(result)
        self.transitions += result.transitions
        self.committed += result.committed
        self.changes += result.changes
        for change in result.changes:
            self.world.owns(self, change)
        for send in result.sends:
            self.sent.append(send.request)
            self.world.send(self, send)
        if result.polled is not None:
            self.polled.append(result.polled)
            for partition, records in result.polled.records.items():
                self.records += [(partition, record.offset) for record in records]
            self.world.at(self.world.now_ms + max(1, self.work_ms), self.poll)
        if result.closed:
            self.closed_at_ms = self.world.now_ms
        deadline_ms = self.member.next_deadline_ms
        if deadline_ms < NEVER and deadline_ms != self.wakes_at_ms:
            self.wakes_at_ms = deadline_ms
            self.world.at(max(deadline_ms, self.world.now_ms), self.wake)
        return result

    def heard(self, result: Result) -> None:
        """What a step has come to, before anything follows from it."""

    def wake(self) -> None:
        if self.alive and self.world.now_ms >= self.member.next_deadline_ms:
            self.wakes_at_ms = NEVER
            self.tell(Woken())

    def kill(self) -> None:
        """The process ends: no message leaves it any more."""
        self.alive = False
        self.world.owners = {each: owner for each, owner in self.world.owners.items() if owner is not self}

    def apis(self) -> list[str]:
        """Names of the requests sent, repetitions left out."""
        names = [type(request).__name__.removesuffix("Request") for request in self.sent]
        return [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]

    @property
    def owned(self) -> set[TopicPartition]:
        return set(self.member.assignment)


class World:
    """See the module."""

    consumer_type = Consumer

    def __init__(self, topics: dict[str, int], *, latency_ms: int = 1, seed: int = 0, **settings: int) -> None:
        settings.setdefault("initial_rebalance_delay_ms", 0)
        self.group = self.new_group(**settings)
        self.now_ms = self.group.now_ms
        self.latency_ms = latency_ms
        self.random = random.Random(seed)
        self.topics = topics
        self.written: dict[TopicPartition, int] = {}  # log end offsets
        self.coordinator_error = ErrorCode.NONE  # what it answers instead
        self.queue: list[tuple[int, int, Callable[[], None]]] = []
        self.order = 0
        self.events = 0  # since time went on
        self.unanswered: set[Send] = set()
        self.consumers: list[Consumer] = []
        self.owners: dict[TopicPartition, Consumer] = {}
        self.overlaps: list[TopicPartition] = []  # given to a second owner of one generation

    def new_group(self, **settings: int) -> GroupShell:
        return GroupShell(self, **settings)

    def consumer(self, name: str = "c", topics: list[str] | None = None, **settings: Any) -> Consumer:
        made = self.consumer_type(self, name, list(self.topics) if topics is None else topics, **settings)
        self.consumers.append(made)
        return made

    def owns(self, consumer: Consumer, change: Any) -> None:
        for partition in change.partitions:
            if isinstance(change, Assigned):
                other = self.owners.get(partition, consumer)
                same_generation = other.member.generation.generation_id == consumer.member.generation.generation_id
                # One that was expelled and does not know it yet is of an earlier generation: nobody can help that.
                if other is not consumer and same_generation:
                    self.overlaps.append(partition)
                self.owners[partition] = consumer
            elif self.owners.get(partition) is consumer:
                del self.owners[partition]

    # Time

    def at(self, when_ms: int, what: Callable[[], None]) -> None:
        self.order += 1
        heapq.heappush(self.queue, (when_ms, self.order, what))

    def run(self, for_ms: int) -> None:
        end_ms = self.now_ms + for_ms
        while True:
            of_group_ms = self.group.wheel.next_deadline_ms()
            next_ms = min(self.queue[0][0] if self.queue else NEVER, NEVER if of_group_ms is None else of_group_ms)
            if next_ms > end_ms:
                break
            if next_ms > self.now_ms:
                self.events = 0
            self.now_ms = max(self.now_ms, next_ms)
            if self.now_ms > self.group.now_ms or of_group_ms == next_ms:
                self.group.advance(self.now_ms - self.group.now_ms)
            while self.queue and self.queue[0][0] <= self.now_ms:
                self.events += 1
                assert self.events < MAX_EVENTS_AT_ONCE, "time stands still: one thing leads to the other without end"
                heapq.heappop(self.queue)[2]()
        self.now_ms = end_ms
        self.group.advance(end_ms - self.group.now_ms)

    def run_until_stable(self, limit_ms: int = 600_000) -> None:
        """Until every live consumer that polls is a member of one generation, and none wants to rejoin."""
        end_ms = self.now_ms + limit_ms
        while not self.is_stable():
            assert self.now_ms < end_ms, "the group does not become stable"
            self.run(100)

    def is_stable(self) -> bool:
        members = [each.member for each in self.consumers if each.alive and not each.member.closed]
        generation = self.group.group.generation_id
        return (
            all(
                each.state is STABLE
                and each.generation.generation_id == generation
                and not each.rejoin_needed
                and each.join is None
                for each in members
            )
            and len(self.group.group.members) == len(members)
            and (not members or self.group.group.state is GROUP_STABLE)
        )

    # The network

    def send(self, consumer: Consumer, send: Send) -> None:
        def arrive() -> None:
            if consumer.alive and not consumer.cut:
                self.serve(consumer, send)

        def expire() -> None:
            if consumer.alive and send in self.unanswered:
                self.unanswered.discard(send)
                consumer.tell(Failed(send))

        self.unanswered.add(send)
        self.at(self.now_ms + self.latency_ms, arrive)
        self.at(self.now_ms + send.timeout_ms, expire)

    def answer(self, consumer: Consumer, send: Send, response: Any, after_ms: int = 0) -> None:
        def arrive() -> None:
            if consumer.alive and not consumer.cut and send in self.unanswered:
                self.unanswered.discard(send)
                consumer.tell(Received(send, response))

        self.at(self.now_ms + self.latency_ms + after_ms, arrive)

    # The brokers

    def serve(self, consumer: Consumer, send: Send) -> None:
        request = send.request
        if send.group and self.coordinator_error:
            self.answer(consumer, send, refusal(request, self.coordinator_error))
            return
        if isinstance(request, (JoinGroupRequest, SyncGroupRequest)):
            self.group.ask(consumer, send, request)
            return
        self.answer(consumer, send, *SERVE[type(request)](self, request))

    def find_coordinator(self, request: FindCoordinatorRequest) -> tuple[Any]:
        answer = Coordinator(request.key, NODE, "localhost", 9092, self.coordinator_error)
        return (FindCoordinatorResponse(coordinators=[answer]),)

    def heartbeat(self, request: HeartbeatRequest) -> tuple[Any]:
        return (group_step(self.group.group, request, self.now_ms).reply,)

    def leave(self, request: LeaveGroupRequest) -> tuple[Any]:
        return (self.group.tell(group_events.Leave.of(request, 5)).reply,)

    def commit(self, request: OffsetCommitRequest) -> tuple[Any]:
        return (self.group.tell(group_events.Commit.of(request, 9)).reply,)

    def fetch_offsets(self, request: OffsetFetchRequest) -> tuple[Any]:
        topics = []
        for topic in request.groups[0].topics or []:
            known = self.group.group.offsets.get(topic.name, {})
            topics.append(
                OffsetFetchResponseTopics(
                    topic.name,
                    partitions=[
                        OffsetFetchResponsePartitions(
                            number, known[number].offset if number in known else -1, metadata=""
                        )
                        for number in topic.partition_indexes
                    ],
                )
            )
        return (OffsetFetchResponse(groups=[OffsetFetchResponseGroup(GROUP_ID, topics)]),)

    def list_offsets(self, request: ListOffsetsRequest) -> tuple[Any]:
        topics = []
        for topic in request.topics:
            answers = [
                ListOffsetsPartitionResponse(
                    each.partition_index,
                    offset=0 if each.timestamp == -2 else self.written.get((topic.name, each.partition_index), 0),
                )
                for each in topic.partitions
            ]
            topics.append(ListOffsetsTopicResponse(topic.name, answers))
        return (ListOffsetsResponse(topics=topics),)

    def metadata(self, request: MetadataRequest) -> tuple[Any]:
        topics = []
        for asked in request.topics or []:
            name = asked.name or ""
            count = self.topics.get(name)
            if count is None:
                topics.append(MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name))
                continue
            partitions = [MetadataResponsePartition(0, n, NODE, 0, [NODE], [NODE]) for n in range(count)]
            topics.append(MetadataResponseTopic(0, name, name.encode()[-1:] + TOPIC_ID, partitions=partitions))
        return (MetadataResponse(brokers=[MetadataResponseBroker(NODE, "localhost", 9092)], topics=topics),)

    def fetch(self, request: FetchRequest) -> tuple[Any, int]:
        """Up to ten records of each partition at once; with nothing there the answer comes after max_wait_ms."""
        responses = []
        for topic in request.topics:
            of_topic = FetchableTopicResponse(topic.topic)
            for each in topic.partitions:
                end = self.written.get((topic.topic, each.partition), 0)
                data = PartitionData(each.partition, 0, end, records=None)
                if each.fetch_offset > end:
                    data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
                elif each.fetch_offset < end:
                    count = min(10, end - each.fetch_offset)
                    data.records = bytes(build_batch([(None, b"v")] * count, 0, each.fetch_offset))
                if data.error_code or data.records:
                    of_topic.partitions.append(data)
            if of_topic.partitions:
                responses.append(of_topic)
        return FetchResponse(responses=responses), 0 if responses else request.max_wait_ms


SERVE: dict[type[Any], Callable[[World, Any], tuple[Any, ...]]] = {
    FindCoordinatorRequest: World.find_coordinator,
    HeartbeatRequest: World.heartbeat,
    LeaveGroupRequest: World.leave,
    OffsetCommitRequest: World.commit,
    OffsetFetchRequest: World.fetch_offsets,
    ListOffsetsRequest: World.list_offsets,
    MetadataRequest: World.metadata,
    FetchRequest: World.fetch,
}


def refusal(request: Any, error: ErrorCode) -> Any:
    """How a node answers that does not coordinate the group."""
    if isinstance(request, JoinGroupRequest):
        return JoinGroupResponse(error_code=error, protocol_name=None)
    if isinstance(request, OffsetFetchRequest):
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(GROUP_ID, error_code=error)])
    if isinstance(request, HeartbeatRequest):
        return HeartbeatResponse(error_code=error)
    module = __import__(type(request).__module__, fromlist=["_"])
    response = getattr(module, type(request).__name__.removesuffix("Request") + "Response")
    if isinstance(request, OffsetCommitRequest):
        topics = [
            module.OffsetCommitResponseTopic(
                topic.name,
                partitions=[
                    module.OffsetCommitResponsePartition(each.partition_index, error) for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return response(topics=topics)
    return response(error_code=error)


class GroupShell(GroupWorld):
    """The group's shell, with members at the other end of the parked requests."""

    def __init__(self, world: World, **settings: int) -> None:
        super().__init__(**settings)
        self.world = world
        self.askers: dict[int, tuple[Consumer, Send]] = {}

    def ask(self, consumer: Consumer, send: Send, request: Any) -> None:
        reply_to = self.reply_to()
        self.askers[reply_to] = (consumer, send)
        if isinstance(request, JoinGroupRequest):
            self.tell(group_events.Join.of(request, 9, reply_to, consumer.name, "/127.0.0.1"))
        else:
            self.tell(group_events.Sync.of(request, 5, reply_to))

    def answer(self, reply_to: Any, response: Any) -> None:
        super().answer(reply_to, response)
        consumer, send = self.askers.pop(reply_to)
        self.world.answer(consumer, send, response)

"""One member on the bench: the test plays coordinator and network, message by message, on a clock of its own."""

from __future__ import annotations

from typing import Any

from coordinatord.testing.member.assignors.java_hash import TopicPartition
from coordinatord.testing.member.events import Failed, Poll, Received, Subscribe, Woken
from coordinatord.testing.member.result import Polled, Result
from coordinatord.testing.member.send import Send
from coordinatord.testing.member.state import (
    COMPLETING_REBALANCE,
    PREPARING_REBALANCE,
    STABLE,
    Member,
    MemberSettings,
)
from coordinatord.testing.member.step import step
from coordinatord.testing.member.subscription import encode_assignment
from kafka_wire.api.fetch import FetchRequest
from kafka_wire.api.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kafka_wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
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
from kafka_wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafka_wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_wire.errors import ErrorCode

NODE = 7
GENERATION = 5
MEMBER_ID = "c-1"


def metadata(topics: dict[str, int], nodes: int = 1, leader: int = NODE) -> MetadataResponse:
    """Partition n of a topic is led by node `leader` + n % nodes."""
    return MetadataResponse(
        brokers=[MetadataResponseBroker(leader + n, "localhost", 9092 + n) for n in range(nodes)],
        topics=[
            MetadataResponseTopic(
                0, name, partitions=[MetadataResponsePartition(0, n, leader + n % nodes, 3) for n in range(count)]
            )
            for name, count in topics.items()
        ],
    )


class Lab:
    """`tell` events, look at `sent` (not yet answered), answer with `answer`."""

    def __init__(self, topics: dict[str, int] | None = None, nodes: int = 1, **settings: Any) -> None:
        self.now_ms = 1_000_000
        self.topics = {"t": 2} if topics is None else topics
        self.nodes = nodes
        self.sent: list[Send] = []
        self.result = Result()
        self.polled: list[Polled] = []
        self.changes: list[Any] = []
        self.committed: list[Any] = []
        self.disconnects = 0
        settings.setdefault("enable_auto_commit", False)
        self.member = Member(MemberSettings("g", **settings), lambda: 0.5)
        self.tell(Subscribe(self.topics))

    def tell(self, event: Any) -> Result:
        self.result = result = step(self.member, event, self.now_ms)
        self.sent = [send for send in self.sent if not send.abandoned] + result.sends
        self.changes += result.changes
        self.committed += result.committed
        self.disconnects += result.disconnect
        if result.polled is not None:
            self.polled.append(result.polled)
        return result

    def poll(self, timeout_ms: int = 0) -> Polled | None:
        """What the poll returned, if it did."""
        before = len(self.polled)
        self.tell(Poll(timeout_ms))
        return self.polled[-1] if len(self.polled) > before else None

    def advance(self, by_ms: int) -> None:
        """Let time pass, and wake the member whenever it wants to be woken."""
        end_ms = self.now_ms + by_ms
        for _ in range(1_000):
            deadline_ms = self.member.next_deadline_ms
            if deadline_ms > end_ms:
                self.now_ms = end_ms
                return
            self.now_ms = max(self.now_ms, deadline_ms)
            self.tell(Woken())
        raise AssertionError("the member wants to be woken again and again")

    def waiting(self, kind: type[Any]) -> list[Send]:
        return [send for send in self.sent if type(send.request) is kind]

    def take(self, kind: type[Any]) -> Send:
        """The one request of this kind that waits for its answer."""
        [send] = self.waiting(kind)
        self.sent.remove(send)
        return send

    def answer(self, kind: type[Any], response: Any) -> Result:
        return self.tell(Received(self.take(kind), response))

    def lose(self, kind: type[Any]) -> Result:
        return self.tell(Failed(self.take(kind)))

    def names(self) -> list[str]:
        """What waits for an answer."""
        return [type(send.request).__name__.removesuffix("Request") for send in self.sent]

    # The usual answers

    def find(self, error: ErrorCode = ErrorCode.NONE) -> Result:
        answer = Coordinator("g", NODE, "localhost", 9092, error)
        return self.answer(FindCoordinatorRequest, FindCoordinatorResponse(coordinators=[answer]))

    def know(self) -> Result:
        return self.answer(MetadataRequest, metadata(self.topics, self.nodes))

    def join(
        self, error: ErrorCode = ErrorCode.NONE, *, generation: int = GENERATION, leads: bool = False, **fields: Any
    ) -> Result:
        request = self.waiting(JoinGroupRequest)[0].request
        if error:
            return self.answer(
                JoinGroupRequest, JoinGroupResponse(error_code=error, member_id=fields.pop("member_id", ""))
            )
        name, own = request.protocols[0].name, request.protocols[0].metadata
        fields.setdefault("members", [JoinGroupResponseMember(MEMBER_ID, None, own)] if leads else [])
        leader = MEMBER_ID if leads else "other"
        response = JoinGroupResponse(0, 0, generation, "consumer", name, leader, member_id=MEMBER_ID, **fields)
        return self.answer(JoinGroupRequest, response)

    def sync(self, *partitions: TopicPartition, error: ErrorCode = ErrorCode.NONE) -> Result:
        name = self.member.generation.protocol_name
        response = SyncGroupResponse(0, error, "consumer", name, encode_assignment(partitions))
        return self.answer(SyncGroupRequest, response)

    def heartbeat(self, error: ErrorCode = ErrorCode.NONE) -> Result:
        return self.answer(HeartbeatRequest, HeartbeatResponse(0, error))

    def committed_offsets(self, offset: int = -1, error: ErrorCode = ErrorCode.NONE) -> Result:
        send = self.take(OffsetFetchRequest)
        topics = [
            OffsetFetchResponseTopics(
                topic.name,
                partitions=[
                    OffsetFetchResponsePartitions(n, offset, metadata="", error_code=error)
                    for n in topic.partition_indexes
                ],
            )
            for topic in send.request.groups[0].topics
        ]
        return self.tell(Received(send, OffsetFetchResponse(groups=[OffsetFetchResponseGroup("g", topics)])))

    def list_offsets(self, offset: int, error: ErrorCode = ErrorCode.NONE) -> Result:
        send = self.take(ListOffsetsRequest)
        topics = [
            ListOffsetsTopicResponse(
                topic.name,
                [ListOffsetsPartitionResponse(n.partition_index, error, offset=offset) for n in topic.partitions],
            )
            for topic in send.request.topics
        ]
        return self.tell(Received(send, ListOffsetsResponse(topics=topics)))

    def commit(self, error: ErrorCode = ErrorCode.NONE) -> Result:
        send = self.take(OffsetCommitRequest)
        topics = [
            OffsetCommitResponseTopic(
                topic.name,
                partitions=[OffsetCommitResponsePartition(n.partition_index, error) for n in topic.partitions],
            )
            for topic in send.request.topics
        ]
        return self.tell(Received(send, OffsetCommitResponse(topics=topics)))

    # States to begin in

    def unjoined(self) -> Lab:
        """Knows the cluster and its coordinator, has not joined; within no call."""
        self.poll(10**9)
        self.know()
        self.find()
        if not self.member.settings.single_threaded:
            self.end_poll()
        assert self.names() == ["JoinGroup"]
        return self

    def preparing(self) -> Lab:
        self.unjoined()
        assert self.member.state is PREPARING_REBALANCE
        return self

    def completing(self, **fields: Any) -> Lab:
        """Within a poll, waiting for SyncGroup."""
        self.preparing()
        if not self.member.in_poll:
            self.poll(10**9)
        self.join(**fields)
        assert self.member.state is COMPLETING_REBALANCE
        return self

    def stable(self, *partitions: TopicPartition) -> Lab:
        """Owns the partitions (two unless given), knows no positions; within no call."""
        self.completing()
        self.sync(*(partitions or (("t", 0), ("t", 1))))
        assert self.member.state is STABLE
        if self.member.settings.fetches:
            self.committed_offsets(10)
            for send in self.waiting(FetchRequest):
                self.sent.remove(send)
                self.tell(Failed(send))
        self.end_poll()
        assert not self.sent
        return self

    def end_poll(self) -> None:
        """The poll under way returns empty-handed."""
        assert self.member.in_poll
        self.member.poll_until_ms = self.now_ms
        self.tell(Woken())
        assert not self.member.in_poll
        self.member.metadata_wanted = False

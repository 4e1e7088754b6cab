"""One member of the consumer protocol on the bench: as lab.py, with a test that plays the coordinator."""

from __future__ import annotations

from typing import Any

from coordinatord.testing.member.assignors.java_hash import TopicPartition
from coordinatord.testing.member.consumer.state import (
    ACKNOWLEDGING,
    FATAL,
    FENCED,
    JOINING,
    RECONCILING,
    STABLE,
    STALE,
    UNSUBSCRIBED,
    Membership,
    MemberState,
)
from coordinatord.testing.member.events import Subscribe
from coordinatord.testing.member.result import Result
from kafka_wire.api.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_wire.api.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafka_wire.errors import ErrorCode
from tests.testing.member.lab import NODE, Lab

INTERVAL_MS = 5_000
MAX_POLL_MS = 60_000
EPOCH = 5


def topic_id(name: str) -> bytes:
    return name.encode().rjust(16, b"\0")


class ConsumerLab(Lab):
    """`heartbeat` answers the one that waits; `owns` brings the member to STABLE."""

    def __init__(self, topics: dict[str, int] | None = None, *, pattern: str | None = None, **settings: Any) -> None:
        settings.setdefault("group_protocol", "consumer")
        settings.setdefault("max_poll_interval_ms", MAX_POLL_MS)
        settings.setdefault("fetches", False)
        super().__init__(topics, **settings)
        if pattern is not None:
            self.tell(Subscribe((), pattern))

    @property
    def membership(self) -> Membership:
        assert self.member.membership is not None
        return self.member.membership

    @property
    def state(self) -> MemberState:
        return self.membership.state

    @property
    def request(self) -> ConsumerGroupHeartbeatRequest:
        """The heartbeat that waits for its response."""
        [send] = self.waiting(ConsumerGroupHeartbeatRequest)
        found: ConsumerGroupHeartbeatRequest = send.request
        return found

    def know(self) -> Result:
        topics = [
            MetadataResponseTopic(
                0, name, topic_id(name), partitions=[MetadataResponsePartition(0, n, NODE, 3) for n in range(count)]
            )
            for name, count in self.topics.items()
        ]
        return self.answer(
            MetadataRequest, MetadataResponse(brokers=[MetadataResponseBroker(NODE, "localhost", 9092)], topics=topics)
        )

    def respond(
        self, *partitions: TopicPartition, epoch: int = EPOCH, error: ErrorCode = ErrorCode.NONE, told: bool = True
    ) -> Result:
        """Answer the heartbeat. `told`: with an assignment."""
        if error:
            response = ConsumerGroupHeartbeatResponse(0, error, "the coordinator's message")
            return self.answer(ConsumerGroupHeartbeatRequest, response)
        response = ConsumerGroupHeartbeatResponse(
            member_id=self.membership.member_id, member_epoch=epoch, heartbeat_interval_ms=INTERVAL_MS
        )
        if told:
            numbers: dict[bytes, list[int]] = {}
            for name, number in partitions:
                numbers.setdefault(topic_id(name), []).append(number)
            response.assignment = Assignment([TopicPartitions(*each) for each in numbers.items()])
        return self.answer(ConsumerGroupHeartbeatRequest, response)

    def short_poll(self) -> None:
        """A poll that returns at once."""
        self.poll(0)
        assert not self.member.in_poll

    # States to begin in; none is within a call

    def joining(self) -> ConsumerLab:
        self.short_poll()
        self.know()
        self.find()
        assert self.state is JOINING
        return self

    def reconciling(self) -> ConsumerLab:
        """Is told t-0 and t-1."""
        self.joining()
        self.respond(("t", 0), ("t", 1))
        assert self.state is RECONCILING
        return self

    def stable(self, *_: TopicPartition) -> ConsumerLab:
        """Owns t-0 and t-1."""
        self.reconciling()
        self.short_poll()
        self.respond(told=False)
        assert self.state is STABLE
        assert not self.sent
        return self

    def acknowledging(self) -> ConsumerLab:
        """Has given up t-1 and must say so, but waits for the response to the heartbeat before."""
        self.stable()
        self.advance(INTERVAL_MS)
        self.respond(("t", 0))
        assert self.state is RECONCILING
        self.advance(INTERVAL_MS)
        self.short_poll()
        assert self.state is ACKNOWLEDGING
        return self

    def fenced(self) -> ConsumerLab:
        """Owns t-0 and t-1 until it polls."""
        self.stable()
        self.advance(INTERVAL_MS)
        self.respond(error=ErrorCode.FENCED_MEMBER_EPOCH)
        assert self.state is FENCED
        return self

    def stale(self) -> ConsumerLab:
        self.stable()
        for _ in range(MAX_POLL_MS // INTERVAL_MS):
            self.advance(INTERVAL_MS)
            if self.state is STABLE:
                self.respond(told=False)
        assert self.state is STALE
        self.sent.clear()
        return self

    def fatal(self) -> ConsumerLab:
        self.stable()
        self.advance(INTERVAL_MS)
        self.respond(error=ErrorCode.GROUP_MAX_SIZE_REACHED)
        assert self.state is FATAL
        return self

    def unsubscribed(self) -> ConsumerLab:
        self.stable()
        self.tell(Subscribe(()))
        assert self.state is UNSUBSCRIBED
        self.sent.clear()
        return self

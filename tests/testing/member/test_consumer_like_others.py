"""The same stories with Kafka's Java client, with librdkafka, and with our member: the same heartbeats in order.

tests/golden/consumer_protocol has what those clients and Apache Kafka said (tests/clients/record_consumer_protocol.py).
Our member gets the recorded responses, one after the other, and must say what the recorded client said.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coordinatord.testing.member.events import Close, Received
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kafka_wire.api.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.headers import read_request_header
from kafka_wire.registry import codec
from tests.testing.member.consumer_lab import ConsumerLab
from tests.testing.member.lab import NODE

GOLDEN = Path(__file__).parents[2] / "golden" / "consumer_protocol"
CLIENTS = ("java", "librdkafka")
KEY = 68
PARTITIONS = 4
BACK_OFF_MS = 100
"""Before the first response, when the coordinator was still loading."""

Exchange = tuple[ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse | None]


def recorded(client: str) -> dict[tuple[str, str], list[Exchange]]:
    """By story and member."""
    found: dict[tuple[str, str], list[Exchange]] = {}
    for line in (GOLDEN / f"{client}.jsonl").read_text().splitlines()[1:]:
        said = json.loads(line)
        data = bytes.fromhex(said["request"])
        used = codec(KEY, int.from_bytes(data[2:4], "big"))
        _, start = read_request_header(data, 0, len(data), used.flexible)
        request = used.decode_request(data, start, len(data))
        response = None
        if "response" in said:
            data = bytes.fromhex(said["response"])
            response = used.decode_response(data, 5 if used.response_header_flexible else 4, len(data))
        found.setdefault((said["story"], said["member"]), []).append((request, response))
    return found


def told(
    request: ConsumerGroupHeartbeatRequest, member_ids: dict[str, str], client: str
) -> ConsumerGroupHeartbeatRequest:
    """What a request says, without what is the client's own choice: its id, and the order of lists.

    Java says the same as we do. librdkafka says an empty expression where there is none, its instance id only when it
    joins and leaves, nothing more when it leaves, and all again when it acknowledges that it owns nothing.
    """
    parts = request.topic_partitions
    request = replace(
        request,
        member_id=member_ids.setdefault(request.member_id, f"member {len(member_ids)}"),
        topic_partitions=None if parts is None else sorted(parts, key=lambda each: each.topic_id),
    )
    if client != "librdkafka":
        return request
    request.subscribed_topic_regex = request.subscribed_topic_regex or None
    if request.member_epoch > 0:
        request.instance_id = None
    if request.member_epoch > 0 and not parts and parts is not None:
        request.rebalance_timeout_ms, request.subscribed_topic_names, request.server_assignor = -1, None, None
    if request.member_epoch < 0:
        request.topic_partitions = request.subscribed_topic_names = None
    return request


class Twin(ConsumerLab):
    """Our member in the place of a recorded one."""

    def __init__(self, exchanges: list[Exchange]) -> None:
        self.exchanges = exchanges
        first = exchanges[0][0]
        ids = {
            each.topic_id
            for _, response in exchanges
            if response is not None and response.assignment is not None
            for each in response.assignment.topic_partitions
        }
        [self.topic] = first.subscribed_topic_names or [""]
        self.topic_id = ids.pop() if ids else bytes(16)
        super().__init__(
            {self.topic: PARTITIONS},
            group_instance_id=first.instance_id,
            group_remote_assignor=first.server_assignor,
            max_poll_interval_ms=first.rebalance_timeout_ms,
            enable_auto_commit=True,
            auto_commit_interval_ms=10**8,
        )
        settings = self.member.settings
        self.member.settings = replace(settings, group_id=first.group_id)

    def know(self) -> Any:
        partitions = [MetadataResponsePartition(0, n, NODE, 3) for n in range(PARTITIONS)]
        topics = [MetadataResponseTopic(0, self.topic, self.topic_id, partitions=partitions)]
        brokers = [MetadataResponseBroker(NODE, "localhost", 9092)]
        return self.answer(MetadataRequest, MetadataResponse(brokers=brokers, topics=topics))

    def say(self) -> Iterator[ConsumerGroupHeartbeatRequest]:
        """Our heartbeats, each before the recorded response to it is given."""
        self.short_poll()
        self.know()
        self.find()
        for request, response in self.exchanges:
            if request.member_epoch < 0:
                self.tell(Close())
                if self.waiting(OffsetCommitRequest):
                    self.commit()
            if not self.waiting(ConsumerGroupHeartbeatRequest):
                self.advance(self.membership.interval_ms or BACK_OFF_MS)
            yield self.request
            if response is None:
                return
            self.tell(Received(self.take(ConsumerGroupHeartbeatRequest), response))
            if not self.member.closed:
                self.short_poll()
            for state in self.member.partitions.values():
                state.position = 0
            for _ in self.waiting(OffsetCommitRequest):
                self.commit()
                self.short_poll()


def cases() -> list[Any]:
    return [
        pytest.param(client, story, member, id=f"{client}-{story}-{member}")
        for client in CLIENTS
        for story, member in recorded(client)
    ]


@pytest.mark.parametrize(("client", "story", "member"), cases())
def test_the_same_heartbeats(client: str, story: str, member: str) -> None:
    exchanges = recorded(client)[story, member]
    theirs: dict[str, str] = {}
    ours: dict[str, str] = {}
    expected = [told(request, theirs, client) for request, _ in exchanges]
    assert [told(request, ours, client) for request in Twin(exchanges).say()] == expected

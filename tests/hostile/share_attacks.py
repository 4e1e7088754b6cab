"""Attacks with the requests of share groups: imported by attacks.py, which runs them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from kafka_wire.api import share_acknowledge, share_fetch
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import build_batch
from kafka_wire.schema import ZERO_UUID
from tests.hostile.turns import Peer

GROUP_RESOURCE = 32
SHARED = {
    "group.coordinator.rebalance.protocols": "classic,consumer,share",
    "group.share.partition.max.record.locks": "4000",
}
"""Settings of the daemon."""

NONE, INVALID = ErrorCode.NONE, ErrorCode.INVALID_REQUEST
ACCEPT = 1
MAX_EPOCH = 0x7FFF_FFFF


class ShareMember:
    """A member that has a share session for all partitions of a topic."""

    def __init__(self, port: int, group: str, member: str, topic: str, partitions: int = 1) -> None:
        self.peer = Peer(port)
        topic, group = f"{topic}-{os.getpid()}", f"{group}-{os.getpid()}"  # an attack may come again
        self.group, self.member = group, member
        self.peer.ask(CreateTopicsRequest([CreatableTopic(topic, partitions, 1)], timeout_ms=10_000), 5)
        earliest = [AlterableConfig("share.auto.offset.reset", 0, "earliest")]
        changes = [AlterConfigsResource(GROUP_RESOURCE, group, earliest)]
        self.peer.ask(IncrementalAlterConfigsRequest(changes), 1)
        (found,) = self.peer.ask(MetadataRequest([MetadataRequestTopic(name=topic)]), 12).topics
        self.topic, self.topic_id, self.partitions = topic, found.topic_id, partitions
        self.epoch = 0
        self.peer.ask(ShareGroupHeartbeatRequest(group, member, 0, None, [topic]), 1)

    def put(self, count: int, index: int = 0) -> None:
        """Append records to a partition, in batches of 1,000."""
        batch = build_batch([(None, b"")] * 1_000, 1_700_000_000_000)
        for _ in range(count // 1_000):
            data = [TopicProduceData(self.topic, ZERO_UUID, [PartitionProduceData(index, batch)])]
            self.peer.ask(ProduceRequest(None, -1, 60_000, data), 9)

    def fetch(self, **fields: Any) -> Any:
        """Fetch in the session; returns the response."""
        indexes = range(self.partitions) if not self.epoch else ()
        topics = [share_fetch.FetchTopic(self.topic_id, [share_fetch.FetchPartition(index) for index in indexes])]
        asked = {"max_records": 10_000, "batch_size": 1, "max_wait_ms": 0, "topics": topics} | fields
        response = self.peer.ask(share_fetch.ShareFetchRequest(self.group, self.member, self.epoch, **asked), 2)
        self._advance(response)
        return response

    def acknowledge(self, batches: list[Any], *, epoch: int | None = None) -> int:
        """Acknowledge records of the first partition; return the error of the partition or of the request."""
        partitions = [share_acknowledge.AcknowledgePartition(0, batches)]
        topics = [share_acknowledge.AcknowledgeTopic(self.topic_id, partitions)]
        used = self.epoch if epoch is None else epoch
        request = share_acknowledge.ShareAcknowledgeRequest(self.group, self.member, used, False, topics)
        response = self.peer.ask(request, 2)
        if response.error_code:
            return int(response.error_code)
        self._advance(response)
        return int(response.responses[0].partitions[0].error_code)

    def acquired(self) -> list[int]:
        """Fetch until records are acquired; return their offsets."""
        for _ in range(1_000):
            response = self.fetch()
            found = [
                each for topic in response.responses for part in topic.partitions for each in part.acquired_records
            ]
            if found:
                return [offset for each in found for offset in range(each.first_offset, each.last_offset + 1)]
        raise AssertionError("no records")

    def _advance(self, response: Any) -> None:
        assert not response.error_code, ErrorCode(response.error_code)
        self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1


def batch_of(first: int, last: int, *types: int) -> Any:
    return share_acknowledge.AcknowledgementBatch(first, last, list(types or (ACCEPT,)))


def share_requests_that_are_wrong(port: int) -> Iterator[None]:
    """Unknown sessions, wrong epochs, records that nobody has acquired, batches that overlap or are not sorted, types
    that do not exist: each gets Kafka's error, and the records that are acquired stay so.
    """
    member = ShareMember(port, "wronged", "m", "wronged")
    member.put(1_000)
    assert len(member.acquired()) == 1_000
    wrong = [
        ([batch_of(0, 9), batch_of(5, 20)], INVALID),
        ([batch_of(20, 30), batch_of(0, 9)], INVALID),
        ([batch_of(9, 0)], INVALID),
        ([batch_of(-5, -1)], INVALID),
        ([batch_of(0, 0, 5)], INVALID),
        ([batch_of(0, 0, -1)], INVALID),
        ([batch_of(0, 0, 4)], INVALID),  # RENEW without its flag
        ([batch_of(0, 5, ACCEPT, ACCEPT)], INVALID),
        ([share_acknowledge.AcknowledgementBatch(0, 0, [])], INVALID),
        ([batch_of(990, 5_000)], INVALID),
        ([batch_of(0, 0x7FFF_FFFF_FFFF_FFFF)], INVALID),
        ([batch_of(5_000, 6_000)], INVALID),
    ]
    stranger = ShareMember(port, "wronged", "stranger", "wronged")
    stranger.fetch()
    while True:
        for batches, error in wrong:
            assert member.acknowledge(batches) == error, (batches, error)
        assert stranger.acknowledge([batch_of(0, 9)]) == ErrorCode.INVALID_RECORD_STATE
        for epoch in (0, member.epoch + 1, member.epoch - 1, MAX_EPOCH, -2, -MAX_EPOCH - 1):
            assert member.acknowledge([batch_of(0, 0)], epoch=epoch) == ErrorCode.INVALID_SHARE_SESSION_EPOCH, epoch
        nobody = share_acknowledge.ShareAcknowledgeRequest("nobody", "nobody", 7)
        assert member.peer.ask(nobody, 2).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        yield


def acknowledgements_in_tiny_batches(port: int) -> Iterator[None]:
    """Four thousand records are acquired, and acknowledged in as many batches, or with a type for each."""
    member = ShareMember(port, "tiny", "m", "tiny")
    number = 0
    while True:
        member.put(4_000)
        offsets = member.acquired()
        if number % 2:
            batches = [batch_of(offset, offset) for offset in offsets]
        else:
            batches = [batch_of(offsets[0], offsets[-1], *[ACCEPT] * len(offsets))]
        assert member.acknowledge(batches) == NONE
        number += 1
        yield


def acknowledgements_of_anything(port: int) -> Iterator[None]:
    """Batches of records that were never acquired: as many as a request may have."""
    member = ShareMember(port, "anything", "m", "anything")
    member.put(1_000)
    member.acquired()
    batches = [batch_of(offset, offset) for offset in range(5_000, 14_000)]
    while True:
        assert member.acknowledge(batches) == INVALID
        yield


def acknowledgements_of_9_partitions(port: int) -> Iterator[None]:
    """In each of them a thousand records are acquired, and acknowledged one by one in one request."""
    member = ShareMember(port, "many", "m", "many", partitions=9)
    batches = [batch_of(offset, offset) for offset in range(1_000)]
    partitions = [share_acknowledge.AcknowledgePartition(index, batches) for index in range(9)]
    topics = [share_acknowledge.AcknowledgeTopic(member.topic_id, partitions)]
    for index in range(9):
        member.put(1_000, index)
    acquired = 0
    while acquired < 9_000:
        acquired += len(member.acquired())
    while True:
        request = share_acknowledge.ShareAcknowledgeRequest(member.group, "m", member.epoch, False, topics)
        response = member.peer.ask(request, 2)
        assert not response.error_code
        member.epoch += 1
        yield


def sessions_of_2000_partitions(port: int) -> Iterator[None]:
    """Each fetch looks at all partitions of its session; sessions come and go."""
    member = ShareMember(port, "wide", "m", "wide", partitions=2_000)
    while True:
        for _ in range(10):
            member.fetch()
        member.epoch = 0
        yield


SHARE_ATTACKS = (
    share_requests_that_are_wrong,
    acknowledgements_in_tiny_batches,
    acknowledgements_of_anything,
    acknowledgements_of_9_partitions,
    sessions_of_2000_partitions,
)

"""A take-over begins a leader epoch, and where the earlier ones ended is known to whoever leads (KIP-320)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinatord.broker.log import DataDirectory
from coordinatord.server.postgresql import working_copy
from coordinatord.server.postgresql.contract import Growth, PartitionKey, row_of
from coordinatord.server.postgresql.copy_disk import UnflushedDisk
from coordinatord.server.postgresql.leading import epoch_of_term_0
from coordinatord.transport.cluster.partition_slots import Holder, SeatedNodes
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import assign_offset, build_batch
from tests.clients.raw import Line
from tests.server.postgresql.model import ModelDatabase
from tests.server.postgresql.test_nodes import Node, nodes, with_topic

__all__ = ["nodes"]

KEY = PartitionKey(b"T" * 16, 0)


def test_the_copy_has_the_epochs_of_the_batches(tmp_path: Path) -> None:
    """Those that were loaded come first: compaction may have removed their batches."""
    store = ModelDatabase().take()
    for offset, epoch in enumerate((0, 0, 4, 4, 6)):
        batch = build_batch([(b"k", b"v")], 1, offset)
        assign_offset(batch, offset, epoch)
        store.append([Growth(KEY, "topic", offset, offset + 1)], [row_of(KEY, 0, bytes(batch))])

    def copied() -> object:
        working_copy.make(store, tmp_path, cluster_id="c", node_id=0, disk=UnflushedDisk())
        data = DataDirectory.open(str(tmp_path), disk=UnflushedDisk(), leader_epoch=7)
        data.close()
        return data.logs["topic", 0].leader_epochs

    assert copied() == ((0, 0), (4, 2), (6, 4), (7, 5))
    store.put_file("epochs/topic-0", b"0\n2\n0 0\n3 1\n")
    assert copied() == ((0, 0), (3, 1), (4, 2), (6, 4), (7, 5))
    assert epoch_of_term_0(store.files()) == 3
    assert epoch_of_term_0({}) == 0


def test_the_epoch_of_another_nodes_partitions_is_its_term() -> None:
    made = SeatedNodes(10, None, 2)
    made.take(0)
    made.epoch_of_term_0 = 7
    topics = [f"t{number}" for number in range(20)]
    elsewhere = next(each for each in topics if not made.owns(each, 0))
    assert made.epoch_of(elsewhere, 0) == 0
    assert made.seat({1: Holder(11, {}, 3)})
    assert made.epoch_of(elsewhere, 0) == 10
    assert made.seat({1: Holder(11, {}, 5)}), "the same node with another term"
    assert made.epoch_of(elsewhere, 0) == 12
    assert not made.seat({0: Holder(10, {}, 6), 1: Holder(11, {}, 5)}), "its own seat is no news"


async def produced(line: Line, count: int) -> int:
    """The offset after `count` new records."""
    for _ in range(count):
        records = build_batch([(None, b"value")], 1_700_000_000_000)
        data = [TopicProduceData("topic", partition_data=[PartitionProduceData(0, records)])]
        answer = await line.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data), 9)
        [partition] = answer.responses[0].partition_responses
        assert partition.error_code == 0
    return int(partition.base_offset) + 1


async def epoch_of(line: Line) -> int:
    [topic] = (await line.ask(MetadataRequest([MetadataRequestTopic(name="topic")]), 12)).topics
    return int(topic.partitions[0].leader_epoch)


async def ends_of(line: Line, *asked: int) -> list[tuple[int, int]]:
    """(epoch, end offset) for each epoch."""
    found = []
    for epoch in asked:
        topics = [OffsetForLeaderTopic("topic", [OffsetForLeaderPartition(0, -1, epoch)])]
        [partition] = (await line.ask(OffsetForLeaderEpochRequest(-1, topics), 4)).topics[0].partitions
        assert partition.error_code == 0
        found.append((partition.leader_epoch, partition.end_offset))
    return found


@pytest.mark.postgresql
@pytest.mark.timeout(600)
def test_a_take_over_begins_an_epoch(nodes: Callable[..., Node], database: str) -> None:
    async def play() -> None:
        one, two = nodes(database, 1), nodes(database, 2)
        one.start()
        line = await with_topic(one)
        first = await epoch_of(line)
        assert await produced(line, 3) == 3
        line.close()
        one.kill()
        two.start()
        line = await with_topic(two)
        second = await epoch_of(line)
        assert second > first
        assert await ends_of(line, first, second) == [(first, 3), (second, 3)]
        assert await produced(line, 2) == 5
        asked = FetchPartition(0, first, 0)
        request = FetchRequest(max_wait_ms=0, topics=[FetchTopic("topic", partitions=[asked])])
        [fetched] = (await line.ask(request, 12)).responses[0].partitions
        assert fetched.error_code == ErrorCode.FENCED_LEADER_EPOCH
        line.close()
        assert two.stop() == 0
        one.start()
        line = await with_topic(one)
        third = await epoch_of(line)
        assert third > second
        assert await ends_of(line, first, second, third) == [(first, 3), (second, 5), (third, 5)]
        line.close()
        assert one.stop() == 0

    asyncio.run(play())

"""Records that are lost and replaced, on Kafka and here: the same answers about the epochs, expected by hand (KIP-320).

Ten records are written; the broker is killed, and its log loses the last five; it starts, and eight others are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from coordinatord.testing.wire import Wire
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import build_batch, iterate_batches
from tests.daemon import HOST, Daemon
from tests.reference.broker import prepare_broker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

TOPIC = "orders"
START_MS = 1_700_000_000_000
NONE, FENCED, UNKNOWN = ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH
OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE


@dataclass
class Broker:
    """A broker that can be killed, and started again with what is left."""

    port: int
    data_dir: Path
    start: Callable[[], object]
    kill: Callable[[], object]


@pytest.fixture(
    params=[pytest.param("kafka", marks=pytest.mark.reference), pytest.param("ours", marks=pytest.mark.slow)]
)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    if request.param == "ours":
        daemon = Daemon(tmp_path, {"log.flush": "never"})  # with a journal a cut segment is mended
        yield Broker(daemon.port, daemon.data_dir, daemon.start, daemon.kill)
        if daemon.process is not None:
            daemon.kill()
        return
    prepared = prepare_broker(request.getfixturevalue("kafka_libs"), tmp_path)
    prepared.format()
    running = []
    yield Broker(
        prepared.port,
        prepared.data_dir,
        lambda: running.append(prepared.start()),
        lambda: running.pop().stop(kill=True),
    )
    for each in running:
        each.stop(kill=True)


class Client:
    """What a client asks about the topic's partition."""

    def __init__(self, port: int) -> None:
        self.wire = Wire(lambda: (HOST, port))

    def epoch(self) -> int:
        """The leader epoch in the metadata, once there is a leader."""
        found: list[int] = []

        def is_led() -> bool:
            request = MetadataRequest([MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
            [topic] = self.wire.ask(request, 9).topics
            found[:] = [each.leader_epoch for each in topic.partitions if each.leader_id >= 0 and not each.error_code]
            return bool(found)

        wait_until(is_led, "the partition has no leader")
        return found[0]

    def produce(self, first: int, end: int) -> None:
        """One batch for each number, with timestamps that rise."""
        for number in range(first, end):
            records = build_batch([(None, b"%04d" % number)], START_MS + number)
            data = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, records)])]
            request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data)

            def is_produced(request: ProduceRequest = request) -> bool:
                code = self.wire.ask(request, 9).responses[0].partition_responses[0].error_code
                assert code in (NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                return bool(code == NONE)

            wait_until(is_produced, "the record is not stored")

    def fetch(self, offset: int, last: int, current: int) -> tuple[int, tuple[int, int], int, int]:
        """(error, diverging epoch and its end, high watermark, records)"""
        asked = FetchPartition(0, current, offset, last, partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=[FetchTopic(TOPIC, partitions=[asked])])
        [data] = self.wire.ask(request, 12).responses[0].partitions
        count = sum(header.record_count for _, header in iterate_batches(data.records or b""))
        diverging = data.diverging_epoch
        return data.error_code, (diverging.epoch, diverging.end_offset), data.high_watermark, count

    def list(self, timestamp: int, current: int = -1) -> tuple[int, int, int]:
        """(error, offset, leader epoch)"""
        asked = ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, current, timestamp)])
        [found] = self.wire.ask(ListOffsetsRequest(topics=[asked]), 9).topics[0].partitions
        return found.error_code, found.offset, found.leader_epoch

    def end(self, epoch: int, current: int = -1) -> tuple[int, int, int]:
        """(error, leader epoch, end offset)"""
        asked = OffsetForLeaderTopic(TOPIC, [OffsetForLeaderPartition(0, current, epoch)])
        [found] = self.wire.ask(OffsetForLeaderEpochRequest(-1, [asked]), 4).topics[0].partitions
        return found.error_code, found.leader_epoch, found.end_offset

    def delete_before(self, offset: int) -> None:
        """Remove the records before an offset."""
        request = DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, offset)])], 10_000)
        assert self.wire.ask(request, 2).topics[0].partitions[0].error_code == NONE


def test_records_that_were_lost_and_replaced(broker: Broker) -> None:
    broker.start()
    client = Client(broker.port)
    client.wire.ask(CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1)], 30_000), 5)
    old = client.epoch()
    client.produce(0, 10)
    assert client.list(-1) == (NONE, 10, old)
    client.wire.close()
    broker.kill()
    segment = broker.data_dir / f"{TOPIC}-0" / f"{0:020d}.log"
    written = segment.read_bytes()
    segment.write_bytes(written[: len(written) // 2])

    broker.start()
    client = Client(broker.port)
    new = client.epoch()
    assert new > old
    # Before anything is appended
    assert [client.end(each) for each in (old, new)] == [(NONE, old, 5), (NONE, new, 5)]
    assert [client.list(each) for each in (-1, -2, -3)] == [(NONE, 5, new), (NONE, 0, old), (NONE, 4, old)]
    assert client.fetch(10, old, new) == (NONE, (old, 5), 5, 0)
    assert client.fetch(5, old, new) == (NONE, (-1, -1), 5, 0)

    client.produce(10, 18)
    asked = [-1, old, new, new + 1]
    assert [client.end(each) for each in asked] == [(NONE, -1, -1), (NONE, old, 5), (NONE, new, 13), (NONE, -1, -1)]
    assert [client.list(START_MS + each) for each in (4, 5, 17)] == [(NONE, 4, old), (NONE, 5, new), (NONE, 12, new)]
    assert [client.list(each) for each in (-1, -2, -3, -4)] == [
        (NONE, 13, new), (NONE, 0, old), (NONE, 12, new), (NONE, 0, old)
    ]  # fmt: skip
    no_epoch, lost = (-1, -1), (old, 5)
    for offset, last, found in [
        (10, old, (NONE, lost, 13, 0)),
        (14, old, (NONE, lost, 13, 0)),
        (5, old, (NONE, no_epoch, 13, 8)),
        (0, old, (NONE, no_epoch, 13, 13)),
        (12, new, (NONE, no_epoch, 13, 1)),
        (14, new, (NONE, (new, 13), 13, 0)),
        (5, new + 1, (OUT_OF_RANGE, no_epoch, -1, 0)),
        (14, -1, (OUT_OF_RANGE, no_epoch, -1, 0)),
    ]:
        assert client.fetch(offset, last, new) == found, (offset, last)
    for current, error in [(-1, NONE), (old, FENCED), (new, NONE), (new + 1, UNKNOWN)]:
        assert client.fetch(0, -1, current)[0] == error
        assert client.list(-1, current)[0] == error
        assert client.end(old, current)[0] == error

    client.delete_before(7)
    assert client.list(-2) == (NONE, 7, new)
    assert client.end(old) == (NONE, old, 7)
    assert [client.fetch(each, old, new)[0] for each in (6, 7)] == [OUT_OF_RANGE, NONE]
    client.wire.close()
    checkpoint = broker.data_dir / f"{TOPIC}-0" / "leader-epoch-checkpoint"
    assert f"{new} " in checkpoint.read_text()

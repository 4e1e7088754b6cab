"""Which records retention removes, on Kafka and here: the same topics, expected by hand."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinatord.testing.wire import Wire
from kafka_wire.api.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafka_wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import build_batch
from tests.daemon import HOST, running
from tests.reference.broker import running_broker
from tests.support.waiting import wait_until

SETTINGS = {"log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "200"}
HOUR_MS = 3_600_000
LARGE = b"x" * 700_000
"""Two of them do not fit into a segment of 1 MiB, the least that Kafka admits."""

TOPICS: dict[str, tuple[dict[str, str], list[tuple[int, bytes]], int]] = {
    "idle": ({"retention.ms": "1000"}, [(0, b"a")] * 3, 3),
    "kept": ({"retention.ms": "-1"}, [(0, b"a")] * 3, 0),
    "one-later": ({"retention.ms": "1000"}, [(-HOUR_MS, b"a"), (HOUR_MS // 2, b"b")], 0),
    "first-segment": ({"retention.ms": "60000", "segment.bytes": "1048576"}, [(-HOUR_MS, LARGE), (0, LARGE)], 1),
    "rolled-by-age": ({"retention.ms": "60000", "segment.ms": "1000"}, [(-HOUR_MS, b"a"), (0, b"b")], 1),
    "local": ({"retention.ms": "-1", "local.retention.ms": "1000"}, [(0, b"a")] * 3, 0),
    "tombstones-kept": ({"retention.ms": "-1", "delete.retention.ms": "0"}, [(-HOUR_MS, b"a")] * 3, 0),
    "size": ({"retention.bytes": "1500000", "segment.bytes": "1048576"}, [(0, LARGE)] * 4, 1),
    "no-size": ({"retention.bytes": "0"}, [(0, b"a")] * 3, 3),
    "a-byte": ({"retention.bytes": "1"}, [(0, b"a")] * 3, 0),
    "compacted": ({"retention.ms": "1000", "cleanup.policy": "compact"}, [(0, b"a")] * 3, 0),
    "compacted-deleted": ({"retention.ms": "1000", "cleanup.policy": "compact,delete"}, [(0, b"a")] * 3, 3),
    "by-hand": ({"retention.ms": "-1"}, [(0, b"a")] * 3, 2),
}
"""Configs, records (ms from now, value), and the first offset that is left. `by-hand` has records deleted before 2."""

pytestmark = pytest.mark.timeout(300)


BROKERS = [pytest.param("kafka", marks=pytest.mark.reference), pytest.param("ours", marks=pytest.mark.slow)]


@pytest.fixture(params=BROKERS)
def port(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[int]:
    if request.param == "kafka":
        libs = request.getfixturevalue("kafka_libs")
        with running_broker(libs, tmp_path, SETTINGS) as broker:
            yield broker.port
    else:
        ours = {name: value for name, value in SETTINGS.items() if name != "log.initial.task.delay.ms"}
        with running(tmp_path, ours) as daemon:
            yield daemon.port


def first_offset(wire: Wire, topic: str) -> int:
    partitions = [ListOffsetsPartition(0, timestamp=-2)]
    response = wire.ask(ListOffsetsRequest(topics=[ListOffsetsTopic(topic, partitions)]), 5)
    return int(response.topics[0].partitions[0].offset)


def is_produced(wire: Wire, request: ProduceRequest) -> bool:
    """Whether the record was stored; False while Kafka's new partition has no leader."""
    error_code = wire.ask(request, 9).responses[0].partition_responses[0].error_code
    assert error_code in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return bool(error_code == ErrorCode.NONE)


def test_the_records_that_are_left(port: int) -> None:
    wire = Wire(lambda: (HOST, port))
    created = [
        CreatableTopic(name, 1, 1, configs=[CreatableTopicConfig(key, value) for key, value in configs.items()])
        for name, (configs, _, _) in TOPICS.items()
    ]
    response = wire.ask(CreateTopicsRequest(created, 30_000), 5)
    assert {each.error_code for each in response.topics} == {ErrorCode.NONE}
    now_ms = int(time.time() * 1000)
    for name, (_, records, _) in TOPICS.items():
        for after_ms, value in records:
            batch = bytes(build_batch([(b"key", value)], now_ms + after_ms))
            data = TopicProduceData(name, partition_data=[PartitionProduceData(0, batch)])
            request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
            wait_until(lambda request=request: is_produced(wire, request), f"a leader of {name}")
    before = [DeleteRecordsTopic("by-hand", [DeleteRecordsPartition(0, 2)])]
    assert wire.ask(DeleteRecordsRequest(before, 30_000), 2).topics[0].partitions[0].error_code == ErrorCode.NONE
    expected = {name: left for name, (_, _, left) in TOPICS.items()}

    def found() -> dict[str, int]:
        return {name: first_offset(wire, name) for name in TOPICS}

    wait_until(lambda: found() == expected, "retention", seen=found)
    wire.close()

"""What a Produce request gets, partition by partition."""

from __future__ import annotations

import pytest

from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import TRANSACTIONAL, read_header
from kafka_wire.records.compression import Compression
from tests.broker.topics.world import START_MS, World, batch, produce


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [1, -1])
def test_offsets_rise_and_the_response_waits_for_the_log(world: World, version: int, acks: int) -> None:
    topic_id = world.create("orders")
    first = world.send(0, version, produce("orders", batch(b"a", b"b"), acks=acks, topic_id=topic_id))
    assert first.response is None
    world.settle()
    second = world.call(0, version, produce("orders", batch(b"c"), acks=acks, topic_id=topic_id))
    offsets = [r.responses[0].partition_responses[0].base_offset for r in (first.response, second)]
    assert offsets == [0, 2]
    [topic] = second.responses
    assert (topic.topic_id == topic_id) == (version >= 13)
    assert (topic.name == "orders") == (version < 13)
    [partition] = topic.partition_responses
    assert partition.error_code == 0
    assert partition.log_append_time_ms == -1
    assert partition.log_start_offset == (0 if version >= 5 else -1)


def test_each_partition_for_itself(world: World) -> None:
    world.create("orders", 2)
    request = ProduceRequest(
        None,
        -1,
        1000,
        [
            TopicProduceData("missing", partition_data=[PartitionProduceData(0, batch(b"a"))]),
            TopicProduceData(
                "orders",
                partition_data=[
                    PartitionProduceData(1, batch(b"a")),
                    PartitionProduceData(2, batch(b"a")),
                    PartitionProduceData(0, batch(b"a")[:-1]),
                    PartitionProduceData(-1, batch(b"a")),
                ],
            ),
        ],
    )
    response = world.call(0, 9, request)
    codes = [
        (t.name, [(p.index, p.error_code, p.base_offset) for p in t.partition_responses]) for t in response.responses
    ]
    assert codes == [
        ("missing", [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]),
        (
            "orders",
            [
                (1, 0, 0),
                (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
                (0, ErrorCode.INVALID_RECORD, -1),
                (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
            ],
        ),
    ]


def test_an_unknown_topic_id(world: World) -> None:
    response = world.call(0, 13, produce("", batch(b"a"), topic_id=bytes(15) + b"\x07"))
    [topic] = response.responses
    assert topic.topic_id == bytes(15) + b"\x07"
    assert topic.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_acks_other_than_0_1_and_all(world: World) -> None:
    world.create("orders")
    response = world.call(0, 9, produce("orders", batch(b"a"), acks=2))
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert world.topics.catalogue.by_name["orders"].partitions[0].log.end_offset == 0


def test_acks_0_gets_no_response(world: World) -> None:
    world.create("orders")
    context = world.send(0, 9, produce("orders", batch(b"a"), acks=0))
    world.settle()
    assert context.dropped
    assert context.answers == 0
    assert context.connection.refusals == []
    assert world.topics.catalogue.by_name["orders"].partitions[0].log.high_watermark == 1


def test_an_error_with_acks_0_closes_the_connection(world: World) -> None:
    context = world.send(0, 9, produce("missing", batch(b"a"), acks=0))
    assert context.dropped
    assert context.connection.refusals == ["error with acks=0: UNKNOWN_TOPIC_OR_PARTITION"]


def test_internal_topics_are_not_for_clients(world: World) -> None:
    assert world.produce("__consumer_offsets", batch(b"a")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_batch_over_the_topics_limit(world: World) -> None:
    world.create("orders", max_message_bytes="200")
    assert world.produce("orders", batch(b"x" * 200)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert world.produce("orders", batch(b"x" * 100)).error_code == 0


def test_a_record_over_the_topics_limit_once_decompressed(world: World) -> None:
    world.create("orders", max_decompressed_message_bytes="100")
    refused = world.produce("orders", batch(b"a" * 100, compression=Compression.GZIP))
    assert (refused.error_code, refused.record_errors) == (ErrorCode.INVALID_RECORD, [])
    assert world.produce("orders", batch(b"a" * 80, compression=Compression.GZIP)).error_code == 0
    assert world.produce("orders", batch(b"a" * 100)).error_code == 0


def test_a_batch_over_the_segment_size(world: World) -> None:
    world.create("orders", internal_segment_bytes="200")
    assert world.produce("orders", batch(b"x" * 200)).error_code == ErrorCode.RECORD_LIST_TOO_LARGE


def test_log_append_time(world: World) -> None:
    world.create("orders", message_timestamp_type="LogAppendTime")
    response = world.produce("orders", batch(b"a", timestamp_ms=5))
    assert response.log_append_time_ms == START_MS
    log = world.topics.catalogue.by_name["orders"].partitions[0].log
    header = read_header(log.read(0, 1000))
    assert header.is_log_append_time
    assert header.max_timestamp == START_MS


def test_a_record_too_far_ahead_is_named(world: World) -> None:
    world.create("orders", message_timestamp_after_max_ms="1000")
    response = world.produce("orders", batch(b"a", timestamp_ms=START_MS + 1001))
    assert response.error_code == ErrorCode.INVALID_TIMESTAMP
    assert response.log_start_offset == 0
    assert response.error_message == "One or more records have been rejected due to invalid timestamp"
    assert [fault.batch_index for fault in response.record_errors] == [0]


def test_a_compacted_topic_wants_keys(world: World) -> None:
    world.create("state", cleanup_policy="compact")
    refused = world.produce("state", batch(b"a"))
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert [fault.batch_index for fault in refused.record_errors] == [0]
    assert world.produce("state", batch(b"a", keys=b"k")).error_code == 0


@pytest.mark.parametrize("own", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topics_own_compression(world: World, own: str) -> None:
    world.create("orders", compression_type=own)
    world.produce("orders", batch(b"a" * 100, b"b", compression=Compression.GZIP))
    log = world.topics.catalogue.by_name["orders"].partitions[0].log
    header = read_header(log.read(0, 1000))
    assert Compression(header.codec).name.lower() == {"uncompressed": "none"}.get(own, own)
    assert header.record_count == 2


def test_a_transactional_batch_needs_a_transactional_id_and_a_coordinator(world: World) -> None:
    world.create("orders")
    records = batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL)
    assert world.produce("orders", records).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    request = produce("orders", records)
    request.transactional_id = "tx"
    response = world.call(0, 9, request)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_log_that_fails_says_so(world: World) -> None:
    world.create("orders")
    world.disk.datasyncs_left = 0
    waiting = world.send(0, 9, produce("orders", batch(b"a")))
    world.settle()
    assert waiting.answers == 1
    assert waiting.response.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.failures
    assert world.produce("orders", batch(b"b")).error_code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("acks", [0, -1])
def test_what_waits_for_the_log_is_bounded_and_more_waits_unserved(world: World, acks: int) -> None:
    """A slow disk: nothing is written before the end. Whatever is sent, the log's memory stays within the bound."""
    limit = world.topics.producing.max_waiting_bytes = 1 << 20
    world.create("large")
    size = limit // 16
    requests = [produce("large", batch(bytes([number]) * size), acks=acks) for number in range(24)]
    contexts = [world.send(0, 9, request) for request in requests]
    served = sum(each.waits for each in contexts)
    assert limit < world.writer.waiting_bytes < limit + 2 * size
    assert served == limit // size
    assert not any(each.answers for each in contexts)
    world.settle()
    assert world.writer.waiting_bytes == 0
    log = world.topics.catalogue.by_name["large"].partitions[0].log
    assert log.high_watermark == 24
    if acks:
        offsets = [each.response.responses[0].partition_responses[0].base_offset for each in contexts]
        assert offsets == list(range(24)), "in the order in which they came"
    else:
        assert all(each.dropped for each in contexts)


@pytest.mark.parametrize("acks", [0, -1])
def test_what_waits_unserved_is_refused_when_the_log_fails(world: World, acks: int) -> None:
    limit = world.topics.producing.max_waiting_bytes = 1 << 16
    world.create("large")
    world.send(0, 9, produce("large", batch(bytes(limit)), acks=1))
    unserved = world.send(0, 9, produce("large", batch(b"x"), acks=acks))
    world.disk.datasyncs_left = 0
    world.settle()
    if acks:
        [partition] = unserved.response.responses[0].partition_responses
        assert partition.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    else:
        assert unserved.connection.refusals == ["error with acks=0: KAFKA_STORAGE_ERROR"]

"""What the checks of a request's records may cost the event loop, and what they may cost at all."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from coordinatord.base.config import Settings
from coordinatord.broker.topics.configs import Configs
from coordinatord.broker.topics.produce_checks import LOOP_BYTES, LOOP_RECORDS, checked_aside, checked_now
from coordinatord.transport.net.cooperative_tasks import run_through
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.errors import ErrorCode
from kafka_wire.records import produced, stamps
from kafka_wire.records.batch import BatchHeader, Buffer
from kafka_wire.records.compression import Compression
from kafka_wire.schema import ZERO_UUID
from tests.broker.topics.world import START_MS, World, batch

PARTITIONS = 20

PLAIN = Configs(Settings(), {})


def bomb(size: int, compression: Compression = Compression.ZSTD) -> bytes:
    """A batch of one record of so many zeros."""
    return batch(bytes(size), compression=compression)


@pytest.fixture
def decompressed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each batch's records, as they are decompressed."""
    sizes: list[int] = []
    read = produced.record_section

    def counted(*arguments: Any) -> Buffer:
        section = read(*arguments)
        sizes.append(len(section))
        return section

    monkeypatch.setattr(produced, "record_section", counted)
    return sizes


def send(world: World, *batches: bytes, acks: int = -1) -> Any:
    data = [PartitionProduceData(index, each) for index, each in enumerate(batches)]
    return world.send(0, 9, ProduceRequest(None, acks, 1000, [TopicProduceData("t", ZERO_UUID, data)]))


def codes(context: Any) -> list[int]:
    return [each.error_code for each in context.response.responses[0].partition_responses]


@pytest.fixture
def world() -> World:
    world = World()
    world.create("t", PARTITIONS)
    return world


@pytest.mark.parametrize("compression", list(Compression)[1:])
def test_the_loop_decompresses_no_more_than_its_share(
    world: World, decompressed: list[int], compression: Compression
) -> None:
    """Twenty batches of 10 KB or less, with 1 MB each: they are checked elsewhere, and all appended."""
    context = send(world, *[bomb(1_000_000, compression)] * PARTITIONS)
    assert sum(decompressed) <= LOOP_BYTES
    assert not context.waits
    world.settle()
    assert codes(context) == [0] * PARTITIONS
    assert len(decompressed) == PARTITIONS


def test_the_loop_looks_at_no_more_records_than_its_share(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    read = stamps.stamps

    def counted(section: Buffer, header: BatchHeader, largest: int) -> Iterator[stamps.Stamp]:
        looked_at.append(header.record_count)
        return read(section, header, largest)

    monkeypatch.setattr(produced, "stamps", counted)
    context = send(world, *[batch(*[b""] * (LOOP_RECORDS // 2))] * 3)
    assert looked_at == [LOOP_RECORDS // 2] * 2
    assert not context.waits
    world.settle()
    assert codes(context) == [0, 0, 0]


@pytest.mark.parametrize("compression", list(Compression))
def test_the_loop_does_not_read_a_batch_larger_than_its_share(
    monkeypatch: pytest.MonkeyPatch, compression: Compression
) -> None:
    """Not even for the checksum."""
    noise = random.Random(1).randbytes(LOOP_BYTES)
    batches = [(batch(noise[:half], compression=compression), PLAIN) for half in (LOOP_BYTES // 2, LOOP_BYTES // 2)]

    def fail(*_: Any) -> None:
        raise AssertionError("the batch was read")

    monkeypatch.setattr(produced, "check_crc", fail)
    assert checked_now(batches, 9, START_MS) is None


def test_few_records_are_checked_at_once(world: World) -> None:
    context = send(world, *[batch(b"v", compression=Compression.LZ4)] * PARTITIONS)
    assert context.waits
    world.settle()
    assert codes(context) == [0] * PARTITIONS


def test_acks_0_is_checked_elsewhere_as_well(world: World) -> None:
    context = send(world, bomb(LOOP_BYTES), acks=0)
    assert not context.dropped
    world.settle()
    assert context.dropped
    assert world.topics.catalogue.by_name["t"].partitions[0].log.high_watermark == 1


def test_the_topics_compression_counts(world: World) -> None:
    world.create("packed", compression_type="gzip")
    request = ProduceRequest(
        None,
        -1,
        1000,
        [TopicProduceData("packed", ZERO_UUID, [PartitionProduceData(0, batch(bytes(LOOP_BYTES // 8)))])],
    )
    context = world.send(0, 9, request)
    assert not context.waits, "compressing takes longer than checking"
    world.settle()
    assert codes(context) == [0]


def test_a_topic_that_goes_while_its_records_are_checked(world: World) -> None:
    context = send(world, bomb(LOOP_BYTES))
    run_through(world.topics.administration._delete([world.topics.catalogue.by_name["t"]]))
    world.create("t")
    world.settle()
    assert codes(context) == [0], "the records are as good for the new topic"
    context = send(world, bomb(LOOP_BYTES))
    run_through(world.topics.administration._delete([world.topics.catalogue.by_name["t"]]))
    world.settle()
    assert codes(context) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_what_a_request_may_have_is_limited() -> None:
    """By bytes and by records, of all its batches; producers split a batch that is too large."""
    batches = [(bomb(1_000_000), PLAIN)] * 4
    assert checked_now(batches, 9, START_MS) is None
    checked = checked_aside(batches, 9, START_MS, size=2_500_000)
    errors = [each.error if isinstance(each, produced.Rejected) else 0 for each in checked]
    assert errors == [0, 0, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE]
    many = [(batch(*[b""] * 100), PLAIN)] * 4
    checked = checked_aside(many, 9, START_MS, records=250)
    errors = [each.error if isinstance(each, produced.Rejected) else 0 for each in checked]
    assert errors == [0, 0, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE]


def test_what_is_refused_is_decompressed_once(decompressed: list[int]) -> None:
    checked_aside([(bomb(1_000_000), PLAIN)] * 10, 9, START_MS, size=1_500_000)
    assert len(decompressed) == 1

"""Idempotent producers: retries get the first answer, gaps are refused, and a restart forgets nothing that matters.

The rules are Kafka's ProducerAppendInfo and ProducerStateManager.
"""

from __future__ import annotations

import pytest

from coordinatord.broker.topics import partition as partition_module
from coordinatord.broker.topics import producers as producers_module
from coordinatord.broker.topics import snapshots
from coordinatord.broker.topics.partition import Partition
from coordinatord.broker.topics.producers import MAX_SEQUENCE, Producer, Producers, Refused, RememberedBatch
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import BatchHeader, read_header
from tests.broker.topics.world import START_MS, World, batch, produce

ID = 4711


def header(sequence: int, count: int = 1, epoch: int = 0, producer_id: int = ID) -> BatchHeader:
    return read_header(batch(*[b"v"] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence))


def appended(*batches: BatchHeader) -> Producers:
    producers = Producers()
    for each in batches:
        assert producers.check(each) is None
        producers.appended(each, producers.end_offset)
    return producers


def error_of(producers: Producers, batch: BatchHeader) -> ErrorCode | None:
    found = producers.check(batch)
    assert not isinstance(found, RememberedBatch)
    return found.error if isinstance(found, Refused) else None


def test_of_an_unknown_producer_any_sequence_is_taken() -> None:
    assert Producers().check(header(7)) is None


def test_sequences_must_follow_each_other() -> None:
    producers = appended(header(0, 3), header(3, 2))
    assert error_of(producers, header(6)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert error_of(producers, header(4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert error_of(producers, header(5)) is None
    assert error_of(producers, header(9, producer_id=ID + 1)) is None


def test_the_last_five_batches_are_known() -> None:
    producers = appended(*[header(sequence * 2, 2) for sequence in range(7)])
    for index in range(2, 7):
        known = producers.check(header(index * 2, 2))
        assert isinstance(known, RememberedBatch)
        assert known.first_offset == index * 2
    # Older than that, it is a gap; and so is part of a batch that is known.
    assert error_of(producers, header(2, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert error_of(producers, header(12, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_newer_epoch_begins_at_0() -> None:
    producers = appended(header(0), header(1))
    assert error_of(producers, header(2, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    newer = header(0, epoch=1)
    assert error_of(producers, newer) is None
    producers.appended(newer, 2)
    assert error_of(producers, header(1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    # What the old epoch wrote is not the new one's to repeat.
    assert error_of(producers, header(1, epoch=1)) is None


def test_sequences_wrap() -> None:
    producers = appended(header(MAX_SEQUENCE - 1, 2))
    assert error_of(producers, header(0)) is None
    wrapping = appended(header(MAX_SEQUENCE, 3))
    assert error_of(wrapping, header(2)) is None
    assert isinstance(wrapping.check(header(MAX_SEQUENCE, 3)), RememberedBatch)


def test_idle_producers_are_forgotten() -> None:
    producers = appended(header(0))
    assert producers.expire(START_MS + 999, 1000) == 0
    assert producers.expire(START_MS + 1000, 1000) == 1
    assert error_of(producers, header(5)) is None


def test_the_longest_silent_is_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers_module, "MAX_PRODUCERS", 3)
    producers = appended(*[header(0, producer_id=each) for each in (1, 2, 3)], header(1, producer_id=1))
    producers.appended(header(0, producer_id=4), 4)
    assert [each.producer_id for each in producers] == [3, 1, 4]


def test_snapshots_are_kafka_s() -> None:
    # Written by Kafka 4.3.0 when it stopped, after four batches of three producers.
    written = bytes.fromhex(
        "000194bc336300000003"
        "0000010000000000000100000000000000000000000600000000000001a1ee565e00ffffffffffffffffffffffff"
        "0000000000000005000000000000000000000000000300000000000001a1ee565e00ffffffffffffffffffffffff"
        "0000000000001267000300000009000000000000000500000001000001a1ee565e08ffffffffffffffffffffffff"
    )
    producers = [
        Producer(1 << 40, 1, -1, 1795000000000, -1, [RememberedBatch(0, 6, 0, 1795000000000)]),
        Producer(5, 0, -1, 1795000000000, -1, [RememberedBatch(0, 3, 0, 1795000000000)]),
        Producer(4711, 3, -1, 1795000000008, -1, [RememberedBatch(9, 5, 1, 1795000000008)]),
    ]
    assert snapshots.decode(written) == producers
    assert snapshots.encode(producers) == written


@pytest.mark.parametrize("spoil", [lambda data: data[:-1], lambda data: data[:20] + b"\xff" + data[21:], lambda _: b""])
def test_a_damaged_snapshot_is_noticed(spoil: object) -> None:
    data = snapshots.encode(appended(header(0)))
    with pytest.raises(snapshots.SnapshotDamaged):
        snapshots.decode(spoil(data))  # type: ignore[operator]


# In a partition


def records(sequence: int, count: int = 1, epoch: int = 0) -> bytes:
    return batch(*[b"v"] * count, producer_id=ID, producer_epoch=epoch, base_sequence=sequence)


@pytest.fixture
def world() -> World:
    made = World()
    made.create("orders")
    return made


def the_partition(world: World) -> Partition:
    return world.topics.catalogue.by_name["orders"].partitions[0]


def test_a_retry_gets_the_first_answer_when_that_is_durable(world: World) -> None:
    first = world.send(0, 9, produce("orders", records(0, 2)))
    retry = world.send(0, 9, produce("orders", records(0, 2)))
    assert first.response is None
    assert retry.response is None
    world.settle()
    for context in (first, retry):
        [partition] = context.response.responses[0].partition_responses
        assert (partition.error_code, partition.base_offset) == (0, 0)
    # As Kafka answers a duplicate, with the time of its batch.
    assert retry.response.responses[0].partition_responses[0].log_append_time_ms == START_MS
    assert the_partition(world).log.end_offset == 2


def test_a_gap_is_refused_and_nothing_appended(world: World) -> None:
    world.produce("orders", records(0))
    refused = world.produce("orders", records(2))
    assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (refused.base_offset, refused.log_start_offset) == (-1, 0)
    world.produce("orders", records(0, epoch=1))
    assert world.produce("orders", records(1)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert the_partition(world).log.end_offset == 2


@pytest.mark.parametrize("how", ["stop", "kill", "power"])
def test_after_a_restart_a_retry_is_still_one(world: World, how: str) -> None:
    for sequence in range(8):
        world.produce("orders", records(sequence))
    if how == "stop":
        world.stop()
    else:
        world.crash(how)  # type: ignore[arg-type]  # a CrashKind
    world.open()
    # All that were in flight come again, and each of the last five is found to be there.
    for sequence in (3, 4, 5, 6, 7):
        assert world.produce("orders", records(sequence)).base_offset == sequence
    assert world.produce("orders", records(9)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert world.produce("orders", records(8)).base_offset == 8


def test_a_snapshot_saves_reading_the_log(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_module, "SNAPSHOT_INTERVAL_BATCHES", 4)
    for sequence in range(18):
        world.produce("orders", records(sequence))
    files = sorted(name for name in world.disk.listdir("/data/orders-0") if name.endswith(".snapshot"))
    assert files == ["00000000000000000012.snapshot", "00000000000000000016.snapshot"]
    world.crash("kill")
    world.open()
    read = []
    replay = Producers.replay
    monkeypatch.setattr(Producers, "replay", lambda self, each: (read.append(each.base_offset), replay(self, each))[1])
    assert world.produce("orders", records(18)).base_offset == 18
    assert read == [12, 13, 14, 15, 16, 17]


def test_a_damaged_snapshot_is_done_without(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_module, "SNAPSHOT_INTERVAL_BATCHES", 2)
    for sequence in range(3):
        world.produce("orders", records(sequence))
    world.stop()
    world.disk.damage("/data/orders-0/00000000000000000002.snapshot", 12)
    world.open()
    assert world.produce("orders", records(4)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert world.produce("orders", records(3)).base_offset == 3
    assert "00000000000000000002.snapshot" not in world.disk.listdir("/data/orders-0")


def test_a_snapshot_ahead_of_the_log_is_not_believed(world: World) -> None:
    for sequence in range(3):
        world.produce("orders", records(sequence))
    world.stop()
    world.open()
    file = world.disk.open("/data/orders-0/00000000000000000009.snapshot", create=True)
    file.pwrite(snapshots.encode([Producer(ID, 0, -1, START_MS, -1, [RememberedBatch(8, 8, 0, START_MS)])]), 0)
    world.crash("kill")
    world.open()
    # Before the log grows to where the snapshot would look right.
    assert "00000000000000000009.snapshot" not in world.disk.listdir("/data/orders-0")
    assert world.produce("orders", records(3)).base_offset == 3

"""Loading as a whole: the order of partitions, turns of other work, progress in log and metrics, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise

import pytest

from coordinatord.base.observe.logger import captured
from coordinatord.base.observe.metrics import Metrics
from coordinatord.broker.log import LogConfig, LogDamaged, PartitionLog, ReplayedBatch, replay
from coordinatord.broker.log.simulated_disk import SimulatedDisk
from coordinatord.coordination.runtime import loading
from coordinatord.coordination.runtime.loading import Loading
from coordinatord.coordination.runtime.partitions import ACTIVE, FAILED
from coordinatord.coordination.service.groups import Coordinator
from coordinatord.transport.cluster.partitioner import partition_for
from kafka_wire.records.batch import build_batch, write_crc
from kafka_wire.records.keys import encode_key, encode_value
from kafka_wire.records.offsets import OffsetCommitKey, OffsetCommitValue
from tests.broker.log.world import World
from tests.test_partition_load import EmptyLog
from tests.test_partition_load import coordinator as one_partition

TOPIC = "__consumer_offsets"
PARTITIONS = 4


class FilesLog(EmptyLog):
    """A log over the files of a world."""

    def __init__(self, world: World) -> None:
        self.world = world

    def size_bytes(self, partition: int) -> int:
        return self.world.log(TOPIC, partition).visible_bytes

    def read(self, partition: int) -> Iterator[ReplayedBatch]:
        return replay(self.world.log(TOPIC, partition))


def offset(group: str, number: int) -> tuple[bytes, bytes]:
    return encode_key(OffsetCommitKey(group, "t", number)), encode_value(OffsetCommitValue(number, 0, "", 7))


def groups_of(partition: int, count: int) -> list[str]:
    names = (f"g{number}" for number in range(10_000))
    found = [name for name in names if partition_for(name, PARTITIONS) == partition]
    return found[:count]


def world_with(records: dict[int, int]) -> World:
    """A log with a number of offsets per partition."""
    world = World(SimulatedDisk(1))
    for partition in range(PARTITIONS):
        log = world.log(TOPIC, partition)
        group = groups_of(partition, 1)[0]
        for number in range(records.get(partition, 0)):
            world.writer.append(log, build_batch([offset(group, number)], 1))
    world.settle()
    return world


def coordinator(world: World) -> Coordinator:
    return one_partition(FilesLog(world), PARTITIONS)


@pytest.mark.interpreted
async def test_the_smallest_partition_is_served_first() -> None:
    world = world_with({0: 30, 1: 3, 3: 10})
    into = coordinator(world)
    order: list[int] = []
    loaded = into.loaded

    def note(partition: int) -> None:
        order.append(partition)
        loaded(partition)

    into.loaded = note  # type: ignore[method-assign]
    await Loading(Metrics()).run(into)
    assert order == [2, 1, 3, 0]
    assert into.partitions.states == [ACTIVE] * PARTITIONS


async def test_others_get_turns_and_see_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinatord.base.budget.SLICE_S", 0.0)
    monkeypatch.setattr(loading, "PROGRESS_S", 0.0)
    monkeypatch.setattr("coordinatord.coordination.service.partition_load.SLICE_ITEMS", 10)
    world = world_with({0: 100, 1: 50})
    into, metrics = coordinator(world), Metrics()
    each = Loading(metrics)
    seen: list[tuple[float, int]] = []
    with captured() as lines:
        task = asyncio.create_task(each.run(into))
        while not task.done():
            await asyncio.sleep(0)
            seen.append((each.ratio, sum(state == ACTIVE for state in into.partitions.states)))
        await task
    assert len(seen) > 10
    assert seen == sorted(seen)
    assert {served for _, served in seen} == {0, 1, 2, 3, 4}
    assert any(0.1 < ratio < 0.9 for ratio, _ in seen)
    assert each.ratio == 1.0
    assert each.records == metrics.loaded_records == 150
    assert metrics.loaded_bytes == each.bytes == each.total_bytes > 0
    assert sum(metrics.load_seconds.counts) == 2
    assert each.records_per_second == pytest.approx(150 / each.seconds)
    told = [line for line in lines if line["event"] == "loading groups"]
    assert told
    assert {line["partition"] for line in told} >= {f"{TOPIC}-0", f"{TOPIC}-1"}
    assert all(set(line) >= {"percent", "records", "records_per_second", "seconds"} for line in told)


async def test_a_partition_that_cannot_be_read_has_failed() -> None:
    world = world_with({0: 3, 1: 1})
    world.disk.content(world.log(TOPIC, 0).segments[0].log_path)[70] ^= 1
    into = coordinator(world)
    with pytest.raises(LogDamaged):
        await Loading(Metrics()).run(into)
    assert into.partitions.states == [FAILED, ACTIVE, ACTIVE, ACTIVE]
    assert into.partitions.counts() == {"loading": 0, "active": 3, "failed": 1}


async def test_an_empty_log_is_loaded_at_once() -> None:
    into = coordinator(world_with({}))
    each = Loading(Metrics())
    await each.run(into)
    assert not into.is_loading
    assert (each.ratio, each.records, each.total_bytes) == (1.0, 0, 0)


async def test_handing_over_many_groups_is_cut_into_slices() -> None:
    world = World(SimulatedDisk(1))
    log = world.log(TOPIC, 0)
    for partition in range(1, PARTITIONS):
        world.log(TOPIC, partition)
    names = groups_of(0, 1_000)
    world.writer.append(log, build_batch([offset(name, 0) for name in names], 1))
    world.settle()
    into = coordinator(world)
    steps = [len(into.actors) for _ in into.load(0, replay(log))]
    assert max(after - before for before, after in pairwise(steps)) == 50
    assert len(into.actors) == 1_000


def _loaded(log: PartitionLog) -> tuple[Coordinator, int]:
    into = one_partition()
    records = sum(into.load(0, replay(log)))
    return into, records


def test_loading_ends_although_nothing_is_left_below_the_end_offset() -> None:
    """KAFKA-9065: all records were removed, but their offsets remain; Kafka searched for them for ever."""
    world = World(SimulatedDisk(1), config=LogConfig(segment_bytes=200))
    log = world.log(TOPIC)
    for number in range(4):
        world.writer.append(log, build_batch([offset("g", number)], 1))
    world.settle()
    world.writer.roll(log)  # an empty segment's name says where the log ends
    world.settle()
    world.close()
    directory = log.directory
    for name in world.disk.listdir(directory):
        if name.endswith((".log", "index")):
            del world.disk.content(f"{directory}/{name}")[:]
    again = World(world.disk, config=world.config)
    log = again.log(TOPIC)
    assert (log.log_start_offset, log.end_offset) == (0, 4)
    assert len(log.segments) > 1
    into, records = _loaded(log)
    assert (into.actors, records, into.partitions.states) == ({}, 0, [ACTIVE])


def test_loading_ends_where_the_log_ended_when_it_began() -> None:
    """KAFKA-9065: records appended meanwhile are not read; otherwise loading could follow the end for ever."""
    world = World(SimulatedDisk(1), config=LogConfig(segment_bytes=300))
    log = world.log(TOPIC)
    world.writer.append(log, build_batch([offset("g", 0)], 1))
    world.settle()
    into = one_partition()
    seen = 0
    for batch in replay(log):
        seen += 1
        world.writer.append(log, build_batch([offset("g", batch.header.next_offset)], 1))
        world.settle()
    assert seen == 1
    assert log.high_watermark == 2
    assert sum(into.load(0, replay(log))) == 2


def test_a_gap_at_the_end_is_not_waited_for() -> None:
    """A batch whose last records the cleaner removed still ends at its last offset."""
    world = World(SimulatedDisk(1))
    log = world.log(TOPIC)
    batch = build_batch([offset("g", 0), offset("g", 1)], 1)
    batch[23:27] = (9).to_bytes(4, "big")  # last offset delta
    write_crc(batch)
    world.writer.append(log, batch)
    world.settle()
    assert log.end_offset == 10
    into, records = _loaded(log)
    assert records == 2
    assert sorted(into.actors["g"].group.offsets["t"]) == [0, 1]
    assert into.partitions.states == [ACTIVE]

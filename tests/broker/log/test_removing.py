"""Files that nobody needs any more go beside what is being committed, however long that takes."""

from __future__ import annotations

import pytest

from coordinatord.broker.log import LogConfig, PartitionLog
from coordinatord.broker.log.simulated_disk import SimulatedDisk
from kafka_wire.records.batch import KeyValues, build_batch
from tests.broker.log.world import PATH, World


def world_with(*topics: str) -> World:
    world = World(SimulatedDisk(), config=LogConfig(segment_bytes=200, retention_ms=1_000, index_interval_bytes=1))
    for topic in topics:
        for number in range(4):
            world.writer.append(world.log(topic), build_batch([(b"k%d" % number, bytes(50))], number))
    world.settle()
    return world


def commit(world: World, log: PartitionLog) -> list[str]:
    """What has become of a commit when the writer's thread has done all that it has to do."""
    told: list[str] = []
    world.writer.hold(world.writer.append_records(log, KeyValues([(b"k", b"v")]), 1), lambda: told.append("durable"))
    world.loop.turn()
    world.worker.run_one()
    assert not world.worker.jobs
    world.loop.turn()
    return told


def names(world: World, topic: str) -> list[str]:
    return sorted(name for name in world.disk.listdir(f"{PATH}/{topic}-0") if name.endswith(".log"))


def test_a_topic_whose_deletion_takes_long_does_not_delay_a_commit() -> None:
    world = world_with("large", "orders")
    world.writer.delete([world.log("large")])
    assert commit(world, world.log("orders")) == ["durable"]
    [left] = [name for name in world.disk.listdir(PATH) if name.startswith("large-0")]
    assert left.endswith("-delete"), "its files are still there"
    world.settle()
    assert not any(name.startswith("large-0") for name in world.disk.listdir(PATH))


@pytest.mark.parametrize("way", ["retention", "records"])
def test_segments_that_go_do_not_delay_a_commit(way: str) -> None:
    world = world_with("large", "orders")
    log = world.log("large")
    before = names(world, "large")
    assert len(before) > 2
    if way == "retention":
        assert world.writer.apply_retention(1_000_000)
    else:
        world.writer.delete_records(log, log.high_watermark)
    assert commit(world, world.log("orders")) == ["durable"]
    assert set(names(world, "large")) >= set(before)
    world.settle()
    assert names(world, "large") == ([f"{log.end_offset:020}.log"] if way == "retention" else before[-1:])


@pytest.mark.interpreted
def test_an_epoch_waits_for_the_files_of_one_segment_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_with("large")
    flusher = world.writer._flusher
    free: list[bool] = []
    forget = flusher.forget_segment
    lock = flusher.lock

    class Lock:
        def __enter__(self) -> None:
            free.append(True)
            lock.acquire()

        def __exit__(self, *_what: object) -> None:
            lock.release()

    monkeypatch.setattr(flusher, "lock", Lock())
    monkeypatch.setattr(flusher, "forget_segment", lambda segment: (free.append(False), forget(segment)))
    removed = world.writer.apply_retention(1_000_000)
    world.background.run_one()
    assert removed > 1
    assert free == [True, False] * removed + [True]


def test_a_stop_removes_what_is_left_to_remove() -> None:
    world = world_with("large", "orders")
    world.writer.delete([world.log("large")])
    world.close()
    assert not any(name.startswith("large") for name in world.disk.listdir(PATH))
    assert World(world.disk).data.topics().keys() == {"orders"}

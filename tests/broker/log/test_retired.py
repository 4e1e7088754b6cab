"""A full journal: the next one begins, and beside it the segments are flushed that the old one stands in for."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

from coordinatord.broker.log import LogConfig, LogDamaged, PartitionLog
from coordinatord.broker.log import checkpoint as checkpoints
from coordinatord.broker.log.flusher import BACKLOG
from coordinatord.broker.log.journal import (
    JOURNAL_BYTES,
    SPARE,
    Journal,
    JournalWrite,
    journal_names,
    read_journal,
    spare_names,
)
from coordinatord.broker.log.simulated_disk import CrashKind, SimulatedCrash, SimulatedDisk
from coordinatord.broker.log.writer import FlushPolicy
from kafka_wire.records.batch import build_batch
from tests.broker.log.world import PATH, World, contents

JOURNAL = 3_000
TOPIC_ID = b"E" * 16


def made(disk: SimulatedDisk | None = None, flush: FlushPolicy = "always", partitions: int = 3) -> World:
    world = World(disk or SimulatedDisk(), flush=flush, journal_bytes=JOURNAL)
    world.data.create("events", range(partitions), TOPIC_ID, LogConfig())
    return world


def logs(world: World) -> list[PartitionLog]:
    return [log for _key, log in sorted(world.data.logs.items())]


def write(world: World) -> None:
    """All that there is to write; nothing is done in the background."""
    while world.loop.ready or world.worker.jobs:
        world.loop.turn()
        world.worker.run_one()


def until_a_spare_is_wanted(world: World) -> int:
    """Fill the first journal, with batches of 50,000 bytes; how many they were."""
    number, log = 0, world.log()
    while not world.background.jobs:
        world.writer.append(log, build_batch([(b"k", bytes(50_000))], number))
        write(world)
        number += 1
    return number


def commit(world: World, number: int, size: int = 100) -> None:
    """A batch for one of the partitions, acknowledged; nothing is done in the background."""
    log = logs(world)[number % len(world.data.logs)]
    told: list[int] = []
    _, epoch = world.writer.append(log, build_batch([(b"%d" % number, bytes(size))], number))
    world.writer.hold(epoch, lambda: told.append(number))
    write(world)
    assert told == [number]


def fill_journal(world: World, first: int = 0) -> int:
    """Commit until a journal gives way to the next one, with a first commit; the next number."""
    number = first
    while world.writer._flusher._retired is None:
        commit(world, number)
        number += 1
        if world.writer._flusher._retired is None:
            while world.background.run_one():
                pass
    return number


def journals(world: World) -> list[str]:
    return journal_names(world.disk.listdir(PATH))


def recovery_points(world: World) -> dict[tuple[str, int], int]:
    return checkpoints.read_offsets(world.disk, f"{PATH}/{checkpoints.RECOVERY_POINT}")


def keys(world: World) -> set[int]:
    return {int(key or b"") for log in logs(world) for _offset, key, _value in contents(log)}


def test_the_next_journal_begins_before_the_segments_are_flushed() -> None:
    world = made()
    number = fill_journal(world)
    before, synced = recovery_points(world), world.disk.datasyncs
    for more in range(number, number + 5):
        commit(world, more)
    assert len(journals(world)) == 2
    assert world.disk.datasyncs == synced + 5  # the epochs' own
    assert recovery_points(world) == before
    world.settle()
    assert len(journals(world)) == 1
    # What was written since is the new journal's.
    assert sum(recovery_points(world).values()) == number - 1
    world.disk.crash("power")
    again = World(world.disk)
    assert keys(again) == set(range(number + 5))
    assert sum(each.journal_writes for each in again.data.recovered) == 6


def test_a_segment_at_a_time() -> None:
    world = made()
    number = fill_journal(world)
    assert len(world.background.jobs) == 1
    before = recovery_points(world)
    for _ in range(3):
        synced = world.disk.datasyncs
        world.background.run_one()
        assert world.disk.datasyncs == synced + 3  # the segment's log and indexes
        assert (len(journals(world)), recovery_points(world)) == (2, before)
    world.background.run_one()
    assert (len(journals(world)), sum(recovery_points(world).values())) == (1, number - 1)


@pytest.mark.parametrize("flush", ["always", "interval"])
def test_a_disk_slower_than_the_load_is_waited_for(flush: FlushPolicy) -> None:
    """The background's thread does not get to anything: the writer's does it, and no file grows without bound."""
    world = made(flush=flush)
    for number in range(300):
        commit(world, number)
        assert len(journals(world)) <= 2
        for name in journals(world):
            held = [len(entry.data) for entry in read_journal(world.disk, f"{PATH}/{name}")]
            assert sum(held) < BACKLOG * JOURNAL + 500
    assert sum(recovery_points(world).values()) > 200
    world.settle()
    world.close()
    assert not [name for name in world.disk.listdir(PATH) if "journal" in name]
    assert keys(World(world.disk)) == set(range(300))


def test_the_file_is_used_again() -> None:
    """And what it held before is not taken for what it holds."""
    world = made()
    number, used = 0, 0
    names: set[str] = set()
    for _ in range(6):
        number = fill_journal(world, number)
        world.settle()
        [name] = journals(world)
        names.add(name)
        assert len(list(read_journal(world.disk, f"{PATH}/{name}"))) == 1
        used += world.disk.content(f"{PATH}/{name}").count(b"CdJ1") > 1
        [spare] = spare_names(world.disk.listdir(PATH))
        assert len(world.disk.content(f"{PATH}/{spare}")) >= JOURNAL
    assert (len(names), used) == (6, 5)
    world.disk.crash("power")
    again = World(world.disk)
    assert keys(again) == set(range(number))
    assert sum(each.journal_writes for each in again.data.recovered) == 1


def test_damage_among_older_records() -> None:
    """A damaged record of a journal whose file holds older ones behind it: refused when a newer one follows, and cut
    off as torn when only older ones do.
    """
    disk = SimulatedDisk()
    disk.makedirs(PATH)
    journal = Journal(disk, PATH, 1)
    for epoch in range(1, 20):
        journal.append(epoch, [JournalWrite(TOPIC_ID, "events-0", 0, 0, [b"old" * 30], 90)], after_flush=True)
    journal.spare()
    journal.begin(20)
    assert list(read_journal(disk, journal.path)) == []
    ends = []
    for epoch in range(20, 26):
        journal.append(epoch, [JournalWrite(TOPIC_ID, "events-0", 0, 0, [b"new" * 30], 90)], after_flush=True)
        ends.append(journal.size)
    assert [entry.data[:3] for entry in read_journal(disk, journal.path)] == [b"new"] * 6
    disk.damage(journal.path, ends[-1] - 1)
    assert len(list(read_journal(disk, journal.path))) == 5
    disk.damage(journal.path, ends[2])
    with pytest.raises(LogDamaged, match="a journal record is damaged"):
        list(read_journal(disk, journal.path))


def test_a_journal_that_has_a_successor_must_be_whole() -> None:
    world = made()
    number = fill_journal(world)
    commit(world, number)
    old, _new = journals(world)
    content = world.disk.content(f"{PATH}/{old}")
    world.disk.damage(f"{PATH}/{old}", content.rfind(b"CdJ1") - 1)  # in the last record but one, which says it is last
    world.disk.damage(f"{PATH}/{old}", content.rfind(b"CdJ1") + 5)
    world.disk.crash("kill")
    with pytest.raises(LogDamaged, match="was begun after it"):
        World(world.disk)


def test_a_flush_that_fails_in_the_background_stops_the_log() -> None:
    world = made()
    number = fill_journal(world)
    commit(world, number)
    world.background.run_one()
    world.disk.datasyncs_left = 0
    world.background.run_one()
    world.disk.datasyncs_left = None  # a second try would succeed, and prove nothing
    world.loop.turn()
    assert [str(error) for error in world.failures] == ["[Errno 5] input/output error"]
    assert not world.background.jobs
    before = recovery_points(world)
    with pytest.raises(OSError, match="input/output"):
        world.writer._flusher.flush_some()
    world.close()
    assert len(journals(world)) == 2
    assert recovery_points(world) == before
    assert ".kafka_cleanshutdown" not in world.disk.listdir(PATH)
    world.disk.crash("power")
    assert keys(World(world.disk)) == set(range(number + 1))


def test_a_failure_that_nobody_has_heard_of_yet_is_no_clean_stop() -> None:
    world = made()
    fill_journal(world)
    world.disk.datasyncs_left = 0
    world.background.run_one()
    world.disk.datasyncs_left = None
    world.close()
    assert [str(error) for error in world.failures] == ["[Errno 5] input/output error"]
    assert journals(world)


def test_what_is_removed_meanwhile_is_not_flushed() -> None:
    world = made(partitions=4)
    number = fill_journal(world)
    first, second, *_ = logs(world)
    world.writer.delete([first])
    second.roll()
    commit(world, number)  # to the third
    world.writer.append(second, build_batch([(b"900", b"v")], 1))
    write(world)
    world.writer.delete_records(second, second.high_watermark)
    world.settle()
    assert not world.failures
    assert set(recovery_points(world)) == {("events", partition) for partition in (1, 2, 3)}
    assert not journals(world) or len(journals(world)) == 1
    world.disk.crash("power")
    again = World(world.disk)
    assert again.data.get("events", 0) is None
    assert again.log("events", 1).log_start_offset == second.high_watermark


def test_a_spare_is_made_of_zeros_beside_the_first_journal() -> None:
    world = World(SimulatedDisk(), journal_bytes=3 << 20)
    log = world.log()
    number = until_a_spare_is_wanted(world)
    [first] = journals(world)
    assert 1 << 20 <= sum(len(e.data) for e in read_journal(world.disk, f"{PATH}/{first}")) < (1 << 20) + 60_000
    world.settle()
    assert world.disk.content(f"{PATH}/{SPARE}") == bytes(3 << 20)
    for _ in range(2):  # the first one ends with the one, the next begins with the other
        world.writer.append(log, build_batch([(b"k", b"v")], number))
        write(world)
        number += 1
    assert len(journals(world)) == 2
    world.settle()
    [second] = journals(world)
    assert first != second
    assert len(world.disk.content(f"{PATH}/{second}")) == 3 << 20
    # The first one's file is made as long.
    assert len(world.disk.content(f"{PATH}/{SPARE}")) == 3 << 20
    world.close()
    assert not [name for name in world.disk.listdir(PATH) if "journal" in name]


def test_without_room_there_is_no_spare() -> None:
    world = World(SimulatedDisk(), journal_bytes=JOURNAL_BYTES)
    log = world.log()
    number = until_a_spare_is_wanted(world)
    world.disk.capacity = world.disk.used() + (2 << 20)
    world.settle()
    assert not world.failures
    world.disk.capacity = None
    for _ in range(3):
        world.writer.append(log, build_batch([(b"k", b"v")], number))
        world.settle()
        number += 1
    assert not world.failures
    world.disk.crash("power")
    assert World(world.disk).log().end_offset == number


def test_a_spare_that_a_crash_has_left_goes_at_the_next_start() -> None:
    world = made()
    fill_journal(world)
    world.settle()
    assert spare_names(world.disk.listdir(PATH))
    world.disk.crash("kill")
    assert not spare_names(World(world.disk).disk.listdir(PATH))


def test_whose_a_spare_is() -> None:
    names = [SPARE, f"worker-1-{SPARE}", f"worker-12-{SPARE}", f"{SPARE}-1", f"my-{SPARE}", "journal-1"]
    assert spare_names(names) == names[:3]
    assert spare_names(names, 1) == [names[1]]


def interleaved(world: World, chance: random.Random, acknowledged: set[int]) -> Iterator[int]:
    """Commits, some of them rolling their segment, with the background doing as little or as much as chance will."""
    for number in itertools.count():
        log = logs(world)[chance.randrange(3)]
        if chance.random() < 0.05:
            log.roll()
        yield number
        _, epoch = world.writer.append(log, build_batch([(b"%d" % number, bytes(chance.choice((20, 400))))], number))
        world.writer.hold(epoch, lambda number=number: acknowledged.add(number))  # type: ignore[misc]
        for _ in range(chance.randint(1, 3)):
            world.loop.turn()
            world.worker.run_one()
            if chance.random() < 0.5:
                world.background.run_one()


@pytest.mark.parametrize(
    ("flush", "kind", "every"), [("always", "power", 1), ("always", "kill", 5), ("interval", "power", 5)]
)
def test_a_crash_at_every_step(flush: FlushPolicy, kind: CrashKind, every: int) -> None:
    """Of the disk, while the first few journals become full, are used again and give way."""
    names: set[int] = set()
    for steps in range(100, 600, every):
        disk = SimulatedDisk(steps)
        world = made(disk, flush)
        disk.crash_after = steps
        acknowledged: set[int] = set()
        written = -1
        with pytest.raises(SimulatedCrash):  # noqa: PT012  the last thing it does
            for number in interleaved(world, random.Random(steps), acknowledged):
                written = number
                if disk.crashed:
                    raise SimulatedCrash
        names.add(len(journal_names(disk.listdir(PATH))))
        disk.crash(kind)
        found = keys(World(disk))
        assert found <= set(range(written + 1))
        if flush == "always" or kind == "kill":
            assert acknowledged <= found
    assert {1, 2} <= names

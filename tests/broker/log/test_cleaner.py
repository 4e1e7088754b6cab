"""When the cleaner cleans, what it does when something is in its way, and how the new segments come in."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from coordinatord.broker.log import (
    DataDirectory,
    LogConfig,
    LogDamaged,
    OffsetOutOfRange,
    cleaner,
    replay,
    segment_swap,
)
from coordinatord.broker.log.cleaner import LOST_IN_A_ROW, Cleaner, CleanerSettings
from coordinatord.broker.log.cleaner_process import Process
from coordinatord.broker.log.cleaning import Cleaned, Job, Statistics, clean
from coordinatord.broker.log.disk import OsDisk
from coordinatord.broker.log.errors import CleanerLost
from coordinatord.broker.log.simulated_disk import SimulatedDisk
from coordinatord.broker.log.writer import LogWriter
from kafka_wire.records.batch import NO_TIMESTAMP, BatchBuilder, build_batch
from tests.broker.log.lookups import first_at
from tests.broker.log.test_cleaning import COMPACT, append, roll
from tests.broker.log.world import PATH, HandLoop, HandWorker, World, contents

NOW = 1_000_000


def filled(config: LogConfig = COMPACT, rounds: int = 3, disk: SimulatedDisk | None = None) -> World:
    """Three finished segments, in each the keys a and b; the active one is empty."""
    world = World(disk or SimulatedDisk(), config=config)
    for number in range(rounds):
        append(world, [(b"a", b"%d" % number), (b"b", b"%d" % number)])
        roll(world)
    return world


def last_of(world: World) -> dict[bytes | None, bytes | None]:
    return {key: value for _offset, key, value in contents(world.log())}


# --- when -------------------------------------------------------------------------------------------------------------


def test_a_log_is_left_alone_until_its_ratio_is_reached() -> None:
    world = filled(replace(COMPACT, min_cleanable_dirty_ratio=0.5, segment_bytes=150))
    assert len(world.clean()) == 1  # nothing is clean yet: all of it is dirty
    append(world, [(b"a", b"x")])
    roll(world)
    assert world.clean() == []
    assert 0.2 < world.cleaner.state.max_dirty_ratio < 0.5
    append(world, [(b"a", b"x" * 500)])
    roll(world)
    assert len(world.clean()) == 1


def test_a_log_that_is_not_compacted_is_left_alone() -> None:
    world = filled(LogConfig(cleanup_policy="delete", min_cleanable_dirty_ratio=0.0))
    assert world.clean() == []


def test_the_dirtiest_log_comes_first() -> None:
    world = filled()
    world.clean()
    append(world, [(b"a", b"x")])
    roll(world)
    other = world.log("other")
    append(world, [(b"a", b"1")], [(b"a", b"2")], log=other)
    world.writer.roll(other)
    world.settle()
    assert [name for name, _statistics in world.clean()] == ["other-0", "events-0"]


def test_what_is_too_young_is_not_compacted() -> None:
    world = filled(replace(COMPACT, min_compaction_lag_ms=1000), rounds=0)
    for time in (NOW - 2000, NOW - 1500, NOW - 500, NOW - 3000):
        append(world, build_batch([(b"a", b"%d" % time)], time))
        roll(world)
    world.clean()
    # Up to the first segment that is too young, whatever comes after it.
    assert [offset for offset, _key, _value in contents(world.log())] == [1, 2, 3]
    world.now_ms += 1000
    world.clean()
    assert [offset for offset, _key, _value in contents(world.log())] == [3]


def test_what_is_too_old_is_compacted_whatever_the_ratio() -> None:
    config = replace(COMPACT, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=5000)
    world = filled(config)
    assert world.clean() == []
    world.now_ms += 5001
    assert len(world.clean()) == 1
    assert world.cleaner.state.max_delay_ms == 0


@pytest.mark.parametrize("setting", ["segment_ms", "max_compaction_lag_ms"])
def test_a_quiet_active_segment_is_finished_and_cleaned(setting: str) -> None:
    """Kafka waits for the next append; nobody who has set segment.ms expects that."""
    world = World(SimulatedDisk(), config=replace(COMPACT, **{setting: 5000}))  # type: ignore[arg-type]
    append(world, [(b"a", b"1")], [(b"a", b"2")])
    world.now_ms += 5000
    assert world.clean() == []
    assert world.clean() == []
    assert len(world.log().segments) == 1
    world.now_ms += 1
    world.clean()  # begins a new segment
    assert len(world.clean()) == 1
    assert contents(world.log()) == [(1, b"a", b"2")]
    assert len(world.log().segments) == 2
    world.now_ms += 50_000
    world.clean()
    assert len(world.log().segments) == 2  # an empty one is not finished again


def test_an_active_segment_that_is_written_to_is_not_finished_for_its_age() -> None:
    """Records that are old when they come, as a mirror's are: their own times tell when a segment is full."""
    world = World(SimulatedDisk(), config=replace(COMPACT, segment_ms=5000))
    world.now_ms += 1_000_000
    for number in range(5):
        append(world, [(b"a", b"%d" % number)])
        assert world.clean() == []
    assert len(world.log().segments) == 1


def test_a_checkpoint_that_cannot_be_is_not_believed() -> None:
    world = filled()
    world.data.cleaned_offsets["events", 0] = 1_000
    [(_name, statistics)] = world.clean()
    assert statistics.records_kept == 2
    assert world.data.cleaned_offsets["events", 0] == 6


def test_the_checkpoint_survives_a_restart_and_goes_with_its_topic() -> None:
    world = filled()
    world.clean()
    world.close()
    again = World(world.disk, config=COMPACT)
    assert again.data.cleaned_offsets == {("events", 0): 6}
    assert again.clean() == []
    again.writer.delete([again.log()])
    assert again.data.cleaned_offsets == {}
    again.close()
    assert World(world.disk, config=COMPACT).data.cleaned_offsets == {}


@pytest.mark.parametrize("keys", [7, 10_000])
def test_the_work_is_in_proportion_to_what_is_written(keys: int) -> None:
    """Every byte is read three times at most, on average: once for the map, once as dirty, and the clean part is never
    larger than the dirty one (ratio 0.5). Whether all keys come back, or none.
    """
    world = World(SimulatedDisk(), config=replace(COMPACT, min_cleanable_dirty_ratio=0.5, segment_bytes=2000))
    written = 0
    for number in range(400):
        batch = build_batch([(b"k%d" % (number % keys), b"x" * 100)], NOW)
        written += len(batch)
        append(world, batch)
        world.clean()
    assert world.cleaner.state.runs > 3
    assert written / 2 < world.cleaner.state.bytes_read < 3 * written


# --- in the way -------------------------------------------------------------------------------------------------------


def test_reading_from_end_to_end_holds_up_the_swap() -> None:
    """KAFKA-19862: what a loading coordinator has seen of a key must not be what a tombstone has deleted meanwhile."""
    world = filled(replace(COMPACT, delete_retention_ms=0), rounds=0)
    append(world, [(b"a", b"1"), (b"b", b"1")], [(b"b", b"2")])
    roll(world)
    append(world, [(b"a", None)], [(b"c", b"1")])
    roll(world)
    loading = replay(world.log())
    table = {key: value for _offset, _time, key, value in next(loading).records}
    assert table == {b"a": b"1", b"b": b"1"}
    world.cleaner.look()
    for _ in range(5):
        world.settle()
        world.loop.fire_timers()
    assert len(world.log().segments) == 3
    for batch in loading:
        table.update({key: value for _offset, _time, key, value in batch.records})
    assert {key: value for key, value in table.items() if value is not None} == {b"b": b"2", b"c": b"1"}
    for _ in range(2):
        world.settle()
        world.loop.fire_timers()
    world.clean()
    append(world, [(b"d", b"1")])
    roll(world)
    world.now_ms += 10
    world.clean()
    assert last_of(world) == {b"b": b"2", b"c": b"1", b"d": b"1"}


def test_loading_that_begins_during_a_cleaning_holds_up_its_swap() -> None:
    world = filled()
    world.cleaner.look()
    while not any(name.endswith(".swap") for name in world.disk.listdir(f"{PATH}/events-0")):
        world.loop.turn()
        world.cleaner_worker.run_one()
    loading = replay(world.log())
    seen = [next(loading)]
    world.settle()
    seen += loading
    assert [batch.header.base_offset for batch in seen] == [0, 2, 4]
    world.loop.fire_timers()
    world.settle()
    assert [offset for offset, _key, _value in contents(world.log())] == [4, 5]


def test_a_read_never_sees_half() -> None:
    """At every step of a cleaning, whoever reads gets the records of before or of after."""
    world = filled()
    world.cleaner.look()
    seen = set()
    while world.loop.ready or world.cleaner_worker.jobs or world.worker.jobs:
        data = b"".join(world.log().read(offset, 1) for offset in range(6))
        assert data
        first_at(world.log(), 0)
        seen.add(tuple(offset for offset, _key, _value in contents(world.log())))
        if not world.cleaner_worker.run_one():
            world.loop.turn()
            world.worker.run_one()
    assert seen == {(0, 1, 2, 3, 4, 5), (4, 5)}
    assert sorted(world.disk.listdir(f"{PATH}/events-0"))[:3] == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
    ]


def test_the_last_batch_is_found_where_the_cleaner_has_put_it() -> None:
    """The log remembers where the last batch begins."""
    world = filled()
    log = world.log()
    before = log.read(4, 1000)
    world.clean()
    assert len(log.segments) == 2
    assert bytes(log.read(4, 1000)) == bytes(before)


@pytest.mark.parametrize("steps", range(1, 12))
def test_a_topic_may_be_deleted_at_any_moment_of_a_cleaning(steps: int) -> None:
    world = filled()
    world.cleaner.look()
    for _ in range(steps):
        if not world.cleaner_worker.run_one():
            world.loop.turn()
    world.writer.delete([world.log()])
    again = world.log()  # a new topic of that name, in a directory of that name
    append(world, [(b"n", b"1")])
    world.settle()
    assert contents(again) == [(0, b"n", b"1")]
    assert not world.cleaner.busy
    assert world.cleaner_failures == []
    world.close()
    assert contents(World(world.disk, config=COMPACT).log()) == [(0, b"n", b"1")]


def test_retention_waits_for_the_cleaner() -> None:
    world = filled(replace(COMPACT, cleanup_policy="compact,delete", retention_ms=10))
    world.cleaner.look()
    world.loop.turn()
    assert world.log().cleaning
    assert world.writer.apply_retention(NOW + 1_000_000) == 0
    world.writer.delete_records(world.log(), 3)
    world.settle()
    assert [offset for offset, _key, _value in contents(world.log())] == [4, 5]
    assert world.writer.apply_retention(NOW) == 0
    assert world.writer.apply_retention(NOW + 1_000_000) == 1
    assert world.log().log_start_offset == 6
    with pytest.raises(OffsetOutOfRange):
        world.log().read(5, 1)


def test_a_full_disk_stops_the_cleaning_and_nothing_else() -> None:
    world = filled()
    world.disk.capacity = world.disk.used() + 20
    assert world.clean() == []
    [failure] = world.cleaner_failures
    assert isinstance(failure, OSError)
    assert failure.errno == errno.ENOSPC
    assert len(contents(world.log())) == 6
    world.disk.capacity = None
    assert len(world.clean()) == 1
    assert last_of(world) == {b"a": b"2", b"b": b"2"}
    assert not [name for name in world.disk.listdir(f"{PATH}/events-0") if name.endswith("cleaned")]


class _Listed(SimulatedDisk):
    """Lists what happens to the names of the log's directory."""

    def __init__(self) -> None:
        super().__init__()
        self.happened: list[str] = []

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self.happened.append(os.path.splitext(new)[1])

    def unlink(self, path: str) -> None:
        super().unlink(path)
        self.happened.append("unlinked")

    def sync_dir(self, path: str) -> None:
        super().sync_dir(path)
        self.happened.append("flushed")


def test_the_directory_is_flushed_before_the_old_segments_are_set_aside_and_before_they_are_unlinked() -> None:
    """A file system may keep a later change of a directory and lose an earlier one. The disk of the simulated crashes
    keeps their order, so no crash there can tell.
    """
    disk = _Listed()
    world = filled(disk=disk)
    disk.happened.clear()
    world.clean()
    happened = disk.happened
    assert {".swap", ".deleted", "unlinked"} <= set(happened)
    for earlier, later in ((".swap", ".deleted"), (".deleted", "unlinked")):
        last = len(happened) - 1 - happened[::-1].index(earlier)
        assert "flushed" in happened[last : happened.index(later, last)]


@pytest.mark.parametrize("step", ["set_aside", "finish"])
def test_a_swap_that_gets_stuck_serves_on_and_ends_at_the_next_start(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    world = filled()

    def fail(*_arguments: object) -> None:
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(segment_swap, step, fail)
        assert world.clean() == []
    assert len(world.cleaner_failures) == 1
    assert last_of(world) == {b"a": b"2", b"b": b"2"}
    assert world.log().read(0, 1000)
    append(world, [(b"c", b"1")])
    assert world.clean() == []
    assert world.writer.apply_retention(NOW * 1000) == 0
    world.close()
    again = World(world.disk, config=COMPACT)
    assert last_of(again) == {b"a": b"2", b"b": b"2", b"c": b"1"}
    assert not [name for name in again.disk.listdir(f"{PATH}/events-0") if name.endswith((".swap", ".deleted"))]


def test_a_damaged_log_is_left_alone() -> None:
    world = filled()
    world.disk.damage(f"{PATH}/events-0/00000000000000000002.log", 65)
    assert world.clean() == []
    [failure] = world.cleaner_failures
    assert isinstance(failure, LogDamaged)
    assert failure.path.endswith("00000000000000000002.log")
    assert world.clean() == []  # it is not tried again and again
    assert len(world.cleaner_failures) == 1
    assert world.cleaner.state.uncleanable == 1
    assert world.cleaner.state.uncleanable_bytes == world.log().size_bytes


@pytest.mark.parametrize("killed", [1, LOST_IN_A_ROW, LOST_IN_A_ROW + 1])
def test_a_log_is_cleaned_although_processes_were_killed_over_it(killed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By whoever needed the memory. One that kills whatever reads it is left alone."""
    world = filled()

    def lost(_disk: object, _job: Job) -> Iterator[Cleaned]:
        raise CleanerLost("the cleaner's process ended with -9")
        yield

    with monkeypatch.context() as patched:
        patched.setattr(cleaner, "clean", lost)
        for _ in range(killed):
            assert world.clean() == []
    assert [str(failure) for failure in world.cleaner_failures] == ["the cleaner's process ended with -9"] * killed
    before = world.log().size_bytes
    cleaned = world.clean()
    assert bool(cleaned) == (killed <= LOST_IN_A_ROW) == (world.log().size_bytes < before)
    assert world.cleaner.state.uncleanable == (killed > LOST_IN_A_ROW)
    assert last_of(world) == {b"a": b"2", b"b": b"2"}


def test_a_failed_log_stops_the_cleaner() -> None:
    world = filled()
    world.writer.failed = OSError()
    assert world.clean() == []


# --- retention by time without times ----------------------------------------------------------------------------------


def test_a_segment_without_timestamps_is_as_old_as_its_file() -> None:
    config = LogConfig(retention_ms=1000)
    world = World(SimulatedDisk(), config=config)
    builder = BatchBuilder()
    builder.extend([(b"a", b"1")], NO_TIMESTAMP)
    append(world, builder.finish())
    roll(world)
    path = world.log().segments[0].log_path
    world.disk.set_modified(path, NOW)
    assert world.log().segments[0].max_timestamp == NO_TIMESTAMP
    assert world.writer.apply_retention(NOW + 1000) == 0
    assert world.writer.apply_retention(NOW + 1001) == 1


def test_a_rewritten_segment_keeps_the_time_of_its_file() -> None:
    world = filled()
    for segment, time in zip(world.log().segments, (5, 6, 7), strict=False):
        world.disk.set_modified(segment.log_path, time)
    world.clean()
    assert world.disk.modified_ms(world.log().segments[0].log_path) == 7


# --- in files, by a process -------------------------------------------------------------------------------------------


class InFiles:
    """A compacted log in real files, and a cleaner that starts processes."""

    def __init__(self, path: Path) -> None:
        config = replace(COMPACT, index_interval_bytes=100)
        self.data = DataDirectory.open(str(path))
        self.loop, self.worker, self.own = HandLoop(), HandWorker(), HandWorker()
        self.failures: list[BaseException] = []
        self.writer = LogWriter(self.data, self.loop, self.failures.append, worker=self.worker)
        [self.log] = self.data.create("events", [0], b"e" * 16, config)
        self.process = Process()
        self.cleaner = Cleaner(
            self.data,
            self.writer,
            self.loop,
            CleanerSettings(),
            workshop=self.process,
            worker=self.own,
            now_ms=lambda: NOW,
            on_failed=lambda log, error: self.failures.append(error),
        )
        for number in range(40):
            self.writer.append(self.log, build_batch([(b"k%d" % (number % 3), b"%d" % number)], NOW))
            if number % 10 == 9:
                self.writer.roll(self.log)
            self.settle()

    def settle(self) -> None:
        while self.loop.ready or self.worker.jobs or self.own.jobs:
            self.loop.turn()
            self.worker.run_one()
            self.own.run_one()

    def close(self) -> None:
        self.cleaner.close()
        self.writer.close()
        self.data.close()


@pytest.fixture
def in_files(tmp_path: Path) -> Iterator[InFiles]:
    world = InFiles(tmp_path / "data")
    yield world
    world.close()


def test_a_process_cleans_and_ends_when_nothing_is_left(in_files: InFiles) -> None:
    in_files.cleaner.look()
    in_files.settle()
    assert in_files.failures == []
    assert in_files.cleaner.state.runs == 1
    assert contents(in_files.log) == [(number, b"k%d" % (number % 3), b"%d" % number) for number in (37, 38, 39)]
    assert in_files.process._process is None


def test_a_process_that_dies_costs_nothing_but_its_work(in_files: InFiles) -> None:
    results = in_files.process.clean(job_of(in_files))
    assert isinstance(next(results), Cleaned)
    process = in_files.process._process
    assert process is not None
    process.kill()
    process.wait()
    with pytest.raises(CleanerLost, match="ended with -9"):
        next(results)
    in_files.cleaner.look()
    in_files.settle()
    assert in_files.failures == []
    assert len(contents(in_files.log)) == 3


def test_stopping_does_not_wait_for_what_a_process_is_doing(in_files: InFiles) -> None:
    in_files.cleaner.look()
    in_files.loop.turn()
    assert in_files.own.jobs
    in_files.process.close()
    in_files.settle()
    assert in_files.failures == []
    assert not in_files.cleaner.busy
    assert len(contents(in_files.log)) == 40


def test_a_process_tells_of_damage_and_of_missing_files(in_files: InFiles) -> None:
    job = job_of(in_files)
    path = Path(in_files.log.segments[1].log_path)
    content = bytearray(path.read_bytes())
    content[65] ^= 1
    path.write_bytes(content)
    with pytest.raises(LogDamaged, match="crc") as damage:
        list(in_files.process.clean(job))
    assert damage.value.path == str(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        list(in_files.process.clean(job))


def test_no_more_is_read_and_written_per_second_than_allowed(in_files: InFiles) -> None:
    slept: list[float] = []
    job = replace(job_of(in_files), max_bytes_per_second=1000.0)
    results = list(clean(OsDisk(), job, sleep=slept.append))
    assert isinstance(results[-1], Statistics)
    total = sum(segment.log_bytes for segment in job.segments)
    assert sum(slept) > 0
    assert max(slept) < total / 1000.0 * 4


def job_of(world: InFiles) -> Job:
    """What the cleaner would have asked for."""
    jobs: list[Job] = []

    class Asked:
        def clean(self, job: Job) -> Iterator[Cleaned | Statistics]:
            jobs.append(job)
            yield Statistics(end_offset=job.first_dirty)

        def rest(self) -> None:
            pass

        def close(self) -> None:
            pass

    cleaner = Cleaner(
        world.data, world.writer, world.loop, CleanerSettings(), workshop=Asked(), worker=world.own, now_ms=lambda: NOW
    )
    cleaner.look()
    world.settle()
    return jobs[0]

"""Epochs: what shares a flush, when held replies go, and what a failing disk does."""

from __future__ import annotations

import asyncio
import errno
from functools import partial
from pathlib import Path

import pytest

from coordinatord.broker.log import DataDirectory, LogConfig, LogFailed, LogWriter, PartitionLog, replay
from coordinatord.broker.log.disk import OsDisk
from coordinatord.broker.log.flusher import NOW_BYTES
from coordinatord.broker.log.partition_log import MAX_SHARED_BATCH_BYTES
from coordinatord.broker.log.simulated_disk import SimulatedDisk
from coordinatord.broker.log.writer import FlushPolicy, FlushStats
from kafka_wire.records.batch import KeyValues, build_batch
from tests.broker.log.world import PATH, World, contents


def test_one_flush_for_everything_in_a_turn() -> None:
    world = World(SimulatedDisk())
    logs = world.data.create("__consumer_offsets", range(50), b"O" * 16, LogConfig(), lazy=True)
    for log in logs:
        world.writer.append_records(log, KeyValues([(b"k", b"v")]), 1)
    world.settle()
    before = world.disk.datasyncs
    told: list[int] = []
    for log in logs:
        epoch = world.writer.append_records(log, KeyValues([(b"k", b"v")]), 1)
        world.writer.hold(epoch, lambda: told.append(world.disk.datasyncs))
    world.settle()
    assert told == [before + 1] * 50


def test_what_arrives_during_a_flush_is_the_next_epoch() -> None:
    world = World(SimulatedDisk())
    log = world.log()
    order: list[str] = []
    first = world.writer.append_records(log, KeyValues([(b"a", b"1")]), 1)
    world.writer.hold(first, lambda: order.append("first"))
    world.loop.turn()
    second = world.writer.append_records(log, KeyValues([(b"b", b"2")]), 1)
    world.writer.hold(second, lambda: order.append("second"))
    world.writer.hold(first, lambda: order.append("first again"))
    assert second == first + 1
    world.loop.turn()
    assert len(world.worker.jobs) == 1, "one flush at a time"
    world.worker.run_one()
    world.loop.turn()
    assert order == ["first", "first again"]
    assert world.writer.flushed_epoch == first
    assert len(world.worker.jobs) == 1, "the next is handed over at once"
    world.settle()
    assert order == ["first", "first again", "second"]
    world.writer.hold(first, lambda: order.append("at once"))
    assert order[-1] == "at once"


def test_without_flushes_what_is_small_is_written_at_the_end_of_the_turn() -> None:
    world = World(SimulatedDisk(), flush="never")
    log = world.log()
    told: list[bytes] = []

    def append(value: bytes) -> int:
        epoch = world.writer.append_records(log, KeyValues([(b"k", value)]), 1)
        world.writer.hold(epoch, lambda: told.append(value[:1]))
        return epoch

    append(b"1")
    world.loop.turn()
    assert len(world.worker.jobs) == 1, "a file has to be made first"
    world.settle()
    flushes = world.disk.datasyncs
    append(b"2")
    append(b"3")
    assert told == [b"1"]
    world.loop.turn()
    assert (told, len(world.worker.jobs)) == ([b"1", b"2", b"3"], 0)
    assert [value for _, _, value in contents(log)] == [b"1", b"2", b"3"]
    assert world.disk.datasyncs == flushes
    append(b"4" * NOW_BYTES)
    world.loop.turn()
    assert (told[3:], len(world.worker.jobs)) == ([], 1)
    last = append(b"5")
    world.settle()
    assert told[3:] == [b"4", b"5"]
    assert world.writer.flushed_epoch == last


def begun() -> tuple[World, PartitionLog]:
    """Without flushes, a log that has its file."""
    world = World(SimulatedDisk(), flush="never")
    log = world.log()
    world.writer.append_records(log, KeyValues([(b"k", b"0")]), 1)
    world.settle()
    return world, log


def test_without_flushes_a_rare_append_is_written_when_somebody_asks() -> None:
    """Once in a millisecond, if nobody else waits. What comes sooner is written at the end of the turn."""
    world, log = begun()
    epoch = world.writer.append_records(log, KeyValues([(b"k", b"1")]), 1)
    assert world.writer.has_flushed(epoch)
    assert (log.high_watermark, world.writer.flushed_epoch) == (2, epoch)
    assert [value for _, _, value in contents(log)] == [b"0", b"1"]
    second = world.writer.append_records(log, KeyValues([(b"k", b"2")]), 1)
    assert not world.writer.has_flushed(second), "in the same millisecond"
    told: list[str] = []
    world.writer.hold(second, partial(told.append, "who waits"))
    world.now_ms += 1
    third = world.writer.append_records(log, KeyValues([(b"k", b"3")]), 1)
    assert not world.writer.has_flushed(third), "somebody waits"
    assert (told, log.high_watermark) == ([], 2)
    world.loop.turn()
    assert (told, log.high_watermark) == (["who waits"], 4)
    assert world.writer.has_flushed(third)
    last = world.writer.append_records(log, KeyValues([(b"k", b"4")]), 1)
    assert world.writer.has_flushed(last)
    world.loop.turn()
    assert world.writer.epoch == last + 1, "nothing was left to write at the end of the turn"
    assert not world.worker.jobs


def test_what_cannot_be_written_at_once_waits() -> None:
    """A new file, a flush, an epoch in flight: for those there is the worker."""
    for flush in ("never", "interval", "always"):
        world = World(SimulatedDisk(), flush=flush)
        log = world.log()
        epoch = world.writer.append_records(log, KeyValues([(b"k", b"1")]), 1)
        assert not world.writer.has_flushed(epoch), "a file has to be made first"
        assert log.high_watermark == 0
        world.now_ms += 1
        later = world.writer.append_records(log, KeyValues([(b"k", b"2")]), 1)
        assert not world.writer.has_flushed(later)
        world.settle()
        assert world.writer.has_flushed(later)
        world.now_ms += 1
        last = world.writer.append_records(log, KeyValues([(b"k", b"3")]), 1)
        assert world.writer.has_flushed(last) == (flush == "never")
        world.now_ms += 1
        assert not world.writer.has_flushed(last + 5), "an epoch that does not form yet"
        assert world.writer.epoch == last + (flush == "never"), "nothing was sealed for that"
        world.close()
        assert not world.writer.has_flushed(last + 5)


def test_a_write_for_somebody_who_asks_that_fails_stops_the_log() -> None:
    world, log = begun()
    world.disk.capacity = world.disk.used()
    told: list[str] = []
    epoch = world.writer.append_records(log, KeyValues([(b"b", bytes(200))]), 1)
    assert not world.writer.has_flushed(epoch)
    assert (len(world.failures), log.high_watermark) == (1, 1)
    world.writer.hold(epoch, partial(told.append, "durable"), partial(told.append, "failed"))
    assert told == ["failed"]
    world.now_ms += 1
    assert not world.writer.has_flushed(epoch)


def test_who_is_told_and_asks_for_more_waits_for_the_next_turn() -> None:
    """Otherwise holds of a later epoch would come before those that are left of this one."""
    world, log = begun()
    told: list[str] = []

    def more() -> None:
        later = world.writer.append_records(log, KeyValues([(b"k", b"2")]), 1)
        assert not world.writer.has_flushed(later)
        world.writer.hold(later, partial(told.append, "later"))

    epoch = world.writer.append_records(log, KeyValues([(b"k", b"1")]), 1)
    world.writer.hold(epoch, more)
    world.writer.hold(epoch, partial(told.append, "this one"))
    world.now_ms += 1
    world.loop.turn()
    assert told == ["this one"]
    world.loop.turn()
    assert told == ["this one", "later"]


def test_a_reader_that_raises_does_not_fail_who_asks() -> None:
    """It is raised in the next turn of the loop, to which all broken callbacks go."""
    world, log = begun()

    def broken() -> None:
        raise AssertionError("a broken reader")

    log.on_visible = broken
    epoch = world.writer.append_records(log, KeyValues([(b"k", b"1")]), 1)
    assert world.writer.has_flushed(epoch)
    with pytest.raises(AssertionError, match="a broken reader"):
        world.loop.turn()


def test_a_write_at_the_end_of_the_turn_that_fails_stops_the_log() -> None:
    world = World(SimulatedDisk(), flush="never")
    log = world.log()
    world.writer.append_records(log, KeyValues([(b"a", b"1")]), 1)
    world.settle()
    world.disk.capacity = world.disk.used()
    told: list[str] = []
    epoch = world.writer.append_records(log, KeyValues([(b"b", bytes(200))]), 1)
    world.writer.hold(epoch, lambda: told.append("durable"), lambda: told.append("failed"))
    world.loop.turn()
    assert told == ["failed"]
    assert len(world.failures) == 1
    with pytest.raises(LogFailed):
        world.writer.append_records(log, KeyValues([(b"c", b"3")]), 1)


def test_a_held_reply_may_append() -> None:
    world = World(SimulatedDisk())
    log = world.log()
    rounds: list[int] = []

    def again() -> None:
        rounds.append(world.writer.flushed_epoch)
        if len(rounds) < 4:
            world.writer.hold(world.writer.append_records(log, KeyValues([(b"k", b"v")]), 1), again)

    world.writer.hold(world.writer.append_records(log, KeyValues([(b"k", b"v")]), 1), again)
    world.settle()
    assert rounds == [1, 2, 3, 4]
    assert log.high_watermark == 4


@pytest.mark.parametrize("flush", ["interval", "never"])
def test_without_a_flush_before_the_reply(flush: str) -> None:
    world = World(SimulatedDisk(), flush=flush)  # type: ignore[arg-type]
    log = world.log()
    world.writer.append_records(log, KeyValues([(b"k", b"v")]), 1)
    world.settle()
    before = world.disk.datasyncs
    world.writer.append_records(log, KeyValues([(b"k", b"v")]), 1)
    world.settle()
    assert world.disk.datasyncs == before
    assert log.high_watermark == 2
    assert [delay for delay, _ in world.loop.later] == ([1.0] if flush == "interval" else [])
    world.loop.fire_timers()
    world.settle()
    assert world.disk.datasyncs == before + (flush == "interval")


def test_a_full_journal_gives_way_to_flushed_segments() -> None:
    world = World(SimulatedDisk(), journal_bytes=2000)
    log = world.log()
    names = set()
    for number in range(60):
        world.writer.append(log, build_batch([(b"k", bytes(100))], number))
        world.settle()
        names.update(name for name in world.disk.listdir(PATH) if name.startswith("journal-"))
        assert len([name for name in world.disk.listdir(PATH) if name.startswith("journal-")]) <= 1
    assert len(names) > 3
    world.disk.crash("power")
    assert World(world.disk).log().end_offset == 60


@pytest.mark.parametrize("failure", [errno.EIO, errno.ENOSPC])
def test_a_failing_disk_stops_the_log(failure: int) -> None:
    world = World(SimulatedDisk())
    log = world.log()
    world.writer.append_records(log, KeyValues([(b"a", b"1")]), 1)
    world.settle()
    if failure == errno.EIO:
        world.disk.datasyncs_left = 0
    else:
        world.disk.capacity = world.disk.used() + 50
    told: list[str] = []
    epoch = world.writer.append_records(log, KeyValues([(b"b", bytes(200))]), 1)
    world.writer.hold(epoch, lambda: told.append("durable"), lambda: told.append("failed"))
    world.loop.turn()
    later = world.writer.append_records(log, KeyValues([(b"c", b"3")]), 1)
    world.writer.hold(later, lambda: told.append("durable"), lambda: told.append("failed"))
    world.settle()
    assert told == ["failed", "failed"]
    (error,) = world.failures
    assert isinstance(error, OSError)
    assert error.errno == failure
    with pytest.raises(LogFailed):
        world.writer.append_records(log, KeyValues([(b"d", b"4")]), 1)
    with pytest.raises(LogFailed):
        world.writer.append(log, build_batch([(b"d", b"4")], 1))
    world.writer.hold(later, lambda: told.append("durable"), lambda: told.append("failed"))
    assert told[2:] == ["failed"]
    assert log.high_watermark == 1
    world.close()
    assert not world.disk.exists(f"{PATH}/.kafka_cleanshutdown")
    world.disk.capacity = None  # after space is made, a restart goes on
    world.disk.crash("kill")
    again = World(world.disk)
    survived = contents(again.log())
    assert survived[0] == (0, b"a", b"1")
    assert len(survived) <= 2
    again.writer.append_records(again.log(), KeyValues([(b"e", b"5")]), 1)
    again.settle()
    assert contents(again.log())[-1] == (len(survived), b"e", b"5")


def test_closing_writes_what_is_pending_and_tells_who_waits() -> None:
    world = World(SimulatedDisk())
    log = world.log()
    told: list[str] = []
    for name in ("a", "b"):
        epoch = world.writer.append_records(log, KeyValues([(name.encode(), b"1")]), 1)
        world.writer.hold(epoch, lambda name=name: told.append(name))  # type: ignore[misc]
        world.loop.turn()
    world.close()
    assert told == ["a", "b"]
    while world.loop.ready:
        world.loop.turn()  # completions that were still queued find nothing left to do
    assert told == ["a", "b"]
    with pytest.raises(LogFailed):
        world.writer.append_records(log, KeyValues([(b"c", b"3")]), 1)
    again = World(world.disk)
    assert again.data.was_clean
    assert len(contents(again.log())) == 2


def test_deleting_while_a_flush_is_under_way() -> None:
    world = World(SimulatedDisk())
    log = world.log()
    other = world.log("other")
    told: list[str] = []
    epoch = world.writer.append_records(log, KeyValues([(b"a", b"1")]), 1)
    world.writer.append_records(other, KeyValues([(b"a", b"1")]), 1)
    world.writer.hold(epoch, lambda: told.append("durable"))
    world.loop.turn()
    world.writer.delete([log])
    assert world.data.get("events", 0) is None
    fresh = world.log()
    assert fresh is not log
    world.writer.append_records(fresh, KeyValues([(b"new", b"2")]), 1)
    world.settle()
    assert told == ["durable"]
    assert contents(fresh) == [(0, b"new", b"2")]
    assert other.high_watermark == 1
    assert not [name for name in world.disk.listdir(PATH) if name.endswith("-delete")]


def test_partitions_made_by_their_first_write() -> None:
    world = World(SimulatedDisk())
    logs = world.data.create("__consumer_offsets", range(50), b"O" * 16, LogConfig(), lazy=True)
    assert not [name for name in world.disk.listdir(PATH) if name.startswith("__consumer")]
    world.writer.append_records(logs[7], KeyValues([(b"k", b"v")]), 1)
    world.settle()
    assert [name for name in world.disk.listdir(PATH) if name.startswith("__consumer")] == ["__consumer_offsets-7"]
    world.disk.crash("power")
    again = World(world.disk)
    assert again.data.topics() == {"__consumer_offsets": b"O" * 16}
    assert len(contents(again.log("__consumer_offsets", 7))) == 1
    world.writer.delete([logs[8]])  # one that was never made


def test_statistics() -> None:
    world = World(SimulatedDisk())
    stats: list[FlushStats] = []
    world.writer._on_flush = stats.append
    log = world.log()
    world.writer.append(log, build_batch([(b"a", b"1")], 1))
    world.settle()
    (one,) = stats
    assert (one.epoch, one.partitions, one.bytes) == (1, 1, log.size_bytes)
    assert one.seconds >= 0


async def test_with_threads_and_files(tmp_path: Path) -> None:
    """The real loop, thread and disk: many producers, all acknowledged, all there after a reopening."""
    data = DataDirectory.open(str(tmp_path / "data"))
    loop = asyncio.get_running_loop()
    failures: list[BaseException] = []
    writer = LogWriter(data, loop, failures.append, journal_bytes=20_000)
    logs = data.create("events", range(8), b"E" * 16, LogConfig(segment_bytes=10_000))

    async def produce(number: int) -> None:
        for turn in range(25):
            done = loop.create_future()
            record = (b"%d" % number, b"%d" % turn)
            log = logs[(number + turn) % len(logs)]
            if turn % 2:
                epoch = writer.append_records(log, KeyValues([record] * 3), turn)
            else:
                _, epoch = writer.append(log, build_batch([record] * 3, turn))
            writer.hold(epoch, partial(done.set_result, None))
            await asyncio.wait_for(done, 30)
            assert log.read(log.high_watermark - 1, 1)

    await asyncio.gather(*(produce(number) for number in range(20)))
    assert sum(log.high_watermark for log in logs) == 20 * 25 * 3
    writer.close()
    data.close()
    assert failures == []
    again = DataDirectory.open(str(tmp_path / "data"), disk=OsDisk())
    seen = [entry[2:] for log in again.logs.values() for batch in replay(log) for entry in batch.records]
    assert sorted(seen) == sorted((b"%d" % n, b"%d" % t) for n in range(20) for t in range(25) for _ in range(3))
    again.close()


def test_a_large_epoch_is_split_in_the_journal() -> None:
    world = World(SimulatedDisk())
    world.writer._flusher.split_bytes = 600
    logs = world.data.create("events", range(6), b"E" * 16, LogConfig())
    for turn in range(3):
        for log in logs:
            world.writer.append(log, build_batch([(b"k", bytes(200))], turn))
        world.settle()
    (name,) = (name for name in world.disk.listdir(PATH) if name.startswith("journal-"))
    assert world.disk.content(f"{PATH}/{name}").count(b"CdJ1") == 9
    for log in logs:
        del world.disk.content(log.segments[0].log_path)[:]
    world.disk.crash("kill")
    again = World(world.disk)
    assert [log.end_offset for log in again.data.logs.values()] == [3] * 6


def test_nothing_to_append() -> None:
    """KAFKA-20845: a flush of an empty batch."""
    world = World(SimulatedDisk())
    log = world.log()
    told: list[int] = []
    world.writer.hold(world.writer.append_records(log, KeyValues([]), 1), lambda: told.append(1))
    world.settle()
    assert told == [1]
    assert (log.end_offset, log.segments) == (0, [])
    world.close()
    assert World(world.disk).log().end_offset == 0


def test_nothing_is_flushed_where_there_is_nothing() -> None:
    """KAFKA-20845: a record too large for the shared batch comes when there is no batch yet, or an empty one."""
    world = World(SimulatedDisk(1))
    log = world.log()
    released: list[str] = []
    world.writer.hold(world.writer.append_records(log, KeyValues([]), 1), lambda: released.append("nothing"))
    large = b"x" * (MAX_SHARED_BATCH_BYTES + 1)
    for number in range(3):
        epoch = world.writer.append_records(log, KeyValues([(b"k%d" % number, large)]), 1)
    world.writer.hold(epoch, lambda: released.append("large"))
    world.writer.hold(world.writer.append_records(log, KeyValues([]), 1), lambda: released.append("nothing again"))
    world.settle()
    assert released == ["nothing", "large", "nothing again"]
    assert [(offset, key) for offset, key, _ in contents(log)] == [(0, b"k0"), (1, b"k1"), (2, b"k2")]
    assert log.high_watermark == log.end_offset == 3
    # An epoch of nothing alone ends, too.
    world.writer.hold(world.writer.append_records(log, KeyValues([]), 1), lambda: released.append("alone"))
    world.settle()
    assert released[-1] == "alone"
    assert not world.failures


@pytest.mark.parametrize("flush", ["always", "never"])
def test_who_raises_when_told_keeps_nobody_else_from_hearing(flush: FlushPolicy) -> None:
    """A mistake of ours in one answer, or in what looks at one partition. It is raised when all others have heard."""
    world = World(SimulatedDisk(), flush=flush)
    logs = [world.log("one"), world.log("two")]
    told: list[str] = []

    def broken(word: str) -> None:
        told.append(word)
        raise AssertionError(word)

    logs[0].on_visible = partial(broken, "one is visible")
    logs[1].on_visible = partial(told.append, "two is visible")
    for log in logs:
        world.writer.hold(
            world.writer.append_records(log, KeyValues([(b"k", b"v")]), 1), partial(broken, "a broken answer")
        )
    world.writer.hold(world.writer.epoch, partial(told.append, "an answer"))
    with pytest.raises(AssertionError, match="one is visible"):
        world.settle()
    assert told == ["one is visible", "two is visible", "a broken answer", "a broken answer", "an answer"]
    assert [log.high_watermark for log in logs] == [1, 1]
    logs[0].on_visible = None
    world.writer.hold(
        world.writer.append_records(logs[0], KeyValues([(b"k", b"v")]), 1), partial(told.append, "the next")
    )
    world.settle()
    assert told[-1] == "the next"


@pytest.mark.parametrize("flush", ["always", "never"])
def test_a_segment_that_somebody_has_removed_is_not_made_anew(flush: FlushPolicy) -> None:
    """What came next would be acknowledged, and lie behind a hole."""
    world = World(SimulatedDisk(), flush=flush)
    log = world.log()
    world.writer.append_records(log, KeyValues([(b"k", b"v")]), 1)
    world.settle()
    world.writer._flusher._files.drop_below(log.directory)
    world.disk.unlink(log.segments[0].log_path)
    told: list[str] = []
    epoch = world.writer.append_records(log, KeyValues([(b"k", b"v")]), 1)
    world.writer.hold(epoch, partial(told.append, "safe"), partial(told.append, "not safe"))
    world.settle()
    assert told == ["not safe"]
    [failure] = world.failures
    assert log.segments[0].log_path in str(failure)

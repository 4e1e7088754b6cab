"""Reading, look-ups by offset and time, rolling, retention."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from coordinatord.broker.log import LogConfig, OffsetOutOfRange, partition_log, replay
from coordinatord.broker.log.disk import File, FilePool
from coordinatord.broker.log.index import OFFSET_ENTRY, TIME_ENTRY
from coordinatord.broker.log.large_read import LargeRead
from coordinatord.broker.log.partition_log import MAX_NEWS_BYTES, PartitionLog
from coordinatord.broker.log.scan import walk
from coordinatord.broker.log.simulated_disk import SimulatedDisk
from coordinatord.broker.log.times import TimestampOffset
from coordinatord.transport.net.cooperative_tasks import run_through
from kafka_wire.records.batch import KeyValues, build_batch, iterate_batches, read_header
from kafka_wire.records.compression import Compression
from kafka_wire.records.key_values import key_values
from tests.broker.log.lookups import first_at, greatest
from tests.broker.log.world import World, contents


def filled(count: int = 200, *, seed: int = 1, **config: int) -> tuple[World, PartitionLog, list[tuple[int, int]]]:
    """A log of `count` batches, and the (offset, timestamp) of its records."""
    world = World(SimulatedDisk(), config=LogConfig(**config))  # type: ignore[arg-type]
    log = world.log()
    chance = random.Random(seed)
    times: list[tuple[int, int]] = []
    now = 1000
    for _ in range(count):
        now += chance.randint(-5, 15)
        size = chance.randint(1, 5)
        records = [(b"key", chance.randbytes(chance.randint(0, 200))) for _ in range(size)]
        codec = chance.choice([Compression.NONE, Compression.NONE, Compression.LZ4])
        base_offset, _ = world.writer.append(log, build_batch(records, now, compression=codec))
        times += [(base_offset + number, now) for number in range(size)]
        if chance.random() < 0.2:
            world.settle()
    world.settle()
    return world, log, times


CONFIGS = [{}, {"segment_bytes": 3000, "index_interval_bytes": 200}, {"segment_bytes": 500, "index_interval_bytes": 1}]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("max_bytes", [1, 700, 5000, 1 << 20])
def test_reading_on_from_each_batch_sees_every_record(config: dict[str, int], max_bytes: int) -> None:
    _, log, times = filled(**config)
    offset, seen = 0, []
    while offset < log.high_watermark:
        data = log.read(offset, max_bytes)
        headers = list(iterate_batches(data))
        assert len(data) <= max_bytes or len(headers) == 1
        for position, header in headers:
            seen += [entry[0] for entry in key_values(data, position, header)]
            offset = header.next_offset
    assert seen == [offset for offset, _ in times]
    assert log.read(offset, max_bytes) == b""


@pytest.mark.interpreted
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("max_bytes", [1, 700, 5000, 1 << 20])
@pytest.mark.parametrize("at_least_one", [True, False])
def test_a_large_read_returns_what_a_small_one_returns(
    config: dict[str, int], max_bytes: int, at_least_one: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if its segment is removed before it is read."""
    _, log, _ = filled(**config)
    offsets = range(0, log.high_watermark, 7)
    small = [bytes(log.read(offset, max_bytes, at_least_one=at_least_one)) for offset in offsets]
    monkeypatch.setattr(partition_log, "LARGE_READ_BYTES", 100)
    assert [bytes(log.read(offset, max_bytes, at_least_one=at_least_one)) for offset in offsets] == small
    begun = [log.begin_read(offset, max_bytes, at_least_one=at_least_one) for offset in offsets]
    for segment in log.segments:
        log.disk.unlink(segment.log_path)
    for found, expected in zip(begun, small, strict=True):
        assert isinstance(found, LargeRead) == (len(expected) > 100)
        assert bytes(run_through(found.steps()) if isinstance(found, LargeRead) else found) == expected


@pytest.mark.parametrize("config", CONFIGS)
def test_reading_at_any_offset_begins_with_the_batch_that_holds_it(config: dict[str, int]) -> None:
    _, log, times = filled(**config)
    order = [offset for offset, _ in times]
    random.Random(2).shuffle(order)
    for offset in order:
        header = read_header(log.read(offset, 1))
        assert header.base_offset <= offset <= header.last_offset


@pytest.mark.parametrize("config", CONFIGS)
def test_looking_up_by_time(config: dict[str, int]) -> None:
    _, log, times = filled(**config)
    first, last = min(time for _, time in times), max(time for _, time in times)
    for wanted in range(first - 2, last + 1, 7):
        expected = next((TimestampOffset(time, offset) for offset, time in times if time >= wanted))
        assert first_at(log, wanted) == expected
    assert first_at(log, last + 1) is None
    assert greatest(log) == next(TimestampOffset(time, offset) for offset, time in times if time == last)


@pytest.mark.parametrize("config", CONFIGS)
def test_headers_from_an_offset_on(config: dict[str, int]) -> None:
    _, log, times = filled(**config)
    everything = list(log.batches(0))
    assert sum(header.record_count for header in everything) == len(times)
    for offset in range(0, log.end_offset, 17):
        assert list(log.batches(offset)) == [header for header in everything if header.last_offset >= offset]
    assert list(log.batches(log.end_offset)) == []


def test_reads_end_at_the_high_watermark() -> None:
    world = World(SimulatedDisk())
    log = world.log()
    _, epoch = world.writer.append(log, build_batch([(b"a", b"1")], 10))
    assert (log.end_offset, log.high_watermark) == (1, 0)
    assert log.read(0, 1000) == b""
    assert log.read(1, 1000) == b""
    assert first_at(log, 0) is None
    assert greatest(log) is None
    world.settle()
    assert world.writer.flushed_epoch >= epoch
    assert log.high_watermark == 1
    assert read_header(log.read(0, 1000)).last_offset == 0
    world.writer.append(log, build_batch([(b"b", b"2")], 20))
    assert greatest(log) == TimestampOffset(10, 0)
    assert len(list(log.batches(0))) == 1


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize(("max_bytes", "size"), [(1 << 20, 100), (400, 100), (400, 1000), (1 << 20, MAX_NEWS_BYTES)])
def test_who_waits_is_given_what_has_become_visible(config: dict[str, int], max_bytes: int, size: int) -> None:
    """The same bytes that the files have, whatever was written with them, and nothing is kept of them."""
    world, log, _ = filled(20, **config)
    given: list[tuple[int, bytes]] = []
    reader = log.high_watermark

    def wake() -> None:
        nonlocal reader
        for offset in (reader, reader - 1) if reader < log.high_watermark else ():
            given.append((offset, bytes(log.read(offset, max_bytes))))
            *_, (_, last) = iterate_batches(given[-1][1])
            assert last.next_offset == log.high_watermark or max_bytes == 400 or offset < reader
        reader = log.high_watermark

    log.on_visible = wake
    for together in (1, 3, 1, 2):
        for number in range(together):
            world.writer.append(log, build_batch([(b"key", bytes(size))] * (1 + number), 2000))
        world.settle()
    assert reader == log.end_offset
    log.on_visible = None
    assert log._news is None
    assert len(given) >= 8
    for offset, data in given:
        found = bytes(log.read(offset, max_bytes))
        assert data
        assert found.startswith(data)
        assert len(data) <= max_bytes or len(list(iterate_batches(data))) == 1


def test_readers_at_the_end_read_no_file_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who wait read none; those who come late need not look for their place."""
    world, log, _ = filled(50)
    reads: list[int] = []
    kind = type(world.disk.open(log.segments[0].log_path))
    pread = kind.pread

    def counted(file: File, size: int, position: int) -> bytes:
        reads.append(position)
        return pread(file, size, position)

    end = log.high_watermark
    log.on_visible = lambda: [log.read(end, 1000) for _ in range(3)]
    monkeypatch.setattr(kind, "pread", counted)
    world.writer.append(log, build_batch([(b"key", b"value")], 2000))
    world.settle()
    assert reads == []
    log.on_visible = None
    for _ in range(3):
        assert read_header(log.read(end, 1000)).base_offset == end
    assert len(reads) == 3


def test_a_reader_at_the_end_goes_on_in_the_next_segment() -> None:
    world = World(SimulatedDisk())
    log = world.log()
    for number in range(4):
        world.writer.append(log, build_batch([(b"key", b"value")], 10))
        world.settle()
        assert read_header(log.read(number, 1000)).base_offset == number
        log.roll()
        world.settle()
    assert len(log.segments) == 5


def test_offsets_outside() -> None:
    _, log, _ = filled(5)
    for offset in (-1, log.end_offset + 1):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100)


def test_a_first_batch_larger_than_asked_for() -> None:
    world = World(SimulatedDisk())
    log = world.log()
    world.writer.append(log, build_batch([(b"a", bytes(5000))], 10))
    world.settle()
    assert log.read(0, 100, at_least_one=False) == b""
    assert len(log.read(0, 100)) > 5000


@pytest.mark.parametrize("small", [10, 20_000])
def test_what_is_read_keeps_no_more_memory_than_twice_its_size(small: int) -> None:
    world = World(SimulatedDisk())
    log = world.log()
    for size in (small, 500_000, 500_000):
        world.writer.append(log, build_batch([(None, bytes(size))], 1000))
    world.settle()
    data = log.read(0, 400_000)
    assert [header.record_count for _, header in iterate_batches(data)] == [1]
    assert len(data.obj if isinstance(data, memoryview) else data) <= 2 * len(data)
    assert isinstance(log.read(1, 900_000), memoryview), "of most of a buffer there is no copy"


def test_records_of_a_turn_share_a_batch_and_a_call_is_never_split() -> None:
    world = World(SimulatedDisk())
    log = world.log("__consumer_offsets")
    world.writer.append_records(log, KeyValues([(b"a", b"1"), (b"b", None)]), 10)
    world.writer.append_records(log, KeyValues([(b"c", b"3")]), 11)
    world.settle()
    (batch,) = replay(log)
    assert batch.records == [(0, 10, b"a", b"1"), (1, 10, b"b", None), (2, 11, b"c", b"3")]
    for _ in range(3):
        world.writer.append_records(log, KeyValues([(b"k", bytes(400_000))] * 2), 12)
    world.settle()
    sizes = [batch.header.record_count for batch in replay(log)]
    assert sizes == [3, 4, 2]


def test_batches_and_records_keep_their_order() -> None:
    world = World(SimulatedDisk())
    log = world.log()
    world.writer.append_records(log, KeyValues([(b"a", b"1")]), 10)
    base_offset, _ = world.writer.append(log, build_batch([(b"b", b"2"), (b"c", b"3")], 11))
    world.writer.append_records(log, KeyValues([(b"d", b"4")]), 12)
    world.settle()
    assert base_offset == 1
    assert [key for _, key, _ in contents(log)] == [b"a", b"b", b"c", b"d"]


def test_segments_roll_by_size_and_by_time() -> None:
    _, log, _ = filled(segment_bytes=2000)
    assert len(log.segments) > 5
    assert all(segment.size <= 2000 for segment in log.segments)
    world = World(SimulatedDisk(), config=LogConfig(segment_ms=100))
    log = world.log()
    for time in (1000, 1100, 1101, 1050, 1202):
        world.writer.append(log, build_batch([(b"a", b"1")], time))
    world.settle()
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]


def test_one_batch_larger_than_a_segment_has_one_to_itself() -> None:
    world = World(SimulatedDisk(), config=LogConfig(segment_bytes=1000))
    log = world.log()
    for size in (10, 5000, 10):
        world.writer.append(log, build_batch([(b"a", bytes(size))], 1))
    world.settle()
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]
    assert len(contents(log)) == 3


def test_index_entries_point_at_their_batches() -> None:
    world, log, _ = filled(segment_bytes=20_000, index_interval_bytes=500)
    world.close()
    for segment in log.segments:
        content = world.disk.content(segment.log_path)
        entries = list(OFFSET_ENTRY.iter_unpack(world.disk.content(segment.index_path)))
        assert len(entries) >= segment.size // 500 - len(entries)
        for relative, position in entries:
            assert read_header(content, position).last_offset == segment.base_offset + relative
        assert entries == sorted(entries)
        times = list(TIME_ENTRY.iter_unpack(world.disk.content(segment.time_index_path)))
        assert [time for time, _ in times] == sorted({time for time, _ in times})
        assert times[-1][0] == max(header.max_timestamp for _, header in iterate_batches(content))


def test_retention_by_size() -> None:
    world, log, _ = filled(segment_bytes=1000, retention_bytes=5000, retention_ms=-1)
    before = log.size_bytes
    removed = world.writer.apply_retention(0)
    world.settle()
    assert removed
    assert 5000 <= log.size_bytes < 6100 < before
    assert log.log_start_offset == log.segments[0].base_offset
    names = world.disk.listdir(log.directory)
    assert sum(name.endswith(".log") for name in names) == len(log.segments)
    assert contents(log)[0][0] == log.log_start_offset
    with pytest.raises(OffsetOutOfRange):
        log.read(log.log_start_offset - 1, 100)


def test_retention_by_time_takes_the_active_segment_once_a_new_one_is_durable() -> None:
    world, log, times = filled(segment_bytes=1000, retention_ms=100)
    last = max(time for _, time in times)
    world.writer.apply_retention(last)
    assert all(segment.max_timestamp >= last - 100 for segment in log.segments[:-1])
    world.settle()
    end, segments = log.end_offset, len(log.segments)
    world.writer.apply_retention(last + 100)
    world.settle()
    assert log.log_start_offset < end, "the latest record is not older than retention.ms"
    world.writer.apply_retention(last + 101)
    assert len(log.segments) <= segments + 1, "the log's end is in the last segment's name"
    world.settle()
    assert (log.log_start_offset, log.end_offset) == (end, end)
    assert [name for name in world.disk.listdir(log.directory) if name.endswith(".log")] == [f"{end:020}.log"]
    assert world.writer.apply_retention(last + 1_000_000) == 0, "an empty segment stays"
    world.close()
    again = World(world.disk)
    assert again.log().log_start_offset == again.log().end_offset == end


def test_retention_by_size_takes_the_active_segment_only_if_it_is_all_too_much() -> None:
    world, log, _ = filled(segment_bytes=1 << 20, retention_bytes=1, retention_ms=-1)
    world.writer.apply_retention(0)
    world.settle()
    assert log.log_start_offset == 0
    log.config = replace(log.config, retention_bytes=0)
    world.writer.apply_retention(0)
    world.settle()
    assert log.log_start_offset == log.end_offset > 0


def test_a_log_that_is_deleted_while_its_last_segment_expires_is_left_alone() -> None:
    world, log, times = filled(segment_bytes=1 << 20, retention_ms=100)
    world.writer.apply_retention(max(time for _, time in times) + 101)
    world.writer.delete([log])
    world.settle()
    assert not [name for name in world.disk.listdir(log.directory.rsplit("/", 1)[0]) if name.startswith(log.topic)]


def test_compacted_logs_are_not_retained_by_size_or_time() -> None:
    world, log, _ = filled(segment_bytes=1000, retention_bytes=0, retention_ms=0)
    log.config = LogConfig(cleanup_policy="compact", retention_bytes=0, retention_ms=0)
    assert world.writer.apply_retention(1 << 60) == 0


def test_deleting_records_moves_the_start_and_outlives_a_restart() -> None:
    world, log, times = filled(segment_bytes=1000)
    offset = times[len(times) // 2][0]
    epoch = world.writer.delete_records(log, offset)
    assert log.log_start_offset == offset
    world.settle()
    assert world.writer.flushed_epoch >= epoch
    world.disk.crash("power")
    again = World(world.disk).log()
    assert again.log_start_offset == offset
    assert again.segments[0].base_offset <= offset
    found = first_at(again, 0)
    assert found is not None
    assert found.offset == offset


def test_deleting_everything_keeps_the_end() -> None:
    world, log, _ = filled(segment_bytes=1000)
    end = log.end_offset
    log.roll()
    world.writer.delete_records(log, end + 100)
    world.settle()
    assert log.log_start_offset == log.high_watermark == end
    world.writer.append(log, build_batch([(b"a", b"1")], 1))
    world.settle()
    world.disk.crash("power")
    assert World(world.disk).log().end_offset == end + 1


def test_gaps_left_by_compaction_are_read_over() -> None:
    """Offsets 2-5 and 8 are gone: look-ups give the next batch that is there."""
    world = World(SimulatedDisk())
    log = world.log()
    content = bytearray()
    for base_offset in (0, 1, 6, 7, 9):
        content += build_batch([(b"k", b"%d" % base_offset)], 100 + base_offset, base_offset)
    file = world.disk.open(f"{log.directory}/{0:020d}.log", create=True)
    file.pwrite(content, 0)
    world.data.close()
    again = World(world.disk).log()
    assert [offset for offset, _, _ in contents(again)] == [0, 1, 6, 7, 9]
    assert again.end_offset == 10
    for offset, expected in ((2, 6), (5, 6), (8, 9)):
        assert read_header(again.read(offset, 1)).base_offset == expected
    assert first_at(again, 103) == TimestampOffset(106, 6, leader_epoch=-1)


def test_file_descriptors_are_bounded() -> None:
    disk = SimulatedDisk()
    disk.makedirs("/d")
    pool = FilePool(disk, 3)
    for number in range(10):
        pool.get(f"/d/{number}", create=True)
    assert len(pool) == 3
    pool.drop_below("/d")
    assert len(pool) == 0


def test_walking_over_batches_larger_than_its_chunks() -> None:
    world = World(SimulatedDisk())
    log = world.log()
    for size in (10, 30_000, 5000, 1):
        world.writer.append(log, build_batch([(b"a", bytes(size))], 1))
    world.settle()
    segment = log.segments[0]
    file = world.disk.open(segment.log_path)
    found = [header.base_offset for _, header in walk(file, segment.log_path, 0, segment.size, chunk_bytes=100)]
    assert found == [0, 1, 2, 3]


@pytest.mark.parametrize("chunk_bytes", [70, 1000, 1 << 20])
def test_replay_in_chunks(chunk_bytes: int) -> None:
    _, log, times = filled(segment_bytes=4000)
    batches = list(replay(log, chunk_bytes=chunk_bytes))
    assert [(entry[0], entry[1]) for batch in batches for entry in batch.records] == times
    assert batches[-1].bytes_read == log.size_bytes
    assert all(batch.control is None for batch in batches)

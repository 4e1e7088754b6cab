"""What the cleaner keeps and what it removes: Kafka's rules, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from coordinatord.broker.log import LogConfig, PartitionLog, replay
from coordinatord.broker.log.cleaner import CleanerSettings
from coordinatord.broker.log.simulated_disk import SimulatedDisk
from kafka_wire.records.batch import (
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchBuilder,
    BatchHeader,
    KeyValue,
    Record,
    build_batch,
    build_control_batch,
    iterate_batches,
    records,
)
from kafka_wire.records.compression import Compression
from kafka_wire.records.control import ControlType
from tests.broker.log.lookups import first_at
from tests.broker.log.world import World, contents

NOW = 1_000_000
DAY = 86_400_000
COMPACT = LogConfig(cleanup_policy="compact", min_cleanable_dirty_ratio=0.0)


@pytest.fixture
def world() -> World:
    return World(SimulatedDisk(), config=COMPACT)


def append(world: World, *batches: Sequence[KeyValue] | bytearray, log: PartitionLog | None = None) -> None:
    """Batches that are in the files, in the active segment."""
    for batch in batches:
        built = batch if isinstance(batch, bytearray) else build_batch(batch, NOW)
        world.writer.append(log or world.log(), built)
    world.settle()


def roll(world: World) -> None:
    """What there is so far may be cleaned."""
    world.writer.roll(world.log())
    world.settle()


def batch(entries: Sequence[KeyValue], **more: object) -> bytearray:
    builder = BatchBuilder()
    builder.extend(entries, NOW)
    return builder.finish(**more)  # type: ignore[arg-type]


def transactional(producer_id: int, entries: Sequence[KeyValue], sequence: int = 0) -> bytearray:
    return batch(entries, attributes=TRANSACTIONAL, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


def marker(producer_id: int, kind: ControlType) -> bytearray:
    return build_control_batch(kind, producer_id, 0, 0, NOW)


def headers(log: PartitionLog) -> list[BatchHeader]:
    return list(log.batches(0))


def all_records(log: PartitionLog) -> list[Record]:
    data = b"".join(log.disk.open(segment.log_path).pread(segment.size, 0) for segment in log.segments)  # type: ignore[misc]
    return [record for at, header in iterate_batches(data) for record in records(data, at, header)]


def test_the_last_record_of_a_key_stays_where_it_was(world: World) -> None:
    append(world, [(b"a", b"1"), (b"b", b"1")], [(b"a", b"2"), (b"c", b"1")])
    roll(world)
    append(world, [(b"c", b"2")])
    [(name, statistics)] = world.clean()
    assert name == "events-0"
    assert contents(world.log()) == [(1, b"b", b"1"), (2, b"a", b"2"), (3, b"c", b"1"), (4, b"c", b"2")]
    assert [(each.base_offset, each.last_offset, each.record_count) for each in headers(world.log())] == [
        (0, 1, 1),
        (2, 3, 2),
        (4, 4, 1),
    ]
    assert (statistics.records_read, statistics.records_kept, statistics.end_offset) == (4, 3, 4)
    assert world.data.cleaned_offsets == {("events", 0): 4}


def test_the_active_segment_is_never_rewritten(world: World) -> None:
    append(world, [(b"a", b"1")], [(b"a", b"2")])
    assert world.clean() == []
    roll(world)
    append(world, [(b"a", b"3")], [(b"a", b"4")])
    world.clean()
    assert contents(world.log()) == [(1, b"a", b"2"), (2, b"a", b"3"), (3, b"a", b"4")]
    assert world.clean() == []


def test_records_without_a_key_go(world: World) -> None:
    append(world, [(None, b"x"), (b"a", b"1"), (None, None)], [(None, b"y")], [(b"b", b"1")])
    roll(world)
    [(_name, statistics)] = world.clean()
    assert contents(world.log()) == [(1, b"a", b"1"), (4, b"b", b"1")]
    assert statistics.records_without_key == 3


def test_a_tombstone_stays_for_delete_retention_after_its_first_cleaning(world: World) -> None:
    append(world, [(b"a", b"1")], [(b"a", None)], [(b"b", b"1")])
    roll(world)
    world.clean()
    assert contents(world.log()) == [(1, b"a", None), (2, b"b", b"1")]
    tombstone = headers(world.log())[0]
    assert tombstone.delete_horizon_ms == NOW + DAY
    assert [record.timestamp for record in all_records(world.log())] == [NOW, NOW]  # told from the horizon now
    for later, stays in ((DAY - 1, True), (DAY, False)):
        world.now_ms = NOW + later
        append(world, [(b"c%d" % later, b"1")])
        roll(world)
        assert world.clean()
        assert ((1, b"a", None) in contents(world.log())) == stays


def test_a_tombstone_does_not_go_before_what_it_deletes() -> None:
    """Even if its horizon is over: it is in the dirty part, and what it deletes is in another group."""
    world = World(SimulatedDisk(), config=replace(COMPACT, delete_retention_ms=0, segment_bytes=150))
    append(world, [(b"a", b"1")], [(b"b", b"1")], [(b"a", None)], [(b"c", b"1")], [(b"d", b"1")])
    roll(world)
    world.clean()
    append(world, [(b"e", b"1")])
    roll(world)
    world.clean()
    assert [entry for entry in contents(world.log()) if entry[1] == b"a"] == []


@pytest.mark.parametrize("codec", list(Compression))
def test_compressed_batches_stay_compressed(world: World, codec: Compression) -> None:
    entries: list[KeyValue] = [(b"k%d" % (number % 7), b"v%d" % number * 30) for number in range(20)]
    append(world, batch(entries, compression=codec), [(b"k3", None)])
    roll(world)
    world.clean()
    first, _tombstone = headers(world.log())
    assert first.codec == codec
    assert (first.base_offset, first.last_offset, first.record_count) == (0, 19, 6)
    assert contents(world.log())[:6] == [(number, *entries[number]) for number in (13, 14, 15, 16, 18, 19)]


def test_log_append_time_stays(world: World) -> None:
    builder = BatchBuilder()
    builder.add(b"a", b"1", 5)
    builder.add(b"b", None, 7, [("h", b"x")])
    stamped = builder.finish(attributes=LOG_APPEND_TIME)
    append(world, stamped, [(b"a", b"2")])
    roll(world)
    world.clean()
    kept = all_records(world.log())
    assert [(each.offset, each.timestamp, each.key, each.value, each.headers) for each in kept] == [
        (1, 7, b"b", None, [("h", b"x")]),
        (2, NOW, b"a", b"2", []),
    ]


def test_times_of_what_stays_and_the_greatest(world: World) -> None:
    builder = BatchBuilder()
    for number, time in enumerate((500_000, 900_000, 100, 700_000)):
        builder.add(b"k%d" % number, b"v", time)
    append(world, builder.finish(), [(b"k1", b"w")])
    roll(world)
    world.clean()
    assert headers(world.log())[0].max_timestamp == 700_000
    assert [record.timestamp for record in all_records(world.log())] == [500_000, 100, 700_000, NOW]


# --- transactions -----------------------------------------------------------------------------------------------------


def test_what_an_aborted_transaction_wrote_goes_and_its_marker_after_it(world: World) -> None:
    append(
        world,
        transactional(7, [(b"a", b"aborted"), (b"x", None)]),
        [(b"b", b"1")],
        marker(7, ControlType.ABORT),
        transactional(7, [(b"a", b"committed")], 2),
        marker(7, ControlType.COMMIT),
        [(b"z", b"1")],
    )
    roll(world)
    append(world, [(b"later", b"1")])
    world.clean()
    # The producer's last batch and its two markers are there; of the first marker something was seen this time.
    assert [(each.base_offset, each.record_count) for each in headers(world.log())] == [
        (2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (7, 1),
    ]  # fmt: skip
    assert headers(world.log())[1].delete_horizon_ms is None
    horizons = {}
    for round_number in range(3):
        world.now_ms += DAY // 2 + 1
        roll(world)
        append(world, [(b"later", b"%d" % round_number)])
        world.clean()
        horizons[round_number] = {each.base_offset: each.delete_horizon_ms for each in headers(world.log())}
    assert horizons[0][3] == NOW + DAY // 2 + 1 + DAY
    assert horizons[1][3] == NOW + DAY // 2 + 1 + DAY
    assert 3 not in horizons[2]
    # Something of the committed transaction is there, so its marker is, without a horizon.
    assert horizons[2][5] is None
    assert (4, b"a", b"committed") in contents(world.log())


def test_an_empty_batch_keeps_its_producers_sequence(world: World) -> None:
    append(
        world,
        batch([(b"a", b"1"), (b"b", b"1")], producer_id=9, producer_epoch=3, base_sequence=5),
        [(b"a", b"2"), (b"b", b"2")],
        [(b"z", b"1")],
    )
    roll(world)
    world.clean()
    first = headers(world.log())[0]
    assert (first.base_offset, first.last_offset, first.record_count) == (0, 1, 0)
    assert (first.producer_id, first.producer_epoch, first.base_sequence, first.last_sequence) == (9, 3, 5, 6)
    assert first.max_timestamp == NOW
    # It goes when the producer is forgotten.
    world.now_ms = NOW + 2 * DAY
    append(world, [(b"y", b"1")])
    roll(world)
    world.clean()
    assert headers(world.log())[0].base_offset == 2


def test_an_open_transaction_ends_what_can_be_cleaned(world: World) -> None:
    append(world, [(b"a", b"1")], [(b"a", b"2")])
    roll(world)
    append(world, transactional(7, [(b"a", b"open")]))
    roll(world)
    append(world, [(b"a", b"3")])
    roll(world)
    world.clean()
    assert contents(world.log()) == [(1, b"a", b"2"), (2, b"a", b"open"), (3, b"a", b"3")]
    assert world.clean() == []  # in vain until more can be read
    append(world, marker(7, ControlType.COMMIT))
    world.clean()
    assert [offset for offset, key, _value in contents(world.log()) if key == b"a"] == [3]


def test_an_aborted_transaction_whose_marker_is_in_the_active_segment(world: World) -> None:
    append(world, [(b"a", b"1")], transactional(7, [(b"a", b"aborted")]))
    roll(world)
    append(world, marker(7, ControlType.ABORT), [(b"q", b"1")])
    world.clean()
    assert (0, b"a", b"1") in contents(world.log())
    assert (1, b"a", b"aborted") not in contents(world.log())


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_a_full_map_leaves_the_rest_for_the_next_time() -> None:
    world = World(SimulatedDisk(), config=COMPACT, cleaner=CleanerSettings(map_bytes=1000))
    for number in range(40):
        append(world, [(b"k%02d" % (number % 20), b"%d" % number)])
    roll(world)
    done = world.clean()
    ends = [statistics.end_offset for _name, statistics in done]
    assert ends[-1] == 40
    assert len(ends) > 3
    assert ends == sorted(set(ends))
    assert [entry[0] for entry in contents(world.log())] == list(range(20, 40))
    # One batch at most beyond the budget.
    assert max(statistics.map_entries for _name, statistics in done) <= 8


def test_one_batch_larger_than_the_map_does_not_stop_the_cleaning() -> None:
    """KAFKA-7286 and its kin: what is in the log can be loaded and cleaned, whatever the buffers' sizes."""
    world = World(SimulatedDisk(), config=COMPACT, cleaner=CleanerSettings(map_bytes=1, io_bytes=64))
    huge = b"h" * 3_000_000
    append(world, [(b"k%d" % number, b"1") for number in range(50)], [(b"big", huge)], [(huge, b"1")], [(b"k0", b"2")])
    append(world, [(b"big", b"small")])
    roll(world)
    world.clean()
    assert [(offset, key) for offset, key, _value in contents(world.log())] == [
        *((number, b"k%d" % number) for number in range(1, 50)),
        (51, huge),
        (52, b"k0"),
        (53, b"big"),
    ]
    assert [batch.header.base_offset for batch in replay(world.log(), chunk_bytes=64)] == [0, 51, 52, 53]


def test_small_segments_become_one() -> None:
    world = World(SimulatedDisk(), config=COMPACT)
    for number in range(10):
        append(world, [(b"k%d" % number, b"x" * 100), (b"same", b"%d" % number)])
        roll(world)
    assert len(world.log().segments) == 11
    [(_name, statistics)] = world.clean()
    assert (statistics.segments_before, statistics.segments_after) == (10, 1)
    assert [segment.base_offset for segment in world.log().segments] == [0, 20]
    # And never more than segment.bytes by their sizes before.
    world = World(SimulatedDisk(), config=replace(COMPACT, segment_bytes=600))
    for number in range(10):
        append(world, [(b"k%d" % number, b"x" * 100), (b"same", b"%d" % number)])
        roll(world)
    world.clean()
    assert [segment.base_offset for segment in world.log().segments] == [0, 6, 12, 18, 20]


def test_indexes_of_a_rewritten_segment_find_everything() -> None:
    world = World(SimulatedDisk(), config=replace(COMPACT, index_interval_bytes=200))
    for number in range(200):
        append(world, [(b"k%d" % (number % 90), b"x" * 50)])
        if number % 40 == 0:
            roll(world)
    roll(world)
    world.clean()
    log = world.log()
    assert log.segments[0].index_count > 10
    for offset in range(200):
        data = log.read(offset, 1)
        first = next(iterate_batches(data))[1]
        assert first.last_offset == max(offset, 110)
    assert first_at(log, NOW) is not None
    # The same after a restart, from the files.
    world.close()
    again = World(world.disk, config=COMPACT)
    assert contents(again.log()) == contents(log)
    assert again.log().segments[0].index_count == log.segments[0].index_count
    again.close()

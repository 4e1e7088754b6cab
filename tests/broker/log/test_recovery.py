"""After an unclean stop: what is repeated, what is cut off, what is refused."""

from __future__ import annotations

import pytest

from coordinatord.broker.log import DataDirectoryError, LogConfig, LogDamaged, leader_epoch_cache, replay
from coordinatord.broker.log.disk import read_text
from coordinatord.broker.log.journal import MAGIC
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.scan import scan
from coordinatord.broker.log.simulated_disk import CrashKind, SimulatedCrash, SimulatedDisk
from coordinatord.broker.log.times import TimestampOffset
from coordinatord.broker.log.writer import FlushPolicy
from kafka_wire.records.batch import build_batch, write_crc
from tests.broker.log.lookups import first_at, greatest
from tests.broker.log.world import PATH, World, contents


def written(batches: int = 10, *, flush: FlushPolicy = "always", **config: int) -> tuple[World, PartitionLog]:
    world = World(SimulatedDisk(3), flush=flush, config=LogConfig(**config))  # type: ignore[arg-type]
    log = world.log()
    for number in range(batches):
        world.writer.append(log, build_batch([(b"k%d" % number, b"v" * 50)] * 2, 1000 + number))
        world.settle()
    return world, log


def path_of(log: PartitionLog) -> str:
    return log.segments[-1].log_path


@pytest.mark.parametrize("flush", ["always", "interval"])
def test_the_journal_repeats_what_the_segments_lost(flush: FlushPolicy) -> None:
    world, log = written(flush=flush)
    before = contents(log)
    del world.disk.content(path_of(log))[300:]
    world.disk.crash("kill")
    again = World(world.disk)
    assert contents(again.log()) == before
    (recovery,) = again.data.recovered
    assert (recovery.journal_writes, recovery.truncated_bytes) == (10, 0)


def test_a_torn_tail_is_cut_off_and_counted() -> None:
    world, log = written(flush="never")
    path = path_of(log)
    size = len(world.disk.content(path))
    del world.disk.content(path)[-10:]
    world.disk.crash("kill")
    again = World(world.disk)
    (recovery,) = again.data.recovered
    assert (recovery.topic, recovery.partition, recovery.path) == ("events", 0, path)
    assert (recovery.truncated_bytes, recovery.truncated_records) == (size // 10 - 10, 2)
    assert "cut short" in recovery.reason
    assert again.log().end_offset == 18
    assert greatest(again.log()) == TimestampOffset(1008, 16)
    again.writer.append(again.log(), build_batch([(b"new", b"x")], 2000))
    again.settle()
    assert contents(again.log())[-1][:2] == (18, b"new")


@pytest.mark.parametrize("tail", [b"\0" * 3, b"\0" * 500, b"garbage" * 40])
def test_rubbish_behind_the_last_batch_is_cut_off(tail: bytes) -> None:
    world, log = written()
    before = contents(log)
    world.disk.content(path_of(log)).extend(tail)
    world.disk.crash("kill")
    again = World(world.disk)
    assert contents(again.log()) == before
    assert again.data.recovered[0].truncated_bytes == len(tail)


def test_damage_before_the_tail_refuses() -> None:
    world, log = written(flush="never")
    path = path_of(log)
    size = len(world.disk.content(path)) // 10
    world.disk.damage(path, 3 * size + 90)
    world.disk.crash("kill")
    with pytest.raises(LogDamaged) as damage:
        World(world.disk)
    assert (damage.value.path, damage.value.position) == (path, 3 * size)
    assert "crc" in damage.value.reason
    assert "coordinatord log dump" in str(damage.value)
    assert len(world.disk.content(path)) == 10 * size, "nothing is removed"
    with pytest.raises(LogDamaged):
        World(world.disk)  # and the lock was given back


def test_damage_below_the_recovery_point_refuses_even_at_the_end() -> None:
    """The last batch was flushed before: it is no torn tail."""
    world, log = written()
    world.close()
    world.disk.unlink(f"{PATH}/.kafka_cleanshutdown")
    path = path_of(log)
    world.disk.damage(path, len(world.disk.content(path)) - 5)
    with pytest.raises(LogDamaged, match="offsets below 20 were flushed"):
        World(world.disk)


def test_a_missing_end_that_was_flushed_refuses() -> None:
    world, log = written()
    world.close()
    world.disk.unlink(f"{PATH}/.kafka_cleanshutdown")
    path = path_of(log)
    del world.disk.content(path)[-len(world.disk.content(path)) // 10 :]
    with pytest.raises(LogDamaged, match="ends at offset 18, but offsets below 20 were flushed"):
        World(world.disk)
    world.disk.unlink(path)
    with pytest.raises(LogDamaged, match="no segment is left"):
        World(world.disk)


def test_a_damaged_journal_refuses() -> None:
    world, _ = written()
    (name,) = (name for name in world.disk.listdir(PATH) if name.startswith("journal-"))
    world.disk.damage(f"{PATH}/{name}", 500)
    world.disk.crash("kill")
    with pytest.raises(LogDamaged, match="journal record is damaged"):
        World(world.disk)


@pytest.mark.parametrize("rest", ["cut off", "zeros"])
def test_a_torn_last_journal_record_is_left_out(rest: str) -> None:
    world, log = written()
    (name,) = (name for name in world.disk.listdir(PATH) if name.startswith("journal-"))
    journal = world.disk.content(f"{PATH}/{name}")
    torn_at = journal.rfind(MAGIC) + 100
    assert any(journal[torn_at:])
    journal[torn_at:] = b"" if rest == "cut off" else bytes(len(journal) - torn_at)
    del world.disk.content(path_of(log))[-20:]
    world.disk.crash("kill")
    again = World(world.disk)
    assert again.log().end_offset == 18


def test_damage_that_replay_meets() -> None:
    """A clean start does not read whole segments; loading does."""
    world, log = written(40, segment_bytes=2000)
    world.close()
    damaged = log.segments[2].log_path
    world.disk.damage(damaged, 200)
    again = World(world.disk, config=LogConfig(segment_bytes=2000))
    with pytest.raises(LogDamaged) as damage:
        list(replay(again.log()))
    assert damage.value.path == damaged
    assert 0 < damage.value.position <= 200


@pytest.mark.parametrize("left", [0, 7, 61, 80, 200])
def test_a_file_that_has_become_shorter_is_damage(left: int) -> None:
    """Somebody has cut it since its size was known. What is not there is not waited for."""
    disk = SimulatedDisk(1)
    file = disk.open("/000.log", create=True)
    batch = bytes(build_batch([(b"key", b"v" * 100)], 1))
    file.pwrite(batch + batch, 0)
    size = file.size()
    file.truncate(left)
    with pytest.raises(LogDamaged, match=r"the file ends|cut short"):
        list(scan(file, "/000.log", 0, size))


def test_offsets_that_go_back_are_damage() -> None:
    world, log = written(flush="never")
    path = path_of(log)
    content = world.disk.content(path)
    size = len(content) // 10
    content[5 * size : 6 * size] = content[4 * size : 5 * size]
    world.disk.crash("kill")
    with pytest.raises(LogDamaged, match="offsets 8 to 9 where 10 was next"):
        World(world.disk)


def test_records_that_cannot_be_read_under_a_right_crc() -> None:
    world, log = written(1)
    world.close()
    content = world.disk.content(path_of(log))
    batch = bytearray(content)
    batch[65] = 0x7F
    write_crc(batch)
    content[:] = batch
    with pytest.raises(LogDamaged, match="CRC matches, but the records cannot be read"):
        [batch.records for batch in replay(World(world.disk).log())]


def test_lost_indexes_are_made_again() -> None:
    world, log = written(60, segment_bytes=3000, index_interval_bytes=200)
    world.close()
    expected = {
        name: bytes(world.disk.content(f"{log.directory}/{name}")) for name in world.disk.listdir(log.directory)
    }
    indexes = [name for name in expected if name.endswith("index")]
    assert len(indexes) >= 4
    for number, name in enumerate(indexes):
        content = world.disk.content(f"{log.directory}/{name}")
        if number % 3 == 0:
            del content[:]
        elif number % 3 == 1:
            content[:] = bytes(len(content))
        else:
            content.extend(b"\0\0\0")
    world.disk.unlink(f"{PATH}/.kafka_cleanshutdown")
    again = World(world.disk, config=world.config)
    assert contents(again.log()) == contents(log)
    assert greatest(again.log()) == TimestampOffset(1059, 118)
    for time in range(1000, 1060):
        assert first_at(again.log(), time) == TimestampOffset(time, 2 * (time - 1000))


def test_recovery_reads_on_from_the_recovery_point_only() -> None:
    """A gigabyte that was flushed is not read again: damage there is replay's to find, and the start stays quick."""
    world, log = written(200, index_interval_bytes=300)
    world.writer._flusher.finish()  # a rotation of the journal
    world.writer.append(log, build_batch([(b"last", b"x")], 5000))
    world.settle()
    path = path_of(log)
    world.disk.damage(path, 100)
    world.disk.crash("power")
    again = World(world.disk, config=world.config)
    assert again.log().end_offset == 401
    assert greatest(again.log()) == TimestampOffset(5000, 400)


def test_a_recreated_topic_does_not_inherit() -> None:
    """Neither the journal's writes nor the checkpoints of a deleted topic of the same name are taken for the new
    one's.
    """
    world, log = written()
    world.writer._flusher.finish()
    world.writer.append(log, build_batch([(b"old", b"x")] * 5, 1))
    world.writer.delete_records(log, 3)
    world.settle()
    world.writer.delete([log])
    (new,) = world.data.create("events", [0], b"N" * 16, LogConfig())
    world.writer.append(new, build_batch([(b"new", b"y")], 2))
    world.settle()
    world.disk.crash("power")
    again = World(world.disk).log()
    assert again.topic_id == b"N" * 16
    assert contents(again) == [(0, b"new", b"y")]
    assert again.log_start_offset == 0


def test_leftovers_are_removed() -> None:
    world, log = written()
    world.close()
    for name in (f"{0:020d}.log.deleted", f"{0:020d}.log.cleaned", f"{0:020d}.index.deleted"):
        world.disk.open(f"{log.directory}/{name}", create=True)
    World(world.disk)
    assert not [name for name in world.disk.listdir(log.directory) if name.endswith(("deleted", "cleaned"))]


@pytest.mark.parametrize("kind", ["kill", "power"])
def test_crashed_in_any_step_of_a_removal_the_next_start_ends_it(kind: CrashKind) -> None:
    steps = 0
    while True:
        world, log = written()
        other = world.log("other")
        world.disk.crash_after = world.disk.operations + steps
        try:
            world.writer.delete([log, other])
            world.settle()
        except SimulatedCrash:
            world.disk.crash(kind)
            again = World(world.disk)
            left = [name for name in again.disk.listdir(PATH) if "-0" in name]
            assert sorted(left) == sorted(log.name for log in again.data.logs.values()), steps
            steps += 1
            continue
        break
    assert steps > 10


def test_a_directory_that_a_crash_left_half_made_is_filled() -> None:
    world, _ = written()
    world.disk.makedirs(f"{PATH}/half-0")
    leader_epoch_cache.write(world.disk, f"{PATH}/half-0")
    world.disk.crash("kill")
    again = World(world.disk)
    assert again.data.get("half", 0) is None
    again.writer.append(again.log("half"), build_batch([(b"a", b"b")], 1))
    again.settle()
    again.close()
    assert World(world.disk).log("half").end_offset == 1
    assert not [name for name in world.disk.listdir(PATH) if name.endswith("-stray")]


def test_checkpoint_files_have_kafkas_form() -> None:
    world, log = written()
    world.writer.delete_records(log, 3)
    world.settle()
    world.close()
    disk = world.disk
    assert read_text(disk, f"{PATH}/recovery-point-offset-checkpoint") == "0\n1\nevents 0 20\n"
    assert read_text(disk, f"{PATH}/log-start-offset-checkpoint") == "0\n1\nevents 0 3\n"
    assert read_text(disk, f"{log.directory}/leader-epoch-checkpoint") == "0\n1\n0 0\n"
    assert read_text(disk, f"{log.directory}/partition.metadata") == "version: 0\ntopic_id: ZXZlbnRzLi4uLi4uLi4uLg\n"
    assert read_text(disk, f"{PATH}/.kafka_cleanshutdown") == '{"version":0,"brokerEpoch":-1}'
    again = World(disk)
    assert again.data.was_clean
    assert again.data.recovered == []
    assert not disk.exists(f"{PATH}/.kafka_cleanshutdown"), "from now on a crash is unclean"


@pytest.mark.parametrize("indexed", [False, True])
def test_an_empty_segment_in_the_middle_holds_nothing_unless_its_index_says_so(indexed: bool) -> None:
    """Kafka's cleaner may leave one, with empty indexes. A file that has lost what it had is something else."""
    world, log = written(12, segment_bytes=700)
    middle = log.segments[1]
    lost = {offset for offset, _, _ in contents(log) if middle.base_offset <= offset < log.segments[2].base_offset}
    left = [record for record in contents(log) if record[0] not in lost]
    assert lost
    assert len(log.segments) > 3
    world.close()
    world.disk.unlink(f"{PATH}/.kafka_cleanshutdown")
    world.disk.content(middle.log_path).clear()
    if indexed:
        for _ in range(2):  # and the first refusal has not made it sound
            with pytest.raises(LogDamaged, match="the segment is empty, but its index is not") as damage:
                World(world.disk)
            assert damage.value.path == middle.log_path
        return
    world.disk.content(middle.index_path).clear()
    world.disk.content(middle.time_index_path).clear()
    again = World(world.disk)
    assert contents(again.log()) == left
    assert [batch.header.base_offset for batch in replay(again.log())] == sorted(
        offset for offset, _, _ in left if offset % 2 == 0
    )
    assert again.log().read(middle.base_offset, 1 << 20)[:8] == log.segments[2].base_offset.to_bytes(8, "big")


@pytest.mark.parametrize("left", ["nothing", "an empty file", "half of the batches"])
def test_what_is_missing_after_a_clean_stop_refuses(left: str) -> None:
    """Nobody has to have crashed: files get lost in copies, too."""
    world, log = written()
    path = path_of(log)
    world.close()
    if left == "nothing":
        world.disk.unlink(path)
    else:
        size = len(world.disk.content(path))
        del world.disk.content(path)[size // 2 if left == "half of the batches" else 0 :]
    for _ in range(2):
        with pytest.raises(LogDamaged, match="offsets below 20 were flushed") as damage:
            World(world.disk)
        assert damage.value.path == (log.directory if left == "nothing" else path)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("number", [1, 2])
def test_a_segment_in_the_middle_whose_log_was_removed_refuses(number: int, clean: bool) -> None:
    """Its index is left. Without the refusal a reader would skip its records, and nobody would know."""
    world, log = written(12, segment_bytes=700)
    assert len(log.segments) > 3
    missing = log.segments[number]
    if clean:
        world.close()
    else:
        world.disk.crash("kill")
    world.disk.unlink(missing.log_path)
    for _ in range(2):
        with pytest.raises(LogDamaged, match=r"the file is missing, but .*index is there") as damage:
            World(world.disk)
        assert damage.value.path == missing.log_path


@pytest.mark.parametrize("clean", [True, False])
def test_a_partition_that_is_missing_altogether_refuses(clean: bool) -> None:
    world, log = written()
    world.close()
    if not clean:
        world.disk.unlink(f"{PATH}/.kafka_cleanshutdown")
    for name in world.disk.listdir(log.directory):
        world.disk.unlink(f"{log.directory}/{name}")
    world.disk.rmdir(log.directory)
    for _ in range(2):
        with pytest.raises(
            DataDirectoryError, match=r"events-0 is missing \(1 such partitions\), but offsets below 20"
        ):
            World(world.disk)
    world.disk.makedirs(log.directory)
    for _ in range(2):
        again = World(world.disk)
        assert again.data.get("events", 0) is None or again.log().end_offset == 0
        again.close()


def test_a_damaged_text_file_is_not_to_be_dumped() -> None:
    world, _ = written()
    world.close()
    content = world.disk.content(f"{PATH}/recovery-point-offset-checkpoint")
    content[:] = b"x"
    with pytest.raises(LogDamaged, match="it is a text file: correct it by hand") as damage:
        World(world.disk)
    assert "log dump" not in str(damage.value)

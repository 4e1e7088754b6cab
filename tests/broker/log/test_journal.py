"""The journal's file by itself: how it grows, what is read of it."""

from __future__ import annotations

import errno

import pytest

from coordinatord.broker.log import LogDamaged
from coordinatord.broker.log.disk import File
from coordinatord.broker.log.journal import STEP_BYTES, Journal, JournalEntry, JournalWrite, encode, read_journal
from coordinatord.broker.log.simulated_disk import SimulatedCrash, SimulatedDisk

PATH = "/data"
TOPIC_ID = b"E" * 16


def made(disk: SimulatedDisk) -> Journal:
    disk.makedirs(PATH)
    disk.sync_dir("/")
    return Journal(disk, PATH, 1)


def entry(number: int, size: int = 300) -> JournalEntry:
    return JournalEntry(TOPIC_ID, "events-0", 0, number * size, bytes([number % 255 + 1]) * size)


def append(journal: Journal, number: int, size: int = 300) -> None:
    each = entry(number, size)
    journal.append(number + 1, [JournalWrite(*each[:4], [each.data], size)], after_flush=True)
    journal.flush()


def size_of(disk: SimulatedDisk, journal: Journal) -> int:
    return len(disk.content(journal.path))


def test_it_grows_by_steps_and_ends_with_zeros() -> None:
    """So that most flushes are of a file that has the size it had."""
    disk = SimulatedDisk()
    journal = made(disk)
    sizes = []
    for number in range(1000):
        append(journal, number, 3000)
        sizes.append(size_of(disk, journal))
        rest = disk.content(journal.path)[journal.size :]
        assert rest == bytes(len(rest))
    assert len(set(sizes)) < 15
    assert all(size <= journal.size + STEP_BYTES[1] for size in sizes)
    assert list(read_journal(disk, journal.path)) == [entry(number, 3000) for number in range(1000)]


def test_it_begins_small() -> None:
    disk = SimulatedDisk()
    journal = made(disk)
    append(journal, 0)
    assert size_of(disk, journal) < 2 * STEP_BYTES[0]


@pytest.mark.parametrize("room", [0, 100, STEP_BYTES[0] // 2])
def test_without_room_for_a_step_it_grows_by_its_records(room: int) -> None:
    disk = SimulatedDisk()
    journal = made(disk)
    number = 0
    append(journal, number)
    while size_of(disk, journal) - journal.size > 300 + 100:
        number += 1
        append(journal, number)
    disk.capacity = disk.used() + room
    with pytest.raises(OSError, match="no space") as failed:  # noqa: PT012  where depends on the room
        while True:
            append(journal, number + 1)
            number += 1
    assert failed.value.errno == errno.ENOSPC
    assert list(read_journal(disk, journal.path)) == [entry(each) for each in range(number + 1)]
    assert journal.size + len(encode(1, [], after_flush=True)) + 300 > disk.capacity  # there was no room indeed


def test_what_fails_otherwise_when_it_grows_is_not_passed_over() -> None:
    class Failing:
        def __init__(self, file: File) -> None:
            self.file = file

        def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
            if not any(data):
                raise OSError(errno.EIO, "input/output error")
            self.file.pwrite(data, position)

    journal = made(SimulatedDisk())
    journal._file = Failing(journal._file)  # type: ignore[assignment]
    with pytest.raises(OSError, match="input/output"):
        append(journal, 0)


def test_zeros_before_a_flushed_record_are_damage() -> None:
    """A page that was flushed and is not there: what came after it was flushed later."""
    disk = SimulatedDisk()
    journal = made(disk)
    for number in range(100):
        append(journal, number)
    content = disk.content(journal.path)
    at = journal.size // 2
    content[at : at + 400] = bytes(400)
    with pytest.raises(LogDamaged, match="a journal record is damaged"):
        list(read_journal(disk, journal.path))


@pytest.mark.parametrize("seed", range(30))
def test_a_power_failure_at_any_step_leaves_what_was_flushed(seed: int) -> None:
    for steps in range(4, 60, 5):
        disk = SimulatedDisk(seed)
        journal = made(disk)
        disk.crash_after = disk.operations + steps
        flushed = 0
        with pytest.raises(SimulatedCrash):  # noqa: PT012  sooner or later
            while True:
                append(journal, flushed, 700)
                flushed += 1
        disk.crash("power")
        found = list(read_journal(disk, journal.path))
        assert found[:flushed] == [entry(number, 700) for number in range(flushed)]
        assert len(found) <= flushed + 1

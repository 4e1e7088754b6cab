"""Seeded histories of compacted logs that crash while they are written, read and cleaned.

What must hold after every life: the last committed value of each key is the one that was written last, no tombstone is
undone, what is left lies at its old offset, each producer's last sequence number can be told, nothing acknowledged is
lost; and whoever read the log from end to end in the middle of it all has seen just that.

`python -m tests.broker.log.compacted_history SEEDS [always|interval|never] [power|kill]` repeats one, or 0-199, and
says what happened.
"""

from __future__ import annotations

import contextlib
import errno
import random
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from coordinatord.broker.log import LogConfig, PartitionLog, ReplayedBatch, replay
from coordinatord.broker.log.cleaner import CleanerSettings
from coordinatord.broker.log.simulated_disk import CrashKind, SimulatedCrash, SimulatedDisk
from coordinatord.broker.log.writer import FlushPolicy
from kafka_wire.records.batch import NO_SEQUENCE, TRANSACTIONAL, BatchBuilder, KeyValue, build_control_batch
from kafka_wire.records.compression import Compression
from kafka_wire.records.control import ControlType
from tests.broker.log.history import Violated, main, played
from tests.broker.log.world import PATH, World

KEYS = [b"k%d" % number for number in range(12)]
PRODUCERS = (1, 2, 3)


class Entry(NamedTuple):
    """One record: `producer` is that of a transaction, `ends` is set for a marker."""

    offset: int
    producer: int | None
    ends: ControlType | None
    key: bytes | None
    value: bytes | None


def fold(entries: Iterable[Entry]) -> dict[bytes, tuple[int, bytes]]:
    """Key -> the offset and value that it has to somebody who reads committed records; deleted ones are not there."""
    last: dict[bytes, tuple[int, bytes | None]] = {}
    pending: dict[int, list[Entry]] = {}
    for entry in entries:
        if entry.ends is not None:
            assert entry.producer is not None
            for held in pending.pop(entry.producer, []) if entry.ends is ControlType.COMMIT else []:
                _put(last, held)
            pending.pop(entry.producer, None)
        elif entry.producer is not None:
            pending.setdefault(entry.producer, []).append(entry)
        else:
            _put(last, entry)
    return {key: (offset, value) for key, (offset, value) in last.items() if value is not None}


def _put(last: dict[bytes, tuple[int, bytes | None]], entry: Entry) -> None:
    if entry.key is not None and (entry.key not in last or last[entry.key][0] < entry.offset):
        last[entry.key] = entry.offset, entry.value


def entries_of(batch: ReplayedBatch) -> Iterator[Entry]:
    header = batch.header
    producer = header.producer_id if header.is_transactional else None
    for offset, _time, key, value in batch.records:
        if batch.control is not None:
            yield Entry(offset, producer, batch.control, None, None)
        else:
            yield Entry(offset, producer, None, key, value)


@dataclass
class Expected:
    """One partition as the history knows it."""

    written: list[Entry] = field(default_factory=list)
    #: (producer id, last offset, last sequence) of each batch of data
    batches: list[tuple[int, int, int]] = field(default_factory=list)
    acknowledged: int = 0
    start: int = 0
    acknowledged_start: int = 0

    def in_transaction(self, producer: int) -> bool:
        for entry in reversed(self.written):
            if entry.producer == producer:
                return entry.ends is None
        return False


@dataclass
class Reader:
    """Somebody who reads a whole log, a batch now and then."""

    name: str
    batches: Iterator[ReplayedBatch]
    end: int = -1
    seen: list[Entry] = field(default_factory=list)


class CompactedHistory:
    """A few lives of one data directory, each ended by a crash or a clean stop."""

    def __init__(self, seed: int, flush: FlushPolicy, kind: CrashKind) -> None:
        self.chance = chance = random.Random(seed)
        self.flush = flush
        self.kind = kind
        self.disk = SimulatedDisk(seed)
        self.expected: dict[str, Expected] = {}
        self.names = [f"t{number}" for number in range(chance.randint(1, 2))]
        self.config = LogConfig(
            segment_bytes=chance.choice([300, 700, 3000]),
            segment_ms=chance.choice([1 << 40, 200]),
            index_interval_bytes=chance.choice([50, 300]),
            cleanup_policy="compact",
            min_cleanable_dirty_ratio=chance.choice([0.0, 0.0, 0.5]),
            delete_retention_ms=chance.choice([0, 50, 1 << 40]),
            min_compaction_lag_ms=chance.choice([0, 0, 30]),
        )
        self.cleaner = CleanerSettings(
            map_bytes=chance.choice([300, 1000, 1 << 20]),
            io_bytes=chance.choice([64, 4096]),
            producer_expiration_ms=chance.choice([20, 1 << 40]),
        )
        self.journal_bytes = chance.choice([500, 3000, 1 << 20])
        self.now_ms = 1_000_000
        self.serial = 0
        self.crashes = 0
        self.cleanings = 0
        self.removed = 0
        self.finished_reads = 0
        self.full_disks = 0
        #: crashes that came while a cleaning was writing, and while it was swapping
        self.half_written = 0
        self.half_swapped = 0
        self.promises_durability = flush == "always" or kind == "kill"
        self.readers: list[Reader] = []

    def run(self, lives: int = 4) -> None:
        for _ in range(lives):
            self.disk.crash_after = self.disk.operations + int(self.chance.expovariate(1 / 150))
            with contextlib.suppress(SimulatedCrash):
                world = self._open()
                try:
                    self._live(world)
                finally:
                    self.cleanings += len(world.cleaned)
                    self.full_disks += len(world.cleaner_failures)
            for reader in self.readers:
                reader.batches.close()  # type: ignore[attr-defined]  # a generator
            self.readers.clear()
            if self.disk.crashed:
                self.crashes += 1
                self.disk.capacity = None
                self.disk.crash(self.kind)
                left = {name.rsplit(".", 1)[-1] for name in self._files()}
                self.half_written += "cleaned" in left
                self.half_swapped += bool({"swap", "deleted"} & left)
            self.disk.crash_after = None
            self._check()

    def _files(self) -> Iterator[str]:
        for name in self.disk.listdir(PATH) if self.disk.exists(PATH) else ():
            if self.disk.is_dir(f"{PATH}/{name}"):
                yield from self.disk.listdir(f"{PATH}/{name}")

    def _open(self) -> World:
        return World(
            self.disk,
            flush=self.flush,
            config=self.config,
            journal_bytes=self.journal_bytes,
            cleaner=self.cleaner,
            now_ms=self.now_ms,
        )

    def _live(self, world: World) -> None:
        for _ in range(self.chance.randint(20, 160)):
            self._act(world)
            if self.disk.crashed:
                raise SimulatedCrash
        for failure in world.cleaner_failures:
            if not isinstance(failure, OSError) or failure.errno != errno.ENOSPC:
                raise Violated(f"the cleaner failed: {failure!r}") from failure
        world.close()
        if self.disk.crashed:
            raise SimulatedCrash

    def _act(self, world: World) -> None:
        dice = self.chance.random()
        name = self.chance.choice(self.names)
        log = world.data.get(name, 0)
        if dice < 0.3:
            self._append(world, name)
        elif dice < 0.5:
            world.loop.turn()
        elif dice < 0.6:
            world.worker.run_one()
        elif dice < 0.65:
            world.background.run_one()
        elif dice < 0.85:
            self._run_cleaner(world)
        elif dice < 0.9:
            world.cleaner.look()
        elif dice < 0.92:
            world.loop.fire_timers()
        elif dice < 0.95:
            self._read(world, log)
        elif dice < 0.965:
            self.now_ms = world.now_ms = world.now_ms + self.chance.choice([1, 10, 100])
        elif dice < 0.98 and log:
            world.writer.roll(log)
        elif dice < 0.993 and log and log.high_watermark:
            self._delete_records(world, log)
        elif log and not self.readers:
            self.expected.pop(name, None)
            self.names[self.names.index(name)] = f"{name}x"
            world.writer.delete([log])

    def _run_cleaner(self, world: World) -> None:
        """One step of its thread; now and then there is little room on the disk just then."""
        if self.chance.random() < 0.1:
            self.disk.capacity = self.disk.used() + self.chance.randint(0, 300)
        world.cleaner_worker.run_one()
        self.disk.capacity = None

    # Writing

    def _append(self, world: World, name: str) -> None:
        log = world.log(name)
        expected = self.expected.setdefault(name, Expected())
        first = len(expected.written)
        producer = self.chance.choice(PRODUCERS)
        if self.chance.random() < 0.6:
            batch = self._plain(expected, first, producer)
        elif expected.in_transaction(producer) and self.chance.random() < 0.5:
            ends = self.chance.choice([ControlType.COMMIT, ControlType.ABORT])
            batch = build_control_batch(ends, producer, 0, 0, self.now_ms)
            expected.written.append(Entry(first, producer, ends, None, None))
        else:
            records = self._records()
            sequence = self._sequence(expected, producer, first, len(records))
            builder = BatchBuilder()
            builder.extend(records, self.now_ms)
            batch = builder.finish(
                attributes=TRANSACTIONAL,
                compression=self.chance.choice(list(Compression)),
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequence,
            )
            expected.written += [Entry(first + at, producer, None, *record) for at, record in enumerate(records)]
        base_offset, epoch = world.writer.append(log, batch)
        if base_offset != first:
            raise Violated(f"{name}: base offset {base_offset}, {first} was next")
        end = len(expected.written)

        def acknowledge() -> None:
            if self.promises_durability:
                expected.acknowledged = max(expected.acknowledged, end)

        world.writer.hold(epoch, acknowledge)

    def _plain(self, expected: Expected, first: int, producer: int) -> bytearray:
        records = self._records()
        builder = BatchBuilder()
        builder.extend(records, self.now_ms)
        expected.written += [Entry(first + at, None, None, *record) for at, record in enumerate(records)]
        codec = self.chance.choice(list(Compression))
        if self.chance.random() < 0.7:
            return builder.finish(compression=codec)
        producer += 10  # idempotent, without transactions
        sequence = self._sequence(expected, producer, first, len(records))
        return builder.finish(compression=codec, producer_id=producer, producer_epoch=0, base_sequence=sequence)

    def _records(self) -> list[KeyValue]:
        records: list[KeyValue] = []
        for _ in range(self.chance.randint(1, 4)):
            self.serial += 1
            key = None if self.chance.random() < 0.05 else self.chance.choice(KEYS)
            value = None if self.chance.random() < 0.2 else b"%d" % self.serial * self.chance.choice([1, 20])
            records.append((key, value))
        return records

    def _sequence(self, expected: Expected, producer: int, first: int, count: int) -> int:
        last = next((batch[2] for batch in reversed(expected.batches) if batch[0] == producer), NO_SEQUENCE)
        expected.batches.append((producer, first + count - 1, last + count))
        return last + 1

    def _delete_records(self, world: World, log: PartitionLog) -> None:
        expected = self.expected[log.topic]
        offset = self.chance.randint(0, log.high_watermark)
        expected.start = max(expected.start, offset)
        epoch = world.writer.delete_records(log, offset)

        def acknowledge() -> None:
            if self.promises_durability:
                expected.acknowledged_start = max(expected.acknowledged_start, offset)

        world.writer.hold(epoch, acknowledge)

    # Reading

    def _read(self, world: World, log: PartitionLog | None) -> None:
        if not self.readers:
            if log is not None and log.segments:
                self.readers.append(Reader(log.topic, replay(log, chunk_bytes=200)))
            return
        reader = self.readers[0]
        for _ in range(self.chance.randint(1, 8)):
            batch = next(reader.batches, None)
            if batch is None:
                self.readers.remove(reader)
                self._compare(reader.name, reader.seen, self.expected[reader.name].written, max(reader.end, 0))
                self.finished_reads += 1
                return
            if reader.end < 0:  # what it will see is fixed with its first batch
                reader.end = world.log(reader.name).high_watermark
            reader.seen += entries_of(batch)

    def _compare(self, name: str, seen: list[Entry], written: list[Entry], end: int) -> None:
        """`seen` tells the same of each key as what was written below `end`. What lies below the first offset that is
        there was deleted.
        """
        for entry in seen:
            if entry != written[entry.offset]:
                raise Violated(f"{name}: {entry} is there, {written[entry.offset]} was written")
        want, got = fold(written[:end]), fold(seen)
        start = self._start_of(name)
        if {key: at for key, at in want.items() if at[0] >= start} != {
            key: at for key, at in got.items() if at[0] >= start
        }:
            raise Violated(f"{name}: {want} was written up to {end} (from {start}), {got} is there")

    def _start_of(self, name: str) -> int:
        expected = self.expected[name]
        return max(expected.start, expected.acknowledged_start)

    # After each life

    def _check(self) -> None:
        """Open again, compare, and take what survived as the truth of the next life."""
        world = self._open()
        for name, expected in self.expected.items():
            log = world.data.get(name, 0)
            end = log.end_offset if log else 0
            if end < expected.acknowledged:
                raise Violated(f"{name}: ends at {end}, {expected.acknowledged} was acknowledged")
            if log:
                if not expected.acknowledged_start <= log.log_start_offset <= self._start_of(name):
                    raise Violated(
                        f"{name}: starts at {log.log_start_offset}, {expected.acknowledged_start} was acknowledged"
                    )
                self._check_log(log, expected, end)
            del expected.written[end:]
            expected.batches = [batch for batch in expected.batches if batch[1] < end]
            expected.acknowledged = end
            expected.start = expected.acknowledged_start = log.log_start_offset if log else 0
        world.close()

    def _check_log(self, log: PartitionLog, expected: Expected, end: int) -> None:
        batches = list(replay(log))
        seen = [entry for batch in batches for entry in entries_of(batch)]
        expected.start = expected.acknowledged_start = log.log_start_offset
        self._compare(log.topic, seen, expected.written, end)
        self.removed += end - log.segments[0].base_offset - len(seen) if log.segments else 0
        if log.segments:
            base_offset = log.segments[-1].base_offset
            there = [entry.offset for entry in seen if entry.offset >= base_offset]
            if there != list(range(base_offset, end)):
                raise Violated(f"{log.topic}: the active segment has {there}, not all of {base_offset} to {end}")
        if self.cleaner.producer_expiration_ms > 1_000_000 and not log.log_start_offset:
            self._check_producers(log, batches, expected, end)
        for offset in range(log.log_start_offset, log.end_offset, 3):
            if not log.read(offset, self.chance.choice([0, 500, 1 << 20])):
                raise Violated(f"{log.topic}: nothing can be read at {offset}")
        if any(name.endswith((".cleaned", ".swap", ".deleted")) for name in self.disk.listdir(log.directory)):
            raise Violated(f"{log.topic}: something is left over in {self.disk.listdir(log.directory)}")

    def _check_producers(self, log: PartitionLog, batches: list[ReplayedBatch], expected: Expected, end: int) -> None:
        wanted = {producer: (last, sequence) for producer, last, sequence in expected.batches if last < end}
        headers = [batch.header for batch in batches if batch.control is None and batch.header.producer_id >= 0]
        found = {header.producer_id: (header.last_offset, header.last_sequence) for header in headers}
        if found != wanted:
            raise Violated(f"{log.topic}: producers wrote {wanted} last, {found} is there")


run = partial(played, CompactedHistory)


if __name__ == "__main__":
    main(CompactedHistory, sys.argv[1:])

"""Seeded histories of a log that crashes: what was acknowledged must be there afterwards, and nothing that was not
written.

`python -m tests.broker.log.history SEEDS [always|interval|never] [power|kill]` repeats one, or 0-199, and says what
happened.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from coordinatord.broker.log import LogConfig, LogDamaged, PartitionLog, leader_epoch_cache
from coordinatord.broker.log.simulated_disk import CrashKind, SimulatedCrash, SimulatedDisk
from coordinatord.broker.log.writer import FlushPolicy
from kafka_wire.records.batch import KeyValues, build_batch
from tests.broker.log.lookups import greatest
from tests.broker.log.world import World, contents

H = TypeVar("H")
Content = list[tuple[int, bytes | None, bytes | None]]


class Violated(AssertionError):
    """Something that must always hold did not."""


@dataclass
class Expected:
    """One partition as the history knows it."""

    written: Content = field(default_factory=list)
    #: timestamp and first offset of each append; timestamps grow
    appends: list[tuple[int, int]] = field(default_factory=list)
    acknowledged: int = 0
    #: greatest log start offset asked for, and the greatest acknowledged
    start: int = 0
    acknowledged_start: int = 0
    #: greatest log start offset that was asked for in any life: the checkpoint of epochs may have it, as Kafka's may
    deleted: int = 0
    #: (offset, leader epoch) -> record that clients may have read
    read: dict[tuple[int, int], tuple[int, bytes | None, bytes | None]] = field(default_factory=dict)


class History:
    """A few lives of one data directory, each ended by a crash or a clean stop."""

    def __init__(self, seed: int, flush: FlushPolicy, kind: CrashKind) -> None:
        self.chance = random.Random(seed)
        self.flush = flush
        self.kind = kind
        self.disk = SimulatedDisk(seed)
        self.expected: dict[str, Expected] = {}
        self.names = [f"t{number}" for number in range(self.chance.randint(1, 4))]
        self.config = LogConfig(
            segment_bytes=self.chance.choice([400, 2000, 100_000]),
            index_interval_bytes=self.chance.choice([50, 300, 4096]),
        )
        self.journal_bytes = self.chance.choice([500, 3000, 1 << 20])
        self.split_bytes = self.chance.choice([200, 1 << 20])
        self.serial = 0
        self.crashes = 0
        self.acknowledgements = 0
        #: whether an acknowledged record must survive this kind of crash
        self.promises_durability = flush == "always" or kind == "kill"

    def run(self, lives: int = 4) -> None:
        for _ in range(lives):
            self.disk.crash_after = self.disk.operations + int(self.chance.expovariate(1 / 60))
            with contextlib.suppress(SimulatedCrash):
                self._live()
            if self.disk.crashed:
                self.crashes += 1
                self.disk.crash(self.kind)
            self.disk.crash_after = None
            self._check()

    def _open(self) -> World:
        return World(self.disk, flush=self.flush, config=self.config, journal_bytes=self.journal_bytes)

    def _live(self) -> None:
        world = self._open()
        world.writer._flusher.split_bytes = self.split_bytes
        for _ in range(self.chance.randint(5, 80)):
            self._act(world)
            if self.disk.crashed:
                raise SimulatedCrash
        world.close()
        if self.disk.crashed:
            raise SimulatedCrash

    def _act(self, world: World) -> None:
        dice = self.chance.random()
        name = self.chance.choice(self.names)
        if dice < 0.45:
            self._append(world, name)
        elif dice < 0.65:
            world.loop.turn()
        elif dice < 0.8:
            world.worker.run_one()
        elif dice < 0.9:
            world.background.run_one()
        elif dice < 0.93:
            world.loop.fire_timers()
        elif dice < 0.95:
            log = world.data.get(name, 0)
            if log:
                log.roll()
        elif dice < 0.98:
            self._delete_records(world, name)
        else:
            log = world.data.get(name, 0)
            if log:
                # Whatever was known of it is void: it may be gone or, by a crash, still there.
                self.expected.pop(name, None)
                self.names[self.names.index(name)] = f"{name}x"
                world.writer.delete([log])

    def _append(self, world: World, name: str) -> None:
        log = world.log(name)
        expected = self.expected.setdefault(name, Expected())
        self.serial += 1
        count = self.chance.randint(1, 4)
        records: list[tuple[bytes | None, bytes | None]] = []
        for number in range(count):
            value = None if self.chance.random() < 0.1 else self.chance.randbytes(self.chance.choice([3, 30, 300]))
            records.append((b"%d.%d" % (self.serial, number), value))
        first = len(expected.written)
        expected.written += [(first + number, *record) for number, record in enumerate(records)]
        # Those that a killed worker has lost are no longer among the written ones.
        expected.appends = [*(each for each in expected.appends if each[1] < first), (self.serial, first)]
        if self.chance.random() < 0.5:
            epoch = world.writer.append_records(log, KeyValues(records), self.serial)
        else:
            may_wait = self.chance.random() < 0.7
            base_offset, epoch = world.writer.append(log, build_batch(records, self.serial), may_wait=may_wait)
            if base_offset != first:
                raise Violated(f"{name}: base offset {base_offset}, {first} was next")
        end = first + count
        world.now_ms += self.chance.randint(0, 1)
        if self.chance.random() < 0.3:
            world.writer.has_flushed(epoch)  # with log.flush=never it is written for that
        leader_epoch = log.leader_epoch
        world.writer.hold(epoch, lambda: self._acknowledge(expected, first, end, leader_epoch))

    def _acknowledge(self, expected: Expected, first: int, end: int, leader_epoch: int) -> None:
        self.acknowledgements += 1
        for record in expected.written[first:end]:
            if expected.read.setdefault((record[0], leader_epoch), record) != record:
                raise Violated(f"offset {record[0]} is of two records, both with leader epoch {leader_epoch}")
        if self.promises_durability:
            expected.acknowledged = max(expected.acknowledged, end)

    def _delete_records(self, world: World, name: str) -> None:
        log = world.data.get(name, 0)
        if log is None or not log.high_watermark:
            return
        expected = self.expected[name]
        offset = self.chance.randint(0, log.high_watermark)
        expected.start = max(expected.start, offset)
        expected.deleted = max(expected.deleted, offset)
        epoch = world.writer.delete_records(log, offset)

        def acknowledge() -> None:
            if self.promises_durability:
                expected.acknowledged_start = max(expected.acknowledged_start, offset)

        world.writer.hold(epoch, acknowledge)

    def _check(self) -> None:
        """Open again, compare, and take what survived as the truth of the next life."""
        world = self._open()
        for name, expected in self.expected.items():
            self._check_one(world, name, expected)
        world.close()

    def _check_one(self, world: World, name: str, expected: Expected) -> None:
        log = world.data.get(name, 0)
        survived: Content = []
        end = 0
        if log:
            if log.high_watermark != log.end_offset:
                raise Violated(f"{name}: high watermark {log.high_watermark}, end {log.end_offset}")
            end = log.end_offset
            if (
                not expected.acknowledged_start
                <= log.log_start_offset
                <= max(expected.start, expected.acknowledged_start)
            ):
                raise Violated(
                    f"{name}: starts at {log.log_start_offset}, {expected.acknowledged_start} was acknowledged"
                )
            survived = [entry for entry in contents(log) if entry[0] >= log.log_start_offset]
            if survived != expected.written[log.log_start_offset : end]:
                raise Violated(f"{name}: {len(survived)} records are not a prefix of what was written")
            self._check_reads(log, name)
            self._check_greatest(log, expected, name)
            self._check_epochs(log, expected)
        if end < expected.acknowledged:
            raise Violated(f"{name}: ends at {end}, {expected.acknowledged} was acknowledged")
        del expected.written[end:]
        expected.appends = [each for each in expected.appends if each[1] < end]
        expected.acknowledged = end
        expected.start = expected.acknowledged_start = log.log_start_offset if log else 0

    def _check_epochs(self, log: PartitionLog, expected: Expected) -> None:
        """A client whose last record is lost finds that its epoch ended before it; no other client does (KIP-320)."""
        for (offset, epoch), record in expected.read.items():
            if offset >= expected.deleted:
                survives = offset < log.end_offset and expected.written[offset] == record
                found = leader_epoch_cache.end_of(log.leader_epochs, epoch, log.end_offset)
                agrees = found is not None and found[0] >= epoch and found[1] > offset
                if agrees != survives:
                    raise Violated(f"{log.name}: {found} for epoch {epoch} and a record at {offset}: {survives=}")
        for header in log.batches(log.log_start_offset):
            if leader_epoch_cache.end_of(log.leader_epochs, header.leader_epoch, log.end_offset) is None:
                raise Violated(f"{log.name}: epoch {header.leader_epoch} of a batch is not known")

    def _check_reads(self, log: PartitionLog, name: str) -> None:
        """Look-ups by offset find what is there."""
        for offset in range(log.log_start_offset, log.end_offset, 3):
            if not log.read(offset, self.chance.choice([0, 500, 1 << 20])):
                raise Violated(f"{name}: nothing can be read at {offset}")

    def _check_greatest(self, log: PartitionLog, expected: Expected, name: str) -> None:
        """The record with the greatest timestamp is the first one of the last append that is there. As on Kafka it may
        be a deleted one, as long as its segment is there; with the segment it goes, and then there is none.
        """
        there = contents(log)  # also deleted ones, as long as their segments are there
        surviving = [each for each in expected.appends if each[1] < log.end_offset]
        last = surviving[-1] if surviving and there and there[-1][0] >= surviving[-1][1] else None
        found = greatest(log)
        if (found and (found.timestamp, found.offset)) != last:
            raise Violated(f"{name}: {found} has the greatest timestamp, {last} was expected")
        if last is None and log.log_start_offset < log.end_offset:
            raise Violated(f"{name}: records without a greatest timestamp")


def played(
    make: Callable[[int, FlushPolicy, CrashKind], H],
    seed: int,
    flush: FlushPolicy = "always",
    kind: CrashKind = "power",
    lives: int = 4,
) -> H:
    """Run one history. A violation names the command that repeats it."""
    history: Any = make(seed, flush, kind)
    module = sys.modules[make.__module__].__spec__  # also of the command itself
    command = f"python -m {module.name if module else make.__module__} {seed} {flush} {kind}"
    try:
        history.run(lives)
    except LogDamaged as damage:
        # After a power failure nobody can tell what log.flush=never left behind: refusing is right, losing silently
        # is not.
        if flush != "never" or kind != "power":
            raise Violated(f"{damage}; repeat: {command}") from damage
    except Exception as error:
        raise Violated(f"{error!r}; repeat: {command}") from error
    return history  # type: ignore[no-any-return]


def main(make: Callable[[int, FlushPolicy, CrashKind], H], arguments: list[str]) -> None:
    """The command: play the histories of some seeds until one is violated."""
    seeds, *how = arguments
    first, _, last = seeds.partition("-")
    for seed in range(int(first), int(last or first) + 1):
        try:
            history: Any = played(make, seed, *how)  # type: ignore[arg-type]
        except Violated as why:
            print(f"seed {seed}: {why}")
            sys.exit(1)
    print(f"seed {seed}: {history.crashes} crashes, nothing lost")


run = partial(played, History)


if __name__ == "__main__":
    main(History, sys.argv[1:])

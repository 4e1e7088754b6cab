"""Random programs on a share partition, compared with a model after each step."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from coordinatord.coordination.share.partition import events
from coordinatord.coordination.share.partition.result import Result, Write
from coordinatord.coordination.share.partition.state import DeadLetters, Limits, SharePartition
from coordinatord.coordination.share.partition.step import step
from coordinatord.coordination.share.partition.window import can_acquire, next_fetch_offset
from coordinatord.coordination.share.persister import StateBatch
from kafka_wire.errors import ErrorCode
from tests.coordination.share.model import ACQUIRED, ARCHIVED, ARCHIVING, AVAILABLE, Log, Model, states_of

MEMBERS = ("one", "two", "three")


class Program:
    """A random program; `ran` counts its steps by kind."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        chance = self.random
        self.limits = Limits(
            chance.choice((50, 1_000)), chance.choice((2, 3, 5)), chance.choice((5, 20, 100)),
            dead_letters=chance.random() < 0.5,
        )  # fmt: skip
        self.log = Log()
        self.model = Model(self.log, self.limits)
        self.partition = SharePartition(self.limits)
        self.now_ms = 0
        self.writes: list[Write] = []
        self.letters: list[DeadLetters] = []
        self.ran: Counter[str] = Counter()
        step(self.partition, events.Initialize(0, 0, ()), 0)

    def run(self, steps: int) -> None:
        actions = (
            self.append, self.acquire, self.acquire, self.acknowledge, self.acknowledge, self.acknowledge_some,
            self.written, self.written, self.letters_done, self.release, self.pass_time, self.compact, self.delete,
            self.restart,
        )  # fmt: skip
        weights = (6, 10, 10, 8, 8, 6, 10, 10, 6, 1, 3, 1, 1, 0.5)
        for _ in range(steps):
            action = self.random.choices(actions, weights)[0]
            self.ran[action.__name__] += 1
            action()
            self.model.compare(self.partition)
            self.check_letters()

    def tell(self, event: events.Event) -> Result:
        result = step(self.partition, event, self.now_ms)
        self.letters += result.letters
        return result

    def check_letters(self) -> None:
        """Check that each record which is being archived has a dead letter, or will have it after a write."""
        archiving = [offset for offset, state in states_of(self.partition) if state[0] == ARCHIVING]
        waiting = [each[:2] for each in self.letters]
        waiting += [each[:2] for write in self.writes for each in write.batches if each.delivery_state == ARCHIVING]
        assert archiving == sorted(offset for first, last in waiting for offset in range(first, last + 1))

    def wrote(self, write: Write | None, *, reverts: bool = True) -> None:
        if write is not None:
            self.model.began(write, reverts=reverts)
            self.writes.append(write)

    # Actions

    def append(self) -> None:
        self.log.append(self.random.choice((1, 1, 3, 10)), aborted=self.random.random() < 0.1)

    def acquire(self) -> None:
        chance = self.random
        if not can_acquire(self.partition):
            return
        offset = next_fetch_offset(self.partition)
        if offset < self.log.start:
            self.tell(events.MoveLogStart(self.log.start))
            self.moved(self.log.start)
            return
        read = self.log.read(offset, chance.choice((1, 2, 5)))
        if not read or offset >= self.log.end:
            return
        member = chance.choice(MEMBERS)
        record_limit = chance.random() < 0.4
        most = chance.choice((1, 2, 7, 500))
        before = set(dict(states_of(self.partition)))
        aborted = tuple(batch for batch in read if batch in self.log.aborted)
        event = events.Acquire(member, record_limit, chance.choice((1, 3, 500)), most, offset, read, aborted)
        result = self.tell(event)
        self.missing(offset, read[0].first, before)
        offsets = self.model.acquired(member, result.acquired, read, self.now_ms)
        self.aborted(aborted, member)
        assert len(offsets) == result.count
        if record_limit:
            assert result.count <= most
        self.fits()
        self.ran["acquired"] += len(offsets)
        self.ran["again"] += sum(each.delivery_count > 1 for each in result.acquired)
        self.ran["nothing"] += not offsets and not aborted

    def fits(self) -> None:
        """Check the window's size: the limit, and the rest of a record batch. Offsets not in the log are left out."""
        start, end = self.partition.start_offset, self.partition.end_offset
        counts = [min(batch.last, end) - max(batch.first, start) + 1 for batch in self.log.batches]
        present = sum(count for count in counts if count > 0)
        assert present <= self.limits.partition_max_record_locks + max(counts)

    def missing(self, offset: int, base: int, before: set[int]) -> None:
        """Archive, in the model, available records that compaction has removed."""
        for gone in range(offset, base):
            record = self.model.record(gone)
            if gone in before and record.state == AVAILABLE and gone >= self.model.start:
                self.model.records[gone].state = ARCHIVED
                self.model.records[gone].before = record.before

    def aborted(self, aborted: tuple[events.OffsetRange, ...], member: str) -> None:
        """Take over, in the model, records of aborted transactions: they are archived with the first delivery."""
        seen = dict(states_of(self.partition))
        for batch in aborted:
            for offset in range(batch.first, batch.last + 1):
                if offset in seen and seen[offset][0] == ARCHIVED:
                    record = self.model.record(offset)
                    assert record.member in ("", member)
                    record.state, record.count, record.member = ARCHIVED, seen[offset][1], ""

    def acknowledge(self) -> None:
        """Acknowledge what a member has acquired, or some of it."""
        chance = self.random
        member = chance.choice(MEMBERS)
        owned = [
            offset for offset, record in sorted(self.model.records.items())
            if record.state == ACQUIRED and record.member == member and offset >= self.model.start
        ]  # fmt: skip
        if not owned:
            return
        if chance.random() < 0.5:
            owned = owned[: chance.randint(1, len(owned))]
        batches: list[events.AcknowledgementBatch] = []
        for offset in owned:
            last = batches[-1] if batches else None
            if last is not None and last.last + 1 == offset and chance.random() < 0.9:
                batches[-1] = last._replace(last=offset)
            else:
                batches.append(events.AcknowledgementBatch(offset, offset, (chance.choice((0, 1, 1, 1, 2, 2, 3, 4)),)))
        if chance.random() < 0.3:
            batches = [
                each._replace(types=tuple(chance.choice((0, 1, 2, 3, 4)) for _ in range(each.last - each.first + 1)))
                for each in batches
            ]
        self.acknowledged(member, batches)

    def acknowledge_some(self) -> None:
        """Acknowledge any offsets: mostly wrong."""
        chance = self.random
        first = max(0, chance.randint(self.partition.start_offset - 3, self.partition.end_offset + 3))
        last = first + chance.choice((0, 0, 2, 5))
        self.acknowledged(
            chance.choice(MEMBERS), [events.AcknowledgementBatch(first, last, (chance.choice((1, 2, 3)),))]
        )

    def acknowledged(self, member: str, batches: list[events.AcknowledgementBatch]) -> None:
        known = {offset for offset, _ in states_of(self.partition)}
        result = self.tell(events.Acknowledge(member, tuple(batches)))
        expected = self.model.acknowledge(member, batches, known, self.now_ms)
        assert (result.error == ErrorCode.NONE) == expected, (batches, result)
        self.ran["accepted" if expected else "refused"] += 1
        self.wrote(result.write)

    def written(self) -> None:
        if not self.writes:
            return
        write = self.writes.pop(self.random.randrange(len(self.writes)))
        committed = self.random.random() < 0.8
        self.tell(events.Written(write.write_id, committed))
        self.model.written(write, committed=committed, now_ms=self.now_ms)

    def letters_done(self) -> None:
        """End some of the dead letters."""
        done = self.letters[: self.random.randint(0, len(self.letters))]
        del self.letters[: len(done)]
        for first, last, delivery_count, is_rejected in done:
            assert is_rejected or delivery_count >= self.limits.delivery_count_limit
            for offset in range(first, last + 1):
                self.model.records[offset].state = ARCHIVED
        self.wrote(self.tell(events.LettersDone(done)).write, reverts=False)
        self.ran["letters"] += len(done)

    def release(self) -> None:
        member = self.random.choice(MEMBERS)
        self.model.release(member)
        self.wrote(self.tell(events.Release(member)).write)

    def pass_time(self) -> None:
        self.now_ms += self.random.choice((10, 40, 1_000))
        due_ms = self.partition.deadline_ms
        result = self.tell(events.LockTimeout())
        self.model.time_out(self.now_ms)
        assert result.write is None or due_ms is not None
        self.wrote(result.write, reverts=False)
        self.ran["timed out"] += result.write is not None

    def compact(self) -> None:
        """Remove a record batch from the middle of the log."""
        if len(self.log.batches) > 3:
            del self.log.batches[self.random.randrange(len(self.log.batches) - 2)]

    def delete(self) -> None:
        """Move the log's start; the share partition sees it with its next read."""
        if self.random.random() < 0.3 and len(self.log.batches) > 2:
            self.log.start = max(self.log.start, self.random.choice(self.log.batches[:-1]).first)
            self.log.batches = [batch for batch in self.log.batches if batch.last >= self.log.start]

    def moved(self, offset: int) -> None:
        for each, record in self.model.records.items():
            if self.model.start <= each < offset and record.state == AVAILABLE:
                record.state, record.before = ARCHIVED, None

    def restart(self) -> None:
        self.writes.clear()
        self.letters.clear()
        kept = self.model.restart()
        merged: list[StateBatch] = []
        for each in kept:
            last = merged[-1] if merged else None
            if last and last.last_offset + 1 == each.first_offset and last[2:] == each[2:]:
                merged[-1] = last._replace(last_offset=each.last_offset)
            else:
                merged.append(each)
        self.partition = SharePartition(self.limits)
        self.tell(events.Initialize(self.model.start, 0, merged))


@pytest.mark.parametrize("seed", range(60))
def test_a_random_program(seed: int) -> None:
    Program(seed).run(300)


def test_random_programs_reach_every_case() -> None:
    """Count what 30 programs did: a program that never acquires shows nothing."""
    total: Counter[str] = Counter()
    for seed in range(30):
        program = Program(seed)
        program.run(300)
        total += program.ran
    for kind in (
        "acquired",
        "again",
        "accepted",
        "refused",
        "timed out",
        "restart",
        "compact",
        "delete",
        "release",
        "letters",
    ):
        assert total[kind] > 20, (kind, total)

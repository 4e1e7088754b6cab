"""A model of a share partition: a dict of records, without batches, and the log that its members read.

It predicts acknowledgements, releases and lock time-outs record by record, and checks what an acquisition returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from coordinatord.coordination.share.partition import events
from coordinatord.coordination.share.partition.result import AcquiredRecords, Write
from coordinatord.coordination.share.partition.state import Limits, SharePartition
from coordinatord.coordination.share.persister import StateBatch

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = range(5)
NEXT = {0: ARCHIVED, 1: ACKNOWLEDGED, 2: AVAILABLE, 3: ARCHIVED}
DONE = (ACKNOWLEDGED, ARCHIVED)


@dataclass
class Record:
    """One record. `before` is what a failed write restores."""

    state: int = AVAILABLE
    count: int = 0
    member: str = ""
    deadline_ms: int = 0
    before: Record | None = None


@dataclass
class Log:
    """Record batches of a partition as (first, last); `aborted` are not delivered."""

    batches: list[events.OffsetRange] = field(default_factory=list)
    aborted: set[events.OffsetRange] = field(default_factory=set)
    start: int = 0

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else 0

    def append(self, count: int, *, aborted: bool) -> None:
        batch = events.OffsetRange(self.end, self.end + count - 1)
        self.batches.append(batch)
        if aborted:
            self.aborted.add(batch)

    def read(self, offset: int, count: int) -> list[events.OffsetRange]:
        """Return up to `count` batches, beginning with the one that has `offset` or the next."""
        return [batch for batch in self.batches if batch.last >= max(offset, self.start)][:count]


class Model:
    """What the records of a share partition must be, from its events and its answers."""

    def __init__(self, log: Log, limits: Limits) -> None:
        self.log = log
        self.limits = limits
        self.records: dict[int, Record] = {}
        self.start = 0
        self.writes: dict[int, list[int]] = {}
        self.persisted: dict[int, StateBatch] = {}
        self.persisted_start = 0
        self.acknowledged: set[int] = set()

    def record(self, offset: int) -> Record:
        return self.records.setdefault(offset, Record())

    # Acquisition

    def acquired(
        self, member: str, found: Sequence[AcquiredRecords], read: Sequence[events.OffsetRange], now_ms: int
    ) -> list[int]:
        """Check acquired records and note them; return their offsets."""
        offsets = [offset for each in found for offset in range(each.first, each.last + 1)]
        assert offsets == sorted(set(offsets))
        for each in found:
            for offset in range(each.first, each.last + 1):
                record = self.record(offset)
                assert record.state == AVAILABLE, (offset, record)
                assert record.before is None, (offset, record)
                assert record.count + 1 == each.delivery_count, (offset, record)
                assert each.delivery_count <= self.limits.delivery_count_limit
                assert offset not in self.acknowledged
                assert read[0].first <= offset <= read[-1].last
                assert not any(gone.first <= offset <= gone.last for gone in self.log.aborted)
                deadline_ms = now_ms + self.limits.record_lock_duration_ms
                self.records[offset] = Record(ACQUIRED, each.delivery_count, member, deadline_ms)
        return offsets

    # Acknowledgements

    def acknowledge(
        self, member: str, batches: Sequence[events.AcknowledgementBatch], known: set[int], now_ms: int
    ) -> bool:
        """Apply acknowledgements, if all of them are right. `known` are the offsets in the window."""
        changed: dict[int, Record] = {}
        for batch in batches:
            if batch.last < self.start:
                continue
            offsets = [each for each in range(batch.first, batch.last + 1) if each in known and each >= self.start]
            if batch.last > max(known, default=-1) or not offsets:
                return self._refused(changed)
            for offset in offsets:
                record = self.record(offset)
                if record.state != ACQUIRED or record.member != member or record.before is not None:
                    return self._refused(changed)
                type_ = batch.types[0] if len(batch.types) == 1 else batch.types[offset - batch.first]
                if type_ == 4:
                    record.deadline_ms = now_ms + self.limits.record_lock_duration_ms
                else:
                    changed[offset] = replace(record)
                    self._leave(record, ARCHIVING if type_ == 3 and self.limits.dead_letters else NEXT[type_])
                    record.before = changed[offset]
        return True

    def _refused(self, changed: dict[int, Record]) -> bool:
        for offset, record in changed.items():
            self.records[offset] = record
        return False

    def _leave(self, record: Record, state: int) -> None:
        if state == AVAILABLE and record.count >= self.limits.delivery_count_limit:
            state = ARCHIVING if self.limits.dead_letters else ARCHIVED
        record.state, record.member = state, ""

    def release(self, member: str) -> None:
        for offset, record in self.records.items():
            if record.state == ACQUIRED and record.member == member:
                before = replace(record)
                self._leave(record, ARCHIVED if offset < self.start else AVAILABLE)
                record.before = before

    def time_out(self, now_ms: int) -> None:
        for offset, record in self.records.items():
            if record.state == ACQUIRED and record.deadline_ms <= now_ms:
                self._leave(record, ARCHIVED if offset < self.start else AVAILABLE)

    # Writes

    def began(self, write: Write, *, reverts: bool) -> None:
        """Check that a write has the state of the records. With `reverts` its failure restores the state before."""
        offsets = []
        for batch in write.batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                record = self.record(offset)
                assert (record.state, record.count) == (batch.delivery_state, batch.delivery_count), (
                    offset,
                    record,
                    batch,
                )
                offsets.append(offset)
        self.writes[write.write_id] = offsets if reverts else []

    def written(self, write: Write, *, committed: bool, now_ms: int) -> None:
        for offset in self.writes.pop(write.write_id):
            record = self.records[offset]
            if record.before is None:
                continue
            if not committed and record.before.deadline_ms <= now_ms:
                record.before.state = ARCHIVED if record.count >= self.limits.delivery_count_limit else AVAILABLE
                record.before.member = ""
            if not committed:
                self.records[offset] = record.before
            elif record.state == ACKNOWLEDGED:
                self.acknowledged.add(offset)
            record.before = None
        if committed:
            self.persisted_start = max(self.persisted_start, write.start_offset)
            for batch in write.batches:
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    self.persisted[offset] = StateBatch(offset, offset, batch.delivery_state, batch.delivery_count)

    def restart(self) -> list[StateBatch]:
        """Forget what was not persisted; return the persisted state."""
        self.writes.clear()
        self.start = self.persisted_start
        kept = [self.persisted[offset] for offset in sorted(self.persisted) if offset >= self.start]
        self.records = {each.first_offset: Record(each.delivery_state, each.delivery_count) for each in kept}
        return kept

    # Comparison

    def compare(self, partition: SharePartition) -> None:
        """Compare all records from the start offset on; check that the start offset has passed finished ones only."""
        assert partition.start_offset >= self.start
        for offset in range(self.start, partition.start_offset):
            record = self.record(offset)
            in_log = any(batch.first <= offset <= batch.last for batch in self.log.batches)
            assert (record.state in DONE and record.before is None) or not in_log or offset < self.log.start, offset
        self.start = partition.start_offset
        seen = dict(states_of(partition))
        done = 0
        for offset in range(self.start, max([*seen, *self.records, 0]) + 1):
            record = self.record(offset)
            state = seen.get(offset, (AVAILABLE, 0, "", False))
            assert state == (record.state, record.count, record.member, record.before is not None), (
                offset,
                record,
                state,
            )
            done += offset in seen and state[0] in DONE
        assert partition.delivery_complete_count == done


def states_of(partition: SharePartition) -> list[tuple[int, tuple[int, int, str, bool]]]:
    """Return offset, state, delivery count, member, and whether a write is in progress, of each record."""
    found = []
    for batch in partition.batches:
        for offset in range(batch.first, batch.last + 1):
            one = batch.at(offset)
            found.append((offset, (int(one.state), one.delivery_count, one.member_id, one.before is not None)))
    return found

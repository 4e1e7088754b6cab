"""A share partition for tests: its offsets, and short names for events."""

from __future__ import annotations

from typing import Any

from coordinatord.coordination.share.partition import events
from coordinatord.coordination.share.partition.events import AcknowledgementBatch, OffsetRange
from coordinatord.coordination.share.partition.result import Result
from coordinatord.coordination.share.partition.state import Limits, RecordState, SharePartition
from coordinatord.coordination.share.partition.step import step
from coordinatord.coordination.share.partition.window import next_fetch_offset
from coordinatord.coordination.share.persister import StateBatch

LETTERS = {
    RecordState.AVAILABLE: ".",
    RecordState.ACQUIRED: "q",
    RecordState.ACKNOWLEDGED: "k",
    RecordState.ARCHIVING: "d",
    RecordState.ARCHIVED: "x",
}

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


class World:
    """A share partition at a moment. `shown` is the window: a letter for each record, a capital while it is written."""

    def __init__(self, start: int = 0, state: tuple[StateBatch, ...] = (), **limits: Any) -> None:
        self.partition = SharePartition(Limits()._replace(**limits))
        self.now_ms = 0
        self.tell(events.Initialize(start, 0, state))

    def tell(self, event: events.Event) -> Result:
        return step(self.partition, event, self.now_ms)

    def acquire(
        self, *batches: tuple[int, int], member: str = "m", most: int = 500, size: int = 500, limit: bool = False,
        aborted: tuple[tuple[int, int], ...] = (),
    ) -> list[tuple[int, int, int]]:  # fmt: skip
        """Acquire from record batches that were read at the next fetch offset; return what was acquired."""
        read = [OffsetRange(*batch) for batch in batches]
        gone = [OffsetRange(*batch) for batch in aborted]
        offset = next_fetch_offset(self.partition)
        result = self.tell(events.Acquire(member, limit, size, most, offset, read, gone))
        assert result.count == sum(last - first + 1 for first, last, _ in result.acquired)
        return [(first, last, count) for first, last, count in result.acquired]

    def acknowledge(self, *batches: tuple[int, int, int | tuple[int, ...]], member: str = "m") -> Result:
        """Acknowledge (first, last, type or types)."""
        asked = [
            AcknowledgementBatch(first, last, types if isinstance(types, tuple) else (types,))
            for first, last, types in batches
        ]
        return self.tell(events.Acknowledge(member, tuple(asked)))

    def done(self, result: Result, *, committed: bool = True) -> Result:
        """End the write of a result."""
        assert result.write is not None
        return self.tell(events.Written(result.write.write_id, committed))

    def letters_done(self, result: Result) -> Result:
        """End the dead letters of a result."""
        assert result.letters
        return self.tell(events.LettersDone(result.letters))

    def after(self, ms: int) -> Result:
        self.now_ms += ms
        return self.tell(events.LockTimeout())

    @property
    def shown(self) -> str:
        text = f"{self.partition.start_offset}:"
        for batch in self.partition.batches:
            for offset in range(batch.first, batch.last + 1):
                record = batch.at(offset)
                letter = LETTERS[record.state]
                text += letter.upper() if record.before is not None and letter != "." else letter
        return text

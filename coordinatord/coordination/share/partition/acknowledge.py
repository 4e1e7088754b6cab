"""A member's acknowledgements (Kafka's SharePartition.acknowledge).

The batches of a request are applied in order. If one of them is wrong, all changes of the request are reverted; locks
that were renewed stay renewed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Final, NamedTuple

from coordinatord.coordination.share.partition.events import AcknowledgementBatch, AcknowledgeType
from coordinatord.coordination.share.partition.result import Result
from coordinatord.coordination.share.partition.state import (
    DeadLetters,
    InFlightBatch,
    InFlightState,
    Pending,
    RecordState,
    SharePartition,
)
from coordinatord.coordination.share.partition.writes import finish, start_write
from coordinatord.coordination.share.persister import StateBatch
from kafka_wire.errors import ErrorCode

_NEXT: Final[Mapping[int, RecordState]] = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}


class Refusal(NamedTuple):
    """Why acknowledgements are not accepted: Kafka's error code and message."""

    error: ErrorCode
    message: str


def _invalid_state(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_RECORD_STATE, message)


def _typed(asked: AcknowledgementBatch, first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """Return the offsets from `first` to `last` in runs of one acknowledge type: (first, last, type)."""
    if len(asked.types) == 1:
        yield first, last, asked.types[0]
        return
    for type_, offsets in groupby(range(first, last + 1), lambda offset: asked.types[offset - asked.first]):
        of_type = list(offsets)
        yield of_type[0], of_type[-1], type_


def acknowledge(
    partition: SharePartition, member_id: str, batches: tuple[AcknowledgementBatch, ...], now_ms: int
) -> Result:
    """Apply the acknowledgements of `member_id`. The response waits for the write, if there is one."""
    acknowledging = _Acknowledging(partition, member_id, now_ms)
    for asked in batches:
        refusal = acknowledging.apply(asked)
        if refusal is not None:
            wakes = finish(partition, acknowledging.pending, committed=False, now_ms=now_ms)
            return Result(error=refusal.error, message=refusal.message, wakes=wakes)
    return Result(write=start_write(partition, acknowledging.pending, acknowledging.letters))


class _Acknowledging:
    """The acknowledgements of one request; `pending` are the changes so far, `letters` the dead letters of them."""

    __slots__ = ("letters", "member_id", "now_ms", "partition", "pending")

    def __init__(self, partition: SharePartition, member_id: str, now_ms: int) -> None:
        self.partition = partition
        self.member_id = member_id
        self.now_ms = now_ms
        self.pending: Pending = []
        self.letters: list[DeadLetters] = []

    def apply(self, asked: AcknowledgementBatch) -> Refusal | None:
        """Apply one batch of acknowledgements; return why that is not possible."""
        if min(asked.types) < 0 or max(asked.types) > AcknowledgeType.RENEW:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Invalid acknowledge type: {list(asked.types)}")
        if asked.last < self.partition.start_offset:
            return None
        found = self._find(asked)
        if isinstance(found, Refusal):
            return found
        for batch in found:
            if batch.last < self.partition.start_offset:
                continue
            refusal = self._apply_to(batch, asked)
            if refusal is not None:
                return refusal
        return None

    def _find(self, asked: AcknowledgementBatch) -> list[InFlightBatch] | Refusal:
        """Return the batches of the window that contain the offsets."""
        partition = self.partition
        floor = partition.floor(asked.first)
        if floor is None and asked.first < partition.start_offset <= asked.last:
            floor = partition.floor(partition.start_offset)
        if floor is None:
            return _invalid_state("Batch record not found. The request batch offsets are not found in the cache.")
        if floor.last >= asked.last:
            return [floor]
        found = partition.from_to(floor.first, asked.last)
        if found[-1].last < asked.last:
            end = "first" if found[-1].last < asked.first else "last"
            return Refusal(
                ErrorCode.INVALID_REQUEST,
                f"Batch record not found. The {end} offset in request is past acquired records.",
            )
        return found

    def _apply_to(self, batch: InFlightBatch, asked: AcknowledgementBatch) -> Refusal | None:
        whole = batch.whole
        if whole is not None:
            refusal = self._hinders(whole)
            if refusal is not None:
                return refusal
            is_cut = not batch.is_within(asked.first, asked.last) or len(asked.types) > 1
            if not is_cut and batch.first >= self.partition.start_offset:
                return self._change(whole, batch.first, batch.last, asked.types[0])
            batch.split()
        begin = max(asked.first, self.partition.start_offset, batch.first)
        for first, last, type_ in _typed(asked, begin, min(asked.last, batch.last)):
            for run_first, run_last, record in batch.cut_out(first, last):
                refusal = self._hinders_one(record) or self._change(record, run_first, run_last, type_)
                if refusal is not None:
                    return refusal
        return None

    def _hinders(self, whole: InFlightState) -> Refusal | None:
        if not whole.member_id:
            return _invalid_state("The batch cannot be acknowledged. The batch is not in the acquired state.")
        if whole.member_id != self.member_id:
            return _invalid_state("Member is not the owner of batch record")
        return None

    def _hinders_one(self, record: InFlightState) -> Refusal | None:
        if record.state is not RecordState.ACQUIRED:
            return _invalid_state("The offset cannot be acknowledged. The offset is not acquired.")
        if record.member_id != self.member_id:
            return _invalid_state("Member is not the owner of offset")
        return None

    def _change(self, record: InFlightState, first: int, last: int, type_: int) -> Refusal | None:
        partition = self.partition
        if type_ == AcknowledgeType.RENEW:
            if not partition.limits.renew_acknowledge_enable:
                return _invalid_state("Renewing acquisition locks is not enabled for the group.")
            record.deadline_ms = partition.lock(self.now_ms)
            return None
        is_rejected = type_ == AcknowledgeType.REJECT
        with_letter = is_rejected and partition.limits.dead_letters
        record.begin(RecordState.ARCHIVING if with_letter else _NEXT[type_], partition.limits)
        if record.state is RecordState.ARCHIVING:
            self.letters.append(DeadLetters(first, last, record.delivery_count, is_rejected))
        self.pending.append((record, StateBatch(first, last, record.state, record.delivery_count)))
        if record.state.is_terminal:
            partition.delivery_complete_count += partition.in_window(first, last)
        return None

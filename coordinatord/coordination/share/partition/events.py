"""The events of a share partition. Offsets of ranges are inclusive."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from coordinatord.coordination.share.partition.state import DeadLetters
from coordinatord.coordination.share.persister import StateBatch


class AcknowledgeType(IntEnum):
    """The type of an acknowledgement."""

    GAP = 0  # the member found no record at the offset
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class OffsetRange(NamedTuple):
    """The offsets from `first` to `last`."""

    first: int
    last: int


class AcknowledgementBatch(NamedTuple):
    """Acknowledgements of a range of offsets: one type for all, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class Initialize(NamedTuple):
    """The persisted state has been read. `start_offset` is the persisted one, or that of share.auto.offset.reset."""

    start_offset: int
    state_epoch: int
    batches: Sequence[StateBatch]


class InitializeFailed(NamedTuple):
    """The persisted state could not be read."""


class Fence(NamedTuple):
    """Another node has taken over, or the group or the topic is gone."""


class Acquire(NamedTuple):
    """A member fetches. `batches` are the record batches that were read at `fetch_offset`, `aborted` those of them that
    belong to aborted transactions and are not delivered (read_committed). With `record_limit` no more than
    `max_records` are acquired; otherwise the batch of the last record is acquired to its end.
    """

    member_id: str
    record_limit: bool
    batch_size: int
    max_records: int
    fetch_offset: int
    batches: Sequence[OffsetRange]
    aborted: Sequence[OffsetRange] = ()


class Acknowledge(NamedTuple):
    """A member acknowledges records."""

    member_id: str
    batches: tuple[AcknowledgementBatch, ...]


class Release(NamedTuple):
    """A member's share session has ended: its records are available again."""

    member_id: str


class LockTimeout(NamedTuple):
    """Locks may have timed out."""


class MoveLogStart(NamedTuple):
    """The log's first offset is now `offset`."""

    offset: int


class Written(NamedTuple):
    """The write `write_id` has ended."""

    write_id: int
    committed: bool


class LettersDone(NamedTuple):
    """These dead letters are durable, or cannot be written: either way their records are archived."""

    letters: Sequence[DeadLetters]


Event = (
    Initialize
    | InitializeFailed
    | Fence
    | Acquire
    | Acknowledge
    | Release
    | LockTimeout
    | MoveLogStart
    | Written
    | LettersDone
)

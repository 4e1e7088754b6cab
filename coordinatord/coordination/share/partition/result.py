"""The result of one step of a share partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from coordinatord.coordination.share.partition.state import DeadLetters
from coordinatord.coordination.share.persister import StateBatch
from kafka_wire.errors import ErrorCode


class AcquiredRecords(NamedTuple):
    """The offsets `first` to `last`, acquired by a member for the `delivery_count`-th time."""

    first: int
    last: int
    delivery_count: int


class Write(NamedTuple):
    """State to persist; the shell reports the end of the write with the event Written."""

    write_id: int
    state_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


@dataclass(slots=True)
class Result:
    """The result of a step. `count` is the number of offsets acquired. `error` and `message` are the response to an
    acknowledgement. `write` is to be persisted: the response to an acknowledgement waits for it. With `wakes`, waiting
    fetches may find more records to acquire. `letters` are to be written; the shell reports their end with the event
    LettersDone.
    """

    acquired: Sequence[AcquiredRecords] = ()
    count: int = 0
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    write: Write | None = None
    wakes: bool = False
    letters: Sequence[DeadLetters] = ()


NOTHING = Result()
"""The result of a step that changes nothing outside. The shell must not change it."""

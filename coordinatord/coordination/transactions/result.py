"""The result of one step, which the shell applies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coordinatord.coordination.transactions.state import TopicPartition, TransactionState
from kafka_wire.records.transactions import TransactionLogValue


class Transition(NamedTuple):
    """A change of the transactional id's state."""

    transactional_id: str
    old: TransactionState
    new: TransactionState
    producer_id: int
    producer_epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class Markers:
    """Instruction to write a marker to each of these partitions once the record of the decision is durable; then to
    send `MarkersWritten`. Writing a marker twice does no harm.
    """

    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int


@dataclass(slots=True)
class Result:
    """The result of one step. `reply` is the response to the event's own request; None if the request is parked, or if
    there is none. `record` has been applied already and must be logged before any response is sent; `tombstone` is a
    record without a value. Constants of this class are shared.
    """

    reply: Any = None
    record: TransactionLogValue | None = None
    tombstone: bool = False
    replies: list[tuple[Any, Any]] = field(default_factory=list)
    markers: Markers | None = None
    transitions: list[Transition] = field(default_factory=list)


NOTHING = Result()

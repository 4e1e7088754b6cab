"""The events of a transactional id.

An event has the transaction version that its request's version stands for: 2 for KIP-890 (EndTxn v5,
AddPartitionsToTxn v4 and requests that imply it), otherwise 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coordinatord.coordination.transactions.state import TopicPartition
from kafka_wire.values import Value


@dataclass(slots=True, repr=False, eq=False)
class Init(Value):
    """InitProducerId. `expected` is the producer id and epoch that the producer claims to have (v3+, KIP-360)."""

    timeout_ms: int
    expected: tuple[int, int] | None = None


@dataclass(slots=True, repr=False, eq=False)
class AddPartitions(Value):
    """AddPartitionsToTxn, AddOffsetsToTxn, or the first write to a partition."""

    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    client_version: int = 0


@dataclass(slots=True, repr=False, eq=False)
class End(Value):
    """EndTxn: commit or abort. `reply_to` is opaque and not None."""

    producer_id: int
    producer_epoch: int
    committed: bool
    reply_to: Any
    client_version: int = 0


@dataclass(slots=True, repr=False, eq=False)
class TimedOut(Value):
    """The deadline of the transaction may have passed."""


@dataclass(slots=True, repr=False, eq=False)
class MarkersWritten(Value):
    """Every partition has its marker, durably."""


@dataclass(slots=True, repr=False, eq=False)
class Expire(Value):
    """Forget the id if it has been idle for transactional.id.expiration.ms."""


@dataclass(slots=True, repr=False, eq=False)
class Unload(Value):
    """This coordinator stops serving the id."""


Event = Init | AddPartitions | End | TimedOut | MarkersWritten | Expire | Unload

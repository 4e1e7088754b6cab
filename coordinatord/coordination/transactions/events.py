"""The events of a transactional id.

An event contains the transaction version that corresponds to its request's version: 2 for KIP-890 (EndTxn v5,
AddPartitionsToTxn v4 and requests that imply it), otherwise 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coordinatord.coordination.transactions.state import TopicPartition


@dataclass(slots=True)
class Init:
    """An InitProducerId request. `expected`: producer id and epoch that the producer claims to have (v3+, KIP-360)."""

    timeout_ms: int
    expected: tuple[int, int] | None = None


@dataclass(slots=True)
class AddPartitions:
    """An AddPartitionsToTxn or AddOffsetsToTxn request, or the first write to a partition."""

    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    client_version: int = 0


@dataclass(slots=True)
class End:
    """An EndTxn request: commit or abort. `reply_to` is opaque and not None."""

    producer_id: int
    producer_epoch: int
    committed: bool
    reply_to: Any
    client_version: int = 0


@dataclass(slots=True)
class TimedOut:
    """A timer of the transaction: its deadline may have passed."""


@dataclass(slots=True)
class MarkersWritten:
    """Completion of the markers: every partition has a durable marker."""


@dataclass(slots=True)
class Expire:
    """Expiry: remove the id if it has been idle for transactional.id.expiration.ms."""


@dataclass(slots=True)
class Unload:
    """End of service: this coordinator stops serving the id."""


Event = Init | AddPartitions | End | TimedOut | MarkersWritten | Expire | Unload

"""What Produce asks the coordinators of transactions: which partitions belong to a producer's transaction (KIP-890)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from kafka_wire.errors import ErrorCode

TopicPartition = tuple[str, int]

Errors = dict[TopicPartition, ErrorCode]


class Participation(NamedTuple):
    """The partitions that are not part of a transaction, with their errors; and the log epoch that must be durable
    before anything is written to the rest. Where `ask` is set, another node must be asked: `ask` takes a callback for
    the errors, which arrive once the rest is durable there.
    """

    errors: Errors
    epoch: int
    ask: Callable[[Callable[[Errors], object]], object] | None = None


class Told(NamedTuple):
    """Another node's answer about partitions, and each partition's number of markers when the node was asked: a
    partition that got another marker since then may no longer be part of the transaction.
    """

    errors: Errors
    markers: dict[TopicPartition, int]


class TransactionCoordinator(Protocol):
    """The component that knows which partitions are part of a producer's transaction."""

    def participation(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> Participation:
        """`add`: add the partitions that are not yet part of the transaction."""


class Nobody:
    """Stands for a missing transaction coordinator: no partition is part of a transaction."""

    def participation(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> Participation:
        return Participation(dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE), 0)

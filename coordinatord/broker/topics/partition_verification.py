"""Verification by transaction coordinators that partitions belong to a producer's transaction (KIP-890)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from kafka_wire.errors import ErrorCode

TopicPartition = tuple[str, int]

Errors = dict[TopicPartition, ErrorCode]


class Participation(NamedTuple):
    """Errors of the partitions that are not part of a transaction, and the flush epoch that must be durable before
    anything is written to the other partitions. If `ask` is set, another node is the coordinator: `ask` sends the
    request to it and calls a callback with the errors, once the addition of the other partitions is durable there.
    """

    errors: Errors
    epoch: int
    ask: Callable[[Callable[[Errors], object]], object] | None = None


class VerificationResult(NamedTuple):
    """Response of another node about partitions, and each partition's number of markers at the time of the request: a
    partition that got another marker since then may no longer be part of the transaction.
    """

    errors: Errors
    markers: dict[TopicPartition, int]


class TransactionCoordinator(Protocol):
    """Coordinator that stores which partitions are part of a producer's transaction."""

    def participation(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> Participation:
        """Verify that partitions are part of the transaction. `add`: add the partitions that are not yet part of it."""


class NoCoordinator:
    """Placeholder for a missing transaction coordinator: no partition is part of a transaction."""

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

"""A transactional id: the producer that may use it, and the state of its latest transaction.

| state          | means                                          | leaves it when                                     |
|----------------|------------------------------------------------|----------------------------------------------------|
| Empty          | a producer has been initialised                | a partition is added, or the id expires            |
| Ongoing        | partitions take part                           | it is ended, fenced by a new producer, or too old  |
| PrepareCommit  | decided; markers are being written             | every partition has its marker                     |
| PrepareAbort   | the same                                       | the same                                           |
| CompleteCommit | markers are written                            | the next transaction begins, or the id expires     |
| CompleteAbort  | the same                                       | the same                                           |
| Dead           | the id is removed                              | never                                              |

All state except `last_producer_epoch` and the parked request is **durable**: only `replay` writes it, and the log
contains it. Kafka also has PrepareEpochFence, which is never logged: the moment between fencing a producer and
preparing to abort its transaction. Here both are one step.

With *transaction version* 2 (KIP-890) the producer epoch rises with each transaction, so that no late write of a
transaction can become part of the next one. The version of the request that ends a transaction decides which
transaction version it follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1

MAX_EPOCH: Final = 0x7FFF
"""The last producer epoch. No client ever gets it, so that one epoch is always left to fence a producer."""

SERVER_VERSION: Final = 2
"""The transaction version of steps that no client requested, and the finalized version in ApiVersions."""

NO_TIMEOUT_MS: Final = 0x7FFF_FFFF
"""The timeout of a transaction that never times out: of two-phase commit (KIP-939), which Kafka's logs may contain."""

TopicPartition = tuple[str, int]


class TransactionState(IntEnum):
    """States of a transactional id, with the values in the log;
    DescribeTransactions and ListTransactions return `shown`.
    """

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6

    @property
    def shown(self) -> str:
        """Kafka's name of the state."""
        return self.name.title().replace("_", "")


EMPTY = TransactionState.EMPTY
ONGOING = TransactionState.ONGOING
PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
PREPARE_ABORT = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT
DEAD = TransactionState.DEAD

NEXT_STATES: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    # With transaction version 2, a producer that does not know whether its transaction has begun may abort it anyway:
    # so it gets a new producer epoch.
    EMPTY: frozenset({EMPTY, ONGOING, PREPARE_ABORT, DEAD}),
    ONGOING: frozenset({ONGOING, PREPARE_COMMIT, PREPARE_ABORT}),
    PREPARE_COMMIT: frozenset({COMPLETE_COMMIT}),
    PREPARE_ABORT: frozenset({COMPLETE_ABORT}),
    COMPLETE_COMMIT: frozenset({EMPTY, ONGOING, PREPARE_ABORT, DEAD}),
    COMPLETE_ABORT: frozenset({EMPTY, ONGOING, PREPARE_ABORT, DEAD}),
    DEAD: frozenset(),
}
"""All allowed transitions."""

EXPIRES: Final = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
"""States in which transactional.id.expiration.ms applies."""


def is_exhausted(producer_epoch: int) -> bool:
    """Return whether the producer id has no producer epoch left for another client."""
    return producer_epoch >= MAX_EPOCH - 1


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Settings; the comments contain Kafka's names."""

    max_timeout_ms: int = 900_000  # transaction.max.timeout.ms
    id_expiration_ms: int = 604_800_000  # transactional.id.expiration.ms


@dataclass(slots=True, eq=False)
class Transaction:
    """One transactional id. `new_producer_id` may raise OSError; then the step has changed nothing."""

    transactional_id: str
    settings: TransactionSettings
    new_producer_id: Callable[[], int]

    # durable: `replay` alone writes these
    exists: bool = False  # False: no producer has been initialised, or the id has expired
    state: TransactionState = EMPTY
    producer_id: int = NO_PRODUCER_ID
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int = 0
    partitions: dict[TopicPartition, None] = field(default_factory=dict)  # a set in the order of addition
    start_ms: int = NO_TIMESTAMP
    last_update_ms: int = NO_TIMESTAMP
    client_version: int = 0

    # volatile
    last_producer_epoch: int = NO_PRODUCER_EPOCH  # before the last bump, for a producer that repeats its request
    ended_by: Any = None  # the `reply_to` of the EndTxn that waits for the markers

    @property
    def is_completing(self) -> bool:
        """True if the end is decided and markers are being written: all other requests must wait."""
        return self.state is PREPARE_COMMIT or self.state is PREPARE_ABORT

    @property
    def deadline_ms(self) -> int | None:
        """Time in milliseconds since the Unix epoch at which an ongoing transaction is
        aborted; None if no transaction can time out.
        """
        if self.state is not ONGOING or self.timeout_ms == NO_TIMEOUT_MS:
            return None
        return self.start_ms + self.timeout_ms

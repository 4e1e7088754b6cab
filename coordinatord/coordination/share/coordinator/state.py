"""The state of one share partition, as the share coordinator stores it.

All of it is durable: only `replay` writes it, and the log contains it. A snapshot is a whole state; updates since the
last snapshot change it.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinatord.coordination.share.persister import (
    UNINITIALIZED_DELIVERY_COMPLETE_COUNT,
    UNINITIALIZED_START_OFFSET,
    StateBatch,
)


@dataclass(frozen=True, slots=True)
class ShareCoordinatorSettings:
    """Settings; the comments contain Kafka's names."""

    updates_per_snapshot: int = 500  # share.coordinator.snapshot.update.records.per.snapshot


@dataclass(slots=True, eq=False)
class SharePartitionState:
    """The durable state of a share partition: a group's progress in a topic partition."""

    group_id: str
    topic_id: bytes
    partition: int
    settings: ShareCoordinatorSettings

    exists: bool = False  # False: never initialised, or deleted
    snapshot_epoch: int = 0  # number of snapshots before the last one
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNINITIALIZED_START_OFFSET
    delivery_complete_count: int = UNINITIALIZED_DELIVERY_COMPLETE_COUNT
    created_ms: int = 0  # of the last snapshot that a request caused
    written_ms: int = 0  # of the last snapshot
    batches: tuple[StateBatch, ...] = ()
    updates: int = 0  # since a snapshot that was due
    highest_leader_epoch: int = 0  # the fence; it stays when an initialisation sets the leader epoch to 0

"""The result of one step, which the shell applies."""

from __future__ import annotations

from dataclasses import dataclass

from coordinatord.coordination.share.persister import PartitionError, PartitionState, PartitionSummary
from kafka_wire.records.share_state import ShareSnapshotValue, ShareUpdateValue

Reply = PartitionError | PartitionState | PartitionSummary


@dataclass(slots=True)
class Result:
    """The result of one step. `record` has been applied already and must be logged before the reply is sent;
    `tombstone` is a record without a value.
    """

    reply: Reply | None = None
    record: ShareSnapshotValue | ShareUpdateValue | None = None
    tombstone: bool = False

"""The memory of records in flight: each with a state of its own, which is the most that a share partition needs."""

from __future__ import annotations

import tracemalloc

from coordinatord.coordination.share.partition.events import (
    Acknowledge,
    AcknowledgementBatch,
    AcknowledgeType,
    Acquire,
    Initialize,
    OffsetRange,
)
from coordinatord.coordination.share.partition.state import Limits, SharePartition
from coordinatord.coordination.share.partition.step import step

PARTITIONS, RECORDS = 5, 2_000
MOST_BYTES = (64 << 20) * PARTITIONS // 100
"""100 share partitions with 2,000 records in flight may take 64 MiB."""


def in_flight() -> SharePartition:
    """A share partition of which a member has acquired RECORDS records, and renewed the locks of every other one."""
    partition = SharePartition(Limits())
    step(partition, Initialize(0, 0, ()), 0)
    acquired = step(partition, Acquire("m", True, RECORDS, RECORDS, 0, [OffsetRange(0, RECORDS - 1)]), 0)
    assert acquired.count == RECORDS
    renewed = tuple(AcknowledgementBatch(offset, offset, [AcknowledgeType.RENEW]) for offset in range(0, RECORDS, 2))
    assert not step(partition, Acknowledge("m", renewed), 1).error
    return partition


def test_records_in_flight_take_little_memory() -> None:
    in_flight()
    tracemalloc.start()
    try:
        kept = [in_flight() for _ in range(PARTITIONS)]
        size, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    states = sum(len(batch.states()) for partition in kept for batch in partition.batches)
    assert states == PARTITIONS * RECORDS, "each record has a state"
    assert size < MOST_BYTES, f"{size / 2**20:.1f} MiB"
    print(f"{size / 2**20:.1f} MiB, {size / states:.0f} bytes a record")

"""Lookups of a log by time, run from their beginning to their end."""

from __future__ import annotations

from coordinatord.broker.log import PartitionLog
from coordinatord.broker.log.times import Lookup, TimeLookups, TimestampOffset


def first_at(log: PartitionLog, timestamp_ms: int) -> TimestampOffset | None:
    """The first record from the log's start on with this timestamp or a later one."""
    return run(TimeLookups().first_at(log, timestamp_ms))


def greatest(log: PartitionLog) -> TimestampOffset | None:
    """The record with the greatest timestamp."""
    return run(TimeLookups().greatest(log))


def run(lookup: Lookup) -> TimestampOffset | None:
    """What a lookup finds."""
    while True:
        try:
            next(lookup)
        except StopIteration as end:
            found: TimestampOffset | None = end.value
            return found

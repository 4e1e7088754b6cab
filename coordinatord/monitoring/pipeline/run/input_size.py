"""The size of a log: a small log is read and written in fewer and simpler queries."""

from __future__ import annotations

import os
from dataclasses import dataclass

from coordinatord.monitoring.offsets_log.source.broker import BrokerTail
from coordinatord.monitoring.offsets_log.source.options import Options, read_options
from coordinatord.monitoring.offsets_log.source.segments import SourceError, find_logs, reading_files
from coordinatord.monitoring.offsets_log.source.store_log import StoreTail
from coordinatord.monitoring.pipeline.run.ingest import Job

SMALL_BYTES, SMALL_OFFSETS = 32 << 20, 200_000


@dataclass(frozen=True, slots=True)
class Amount:
    """The size of a log: bytes in directories or in a database, or a broker's offsets; the other one is 0. `absent` are
    a broker's partitions that have no leader now, in order.
    """

    bytes: int = 0
    offsets: int = 0
    absent: tuple[str, ...] = ()

    @property
    def is_small(self) -> bool:
        """True if Spark would take longer to prepare for many records than these few take."""
        return self.bytes <= SMALL_BYTES and self.offsets <= SMALL_OFFSETS


def amount_of(job: Job) -> Amount:
    """Return the largest size that a job has to read. Raises SourceError."""
    options = read_options(job.source.options)
    return of_bytes(options) if options.bootstrap is None else of_broker(options)


def of_broker(options: Options) -> Amount:
    """Return the number of offsets between the bounds of a broker's log. Raises SourceError."""
    tail = BrokerTail(options)
    ends = tail.ends()
    begins = tail.begins()
    offsets = sum(max(0, end - begins[name]) for name, end in ends.items())
    return Amount(offsets=offsets, absent=tuple(sorted(tail.absent)))


@reading_files()
def of_bytes(options: Options) -> Amount:
    """Return the bytes of the segments, or of the database's rows. Raises SourceError if they cannot be read."""
    if options.store is not None:
        return Amount(bytes=StoreTail(options).size())
    total = 0
    for log in find_logs(options.paths, options.topic, options.partitions):
        for segment in log.segments():
            if not os.access(segment.path, os.R_OK):
                raise SourceError(f"this user may not read {segment.path}")
            total += segment.size
    return Amount(bytes=total)

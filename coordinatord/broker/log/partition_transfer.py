"""Transfer of a partition from one process to another while both run: tests move the coordinator of groups.

The source process stops writing the partition, waits until its writes are durable, flushes the last segment and drops
the log from memory; its checkpoints no longer contain the log. The target process opens the directory as after a crash,
which checks and indexes the last segment again (DataDirectory.take). The journals of the source may still contain the
partition's batches: the segments have these batches already, at the same positions, so that a recovery of all journals
only repeats bytes that are there.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.writer import LogWriter


def give_up(data: DataDirectory, writer: LogWriter, logs: Sequence[PartitionLog]) -> None:
    """Drop logs whose appends are all durable from memory; their files stay. Blocks. Cleaning of such a log stops."""
    with writer.lock:
        for log in logs:
            segment = log.segments[-1] if log.segments else None
            if log.on_disk and segment is not None and segment.on_disk:
                file = data.disk.open(segment.log_path)
                try:
                    file.datasync()
                finally:
                    file.close()
    for log in logs:
        log.on_disk = False  # for this process: otherwise a deletion would remove the directory
    writer.delete(logs)

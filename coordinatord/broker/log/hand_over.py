"""A partition goes from one process to another while both run: tests move the coordinator of groups.

The giver stops to write, waits until what it has written is durable, flushes the last segment and forgets the log; its
checkpoints no longer have it. The taker opens the directory as after a crash, which checks and indexes the last
segment again (DataDirectory.take). The giver's journals may still have the partition's batches: they are in its
segments already, at the same positions, so that a recovery of all journals repeats bytes that are there.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.writer import LogWriter


def give_up(data: DataDirectory, writer: LogWriter, logs: Sequence[PartitionLog]) -> None:
    """Forget logs whose appends are all durable; their files stay. Blocks. Cleaning of such a log stops."""
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
        log.on_disk = False  # for us: a deletion would take the directory away
    writer.delete(logs)

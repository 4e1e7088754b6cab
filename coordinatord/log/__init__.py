"""One log for every topic partition, the group coordinator's own and the embedded topics', in Kafka's on-disk form.

    data = DataDirectory.open(path)              # lock, checks, recovery
    [log] = data.create("events", [0], topic_id, LogConfig())
    writer = LogWriter(data, loop, on_failure)   # group commit
    base_offset, epoch = writer.append(log, batch)
    writer.hold(epoch, reply)                    # when it is durable
    log.read(offset, max_bytes)                  # whole batches below log.high_watermark
    for batch in replay(log): ...                # everything, once, in order
    writer.close(); data.close()

data_dir.py → recovery.py (what a crash left) → partition_log.py (offsets, segments, reading) → writer.py (epochs) →
flusher.py + journal.py (durability). cleaner.py (when) → cleaning.py (what stays; in a process of its own) → swap.py
(how it takes the old segments' place) compact what is compacted. Files are reached only through disk.py, so that
simulated_disk.py can stand in for them.
"""

from coordinatord.log.config import LogConfig
from coordinatord.log.data_dir import DataDirectory
from coordinatord.log.errors import DataDirectoryError, LogDamaged, LogError, LogFailed, OffsetOutOfRange
from coordinatord.log.loader import ReplayedBatch, replay
from coordinatord.log.partition_log import PartitionLog, TimestampOffset
from coordinatord.log.recovery import PartitionRecovery
from coordinatord.log.writer import FlushPolicy, FlushStats, LogWriter

__all__ = [
    "DataDirectory",
    "DataDirectoryError",
    "FlushPolicy",
    "FlushStats",
    "LogConfig",
    "LogDamaged",
    "LogError",
    "LogFailed",
    "LogWriter",
    "OffsetOutOfRange",
    "PartitionLog",
    "PartitionRecovery",
    "ReplayedBatch",
    "TimestampOffset",
    "replay",
]

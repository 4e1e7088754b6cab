"""Log storage for all topic partitions, internal and user topics alike, in Kafka's disk format.

    data = DataDirectory.open(path)                # lock, checks, recovery
    [log] = data.create("events", [0], topic_id, LogConfig())
    writer = LogWriter(data, loop, on_failure)     # group commit
    base_offset, epoch = writer.append(log, batch) # flush epoch: the number of the flush that covers the append
    writer.hold(epoch, callback)                   # calls callback once the batch is durable
    log.read(offset, max_bytes)                    # whole batches below log.high_watermark
    for batch in replay(log): ...                  # all batches, once, in order
    writer.close(); data.close()

data_dir.py  → recovery.py (repairs after a crash) → partition_log.py (offsets, segments, reading) → writer.py (flush
epochs) → flusher.py + journal.py (durability). Compaction: cleaner.py (schedule) → cleaning.py (selection of records;
runs in its own process) → segment_swap.py (replacement of the old segments). Files are accessed only through disk.py,
so that simulated_disk.py  can replace the disk.
"""

from coordinatord.broker.log.config import LogConfig
from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.log.errors import DataDirectoryError, LogDamaged, LogError, LogFailed, OffsetOutOfRange
from coordinatord.broker.log.loader import ReplayedBatch, replay
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.recovery import PartitionRecovery
from coordinatord.broker.log.writer import FlushPolicy, FlushStats, LogWriter

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
    "replay",
]

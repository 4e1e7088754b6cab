"""Selection of segments to remove, oldest first: by age, by size, or because all their records were deleted.

A segment stays while its successor is not in the directory, because the last segment's name stores the log's end. So
the active segment can expire, as in Kafka (UnifiedLog.deletableSegments), but is removed after a new one has begun. No
segment is removed while the cleaner rewrites the log, or while the log is being read from end to end.
"""

from __future__ import annotations

from itertools import pairwise, zip_longest

from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.segment import Segment


def expired(log: PartitionLog, now_ms: int) -> int:
    """Return the number of segments that retention.ms and retention.bytes expire; all of them if the active one has
    expired, too.

    An empty active segment does not expire.
    """
    config = log.config
    if not config.deletes or log.in_use:
        return 0
    surplus = log.size_bytes - config.retention_bytes if config.retention_bytes >= 0 else 0
    count = 0
    for segment, successor in zip_longest(log.segments, log.segments[1:]):
        if segment.visible_bytes < segment.size or not (segment.size if successor is None else successor.on_disk):
            break
        too_old = config.retention_ms >= 0 and now_ms - _latest_ms(log, segment) > config.retention_ms
        if not too_old and surplus < segment.size:
            break
        surplus -= segment.size
        count += 1
    return count


def below(log: PartitionLog, offset: int) -> int:
    """Return the number of segments without records at or above `offset`."""
    if log.in_use:
        return 0
    count = 0
    for segment, successor in pairwise(log.segments):
        if successor.base_offset > offset or segment.visible_bytes < segment.size or not successor.on_disk:
            break
        count += 1
    return count


def _latest_ms(log: PartitionLog, segment: Segment) -> int:
    """Return the time of a segment's latest record, or, as in Kafka, the file's modification time
    if records have none.
    """
    if segment.max_timestamp >= 0:
        return segment.max_timestamp
    return log.disk.modified_ms(segment.log_path)

"""What a flush does to one segment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from coordinatord.log.segment import Segment


class Writable(Protocol):
    """The log that a write is for: partition_log.PartitionLog."""

    name: str
    directory: str
    topic: str
    partition: int
    topic_id: bytes
    on_disk: bool
    deleted: bool

    def written(self, write: SegmentWrite) -> None: ...


@dataclass(slots=True)
class SegmentWrite:
    """What one flush puts into one segment, and how the log stands after it."""

    log: Writable
    segment: Segment
    position: int
    buffers: list[bytes | bytearray] = field(default_factory=list)
    size: int = 0
    index: bytes = b""
    index_position: int = 0
    time_index: bytes = b""
    time_index_position: int = 0
    #: the segment gets nothing after this: flush it, indexes too, before its successor exists
    finish: bool = False
    #: the log's end with this written; 0 when there are only index entries
    end_offset: int = 0

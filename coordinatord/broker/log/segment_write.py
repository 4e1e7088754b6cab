"""The writes of one flush to one segment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from coordinatord.broker.log.leader_epoch_cache import LeaderEpochs
from coordinatord.broker.log.segment import Segment


class Writable(Protocol):
    """Interface of the log of a write; implemented by partition_log.PartitionLog."""

    name: str
    directory: str
    topic: str
    partition: int
    topic_id: bytes
    leader_epochs: LeaderEpochs
    has_new_epoch: bool
    on_disk: bool
    deleted: bool

    def written(self, write: SegmentWrite) -> None: ...


@dataclass(slots=True)
class SegmentWrite:
    """The writes of one flush to one segment, and the log's state after them."""

    log: Writable
    segment: Segment
    position: int
    buffers: list[bytes | bytearray] = field(default_factory=list)
    size: int = 0
    index: bytes = b""
    index_position: int = 0
    time_index: bytes = b""
    time_index_position: int = 0
    #: the last write to the segment: the segment and its indexes are flushed before the next segment is created
    finish: bool = False
    #: log end offset after this write; 0 if the write has only index entries
    end_offset: int = 0

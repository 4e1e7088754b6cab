"""Fetched records, kept until the application polls."""

from __future__ import annotations

from coordinatord.testing.member.assignors.java_hash import TopicPartition
from kafka_wire.api.fetch import PartitionData
from kafka_wire.records.batch import Record, check_crc, iterate_batches, records


class Fetched:
    """Fetch response for one partition, and the position up to which it has been returned."""

    __slots__ = ("at", "data", "end_offset", "leader_epoch", "next_offset", "node", "partition", "records")

    def __init__(self, node: int, partition: TopicPartition, offset: int, data: PartitionData) -> None:
        self.node = node
        self.partition = partition
        self.next_offset = offset
        self.data = data
        self.records: list[Record] | None = None  # not decoded yet
        self.at = 0
        self.end_offset = offset
        self.leader_epoch = -1

    def read(self) -> None:
        """Decode the batches. Records before the requested offset are skipped."""
        raw = self.data.records or b""
        self.records = found = []
        for position, header in iterate_batches(raw, partial=True):
            check_crc(raw, position, header)
            self.end_offset = header.base_offset + header.last_offset_delta + 1
            self.leader_epoch = header.leader_epoch
            if not header.is_control:
                found += [each for each in records(raw, position, header) if each.offset >= self.next_offset]

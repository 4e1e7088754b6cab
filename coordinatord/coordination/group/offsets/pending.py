"""Offsets that open transactions have committed, pending until the transaction's marker.

The last write of an offset wins: a plain commit that follows a transaction's write overrides it, even if the
transaction is committed later; so does a later write of another transaction (Kafka compares the offsets of the
records). An overridden offset stays pending, as in the log: a reader that requires stable offsets waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kafka_wire.records.offsets import OffsetCommitValue

TopicPartition = tuple[str, int]


@dataclass(slots=True)
class PendingOffsets:
    """The pending offsets of one group. The value None marks an overridden offset."""

    by_producer: dict[int, dict[TopicPartition, OffsetCommitValue | None]] = field(default_factory=dict)
    #: producer ids that have written a partition's offset, in the order of their last writes
    writers: dict[TopicPartition, dict[int, None]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.by_producer)

    def __contains__(self, partition: object) -> bool:
        return partition in self.writers

    def __iter__(self) -> Iterator[TopicPartition]:
        """Iterate over the partitions."""
        return iter(self.writers)

    def add(self, producer_id: int, partition: TopicPartition, value: OffsetCommitValue) -> None:
        """Add an offset that a transaction commits."""
        self.by_producer.setdefault(producer_id, {})[partition] = value
        writers = self.writers.setdefault(partition, {})
        writers.pop(producer_id, None)
        writers[producer_id] = None

    def overtake(self, partition: TopicPartition) -> None:
        """Override the partition's pending offsets: a plain commit follows them."""
        for producer_id in self.writers.get(partition, ()):
            self.by_producer[producer_id][partition] = None

    def drop(self, partition: TopicPartition) -> None:
        """Drop the partition's pending offsets: its offset was deleted."""
        for producer_id in self.writers.pop(partition, ()):
            self._forget(producer_id, partition)

    def end(self, producer_id: int, *, committed: bool) -> dict[TopicPartition, OffsetCommitValue]:
        """End a transaction. Return the offsets that become committed offsets of the group."""
        taken: dict[TopicPartition, OffsetCommitValue] = {}
        for partition, value in self.by_producer.pop(producer_id, {}).items():
            writers = self.writers[partition]
            if committed and value is not None:
                taken[partition] = value
                for earlier in writers:
                    if earlier == producer_id:
                        break
                    self.by_producer[earlier][partition] = None
            del writers[producer_id]
            if not writers:
                del self.writers[partition]
        return taken

    def _forget(self, producer_id: int, partition: TopicPartition) -> None:
        offsets = self.by_producer[producer_id]
        del offsets[partition]
        if not offsets:
            del self.by_producer[producer_id]

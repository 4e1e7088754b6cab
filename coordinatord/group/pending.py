"""Offsets that open transactions have committed, until a marker says what becomes of them.

An offset is kept where it was written first: a plain commit that comes after a transaction's own wins over it, although
the transaction is committed later, and so does a transaction that wrote later (Kafka compares the offsets of their
records). What has been overtaken is still pending, as it is in the log: a reader that wants stable offsets waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kafka_wire.records.offsets import OffsetCommitValue

TopicPartition = tuple[str, int]


@dataclass(slots=True)
class PendingOffsets:
    """Of one group. A value of None has been overtaken."""

    by_producer: dict[int, dict[TopicPartition, OffsetCommitValue | None]] = field(default_factory=dict)
    #: who has written for a partition, in the order of their last writes
    writers: dict[TopicPartition, dict[int, None]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.by_producer)

    def __contains__(self, partition: object) -> bool:
        return partition in self.writers

    def __iter__(self) -> Iterator[TopicPartition]:
        """The partitions."""
        return iter(self.writers)

    def add(self, producer_id: int, partition: TopicPartition, value: OffsetCommitValue) -> None:
        """A transaction commits an offset."""
        self.by_producer.setdefault(producer_id, {})[partition] = value
        writers = self.writers.setdefault(partition, {})
        writers.pop(producer_id, None)
        writers[producer_id] = None

    def overtake(self, partition: TopicPartition) -> None:
        """A plain commit has come after what is pending."""
        for producer_id in self.writers.get(partition, ()):
            self.by_producer[producer_id][partition] = None

    def drop(self, partition: TopicPartition) -> None:
        """The offset has been deleted, and what was to become it."""
        for producer_id in self.writers.pop(partition, ()):
            self._forget(producer_id, partition)

    def end(self, producer_id: int, *, committed: bool) -> dict[TopicPartition, OffsetCommitValue]:
        """A transaction has ended; the offsets that are the group's from now on."""
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

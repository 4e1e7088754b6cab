"""The records of dead letters (KIP-1191): their headers, and the records that they are of.

The headers are text in UTF-8, in this order (ShareGroupDLQStateManager.ProduceRequestHandler.headers):

    __dlq.errors.topic, __dlq.errors.partition, __dlq.errors.offset    of the record
    __dlq.errors.group             the group that has given up on it
    __dlq.errors.delivery.count    its number of deliveries
    __dlq.errors.message           why: a client has rejected it, or the delivery count is at its limit
"""

from __future__ import annotations

from typing import Final

from coordinatord.broker.topics.partition import UNREADABLE, Partition
from coordinatord.coordination.share.partition.state import DeadLetters
from kafka_wire.records.batch import BatchBuilder, Record, iterate_batches, records

REJECTED: Final = b"Offset rejected by client."
AT_LIMIT: Final = b"Offset delivery count exceeded the threshold."

RECORD_BYTES: Final = 32
HEADER_BYTES: Final = 4
"""The most bytes of a record, and of each of its headers, besides their content."""

Header = tuple[str, bytes | None]


class LetterHeaders:
    """The headers of the dead letters of one range of records."""

    def __init__(self, topic: str, partition: int, group_id: str, letters: DeadLetters) -> None:
        self._before: list[Header] = [
            ("__dlq.errors.topic", topic.encode()),
            ("__dlq.errors.partition", b"%d" % partition),
        ]
        self._after: list[Header] = [
            ("__dlq.errors.group", group_id.encode()),
            ("__dlq.errors.delivery.count", b"%d" % letters.delivery_count),
            ("__dlq.errors.message", REJECTED if letters.is_rejected else AT_LIMIT),
        ]

    def of(self, offset: int) -> list[Header]:
        """Return the headers of the letter for the record at `offset`."""
        return [*self._before, ("__dlq.errors.offset", b"%d" % offset), *self._after]


def add_letter(batch: BatchBuilder, headers: list[Header], record: Record | None, now_ms: int, max_bytes: int) -> bool:
    """Add a letter, with the key and the value of `record`, if the batch then has no more than `max_bytes`. Return
    False if that is not so. A letter that does not even fit alone is added without key and value.
    """
    size = RECORD_BYTES + sum(len(name) + len(value or b"") + HEADER_BYTES for name, value in headers)
    key = value = None
    if record is not None:
        copied = len(record.key or b"") + len(record.value or b"")
        if BatchBuilder().size + size + copied <= max_bytes:
            key, value = record.key, record.value
            size += copied
    if batch.count and batch.size + size > max_bytes:
        return False
    batch.add(key, value, now_ms, headers)
    return True


class Originals:
    """Reads the records that dead letters are of. It keeps the last batch, of which the next letter will be."""

    def __init__(self) -> None:
        self._partition: Partition | None = None
        self._records: dict[int, Record] = {}
        self._first, self._last = 0, -1

    def find(self, partition: Partition, offset: int, max_bytes: int) -> Record | None:
        """Return the record at `offset`; None if the log has it no more, if it cannot be read, or if its batch has more
        than `max_bytes` when decompressed.
        """
        if partition is not self._partition or not self._first <= offset <= self._last:
            self.forget()
            try:
                self._read(partition, offset, max_bytes)
            except UNREADABLE:
                return None
        return self._records.get(offset)

    def _read(self, partition: Partition, offset: int, max_bytes: int) -> None:
        data = partition.log.read(offset, 1)
        for at, header in iterate_batches(data):
            if header.base_offset <= offset <= header.last_offset:
                found = {each.offset: each for each in records(data, at, header, max_bytes)}
                self._partition, self._first, self._last = partition, header.base_offset, header.last_offset
                self._records = found
            return

    def forget(self) -> None:
        """Forget the last batch."""
        self._partition = None
        self._records = {}

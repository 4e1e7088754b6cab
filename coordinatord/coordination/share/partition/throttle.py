"""Throttled delivery of suspected poison records.

A member that crashes on a record returns a whole batch of them, and the delivery count of all of them grows. So a batch
that was delivered for half of the limit is delivered in ever smaller numbers, and a record on its last attempt alone
(Kafka's SharePartition.acquireSubsetBatchRecords).
"""

from __future__ import annotations

from coordinatord.coordination.share.partition.state import InFlightBatch

MIN_THROTTLED_COUNT = 2
"""The lowest delivery count that throttles."""


def throttled_from(delivery_count_limit: int) -> int:
    """Return the delivery count from which delivery is throttled: half of the limit, rounded up."""
    return max(MIN_THROTTLED_COUNT, (delivery_count_limit + 1) // 2)


def is_throttled(batch: InFlightBatch, first: int, last: int, delivery_count_limit: int) -> bool:
    """Return whether an available record of the batch, from `first` to `last`, was delivered too often."""
    threshold = throttled_from(delivery_count_limit)
    if batch.whole is not None:
        return batch.whole.is_acquirable and batch.whole.delivery_count >= threshold
    inside = batch.between(first, last)
    return any(record.delivery_count >= threshold and record.is_acquirable for _, _, record in inside)


class Throttle:
    """The number of records of one batch that a fetch may acquire. `size` is the number of offsets in the batch."""

    __slots__ = ("_limit", "_size", "_threshold", "most")

    def __init__(self, delivery_count_limit: int, size: int) -> None:
        self._limit = delivery_count_limit
        self._threshold = throttled_from(delivery_count_limit)
        self._size = size
        #: None until a record that was delivered too often is acquired
        self.most: int | None = None

    def holds_back(self, delivery_count: int, acquired_count: int) -> bool:
        """Return whether the next record must wait for a fetch of its own; otherwise count it."""
        if acquired_count and self.is_last_attempt(delivery_count + 1):
            return True
        if self.most is None and delivery_count >= self._threshold:
            self.most = max(1, self._size >> (delivery_count - self._threshold + 1))
        return False

    def most_of(self, delivery_count: int, acquired_count: int, size: int) -> int:
        """Return how many of the next `size` records, which were delivered equally often, are acquired at most."""
        if self.is_last_attempt(delivery_count + 1):
            return 1
        if self.most is not None and acquired_count < self.most:
            return min(size, self.most - acquired_count)
        return size

    def is_last_attempt(self, delivery_count: int) -> bool:
        """Return whether a record that is delivered for this time is delivered alone."""
        return self._limit > 2 and delivery_count == self._limit

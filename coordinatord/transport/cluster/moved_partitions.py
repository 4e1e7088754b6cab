"""Group partitions that a test has moved to another worker: numbers in memory that all workers share.

Only with test.control.enable. The supervisor creates the memory before forking. Each number is a machine word with one
writer at a time, so reading needs no lock. A moved partition stays at its new worker until the daemon stops, or until
it is moved again: a worker that dies is replaced by one that leads the same partitions.
"""

from __future__ import annotations

import mmap

from coordinatord.transport.cluster.shared import Shared

_WORD_BYTES = 8
_FAULTS = 0
_FIRST_PORT = 1


class MovedPartitions:
    """`partitions` is the number of partitions of `__consumer_offsets`."""

    def __init__(self, shared: Shared, partitions: int) -> None:
        self.shared = shared
        self.workers = shared.workers
        self.partitions = partitions
        self._leaders = _FIRST_PORT + self.workers
        self._takers = self._leaders + partitions
        memory = mmap.mmap(-1, (self._takers + partitions) * _WORD_BYTES)
        self._words = memoryview(memory).cast("q")

    # Partitions

    def leader(self, partition: int) -> int | None:
        """Return the worker that a partition was moved to, or None if it was not moved."""
        word = self._words[self._leaders + partition] if partition < self.partitions else 0
        return word - 1 if word else None

    def give(self, partition: int, worker: int) -> None:
        """Make another worker the leader of the partition; only its present leader calls this."""
        self._words[self._takers + partition] = 0
        self._words[self._leaders + partition] = worker + 1
        self.shared.on_change()

    def taken(self, partition: int, worker: int) -> None:
        """Record that the worker has loaded the partition."""
        self._words[self._takers + partition] = worker + 1
        self.shared.on_change()

    def is_taken(self, partition: int) -> bool:
        """Return whether the worker that the partition was moved to serves it."""
        return bool(self._words[self._takers + partition] == self._words[self._leaders + partition])

    # Workers

    def listens(self, worker: int, admin_port: int) -> None:
        """Record that a worker serves requests and has its admin port at `admin_port`; 0 when it has died."""
        self._words[_FIRST_PORT + worker] = admin_port

    def admin_port(self, worker: int) -> int:
        """Return the port of a worker's admin pages; 0 while the worker does not run."""
        return int(self._words[_FIRST_PORT + worker])

    def next_alive(self, worker: int) -> int | None:
        """Return the next worker that runs; None if there is no other."""
        others = [(worker + step) % self.workers for step in range(1, self.workers)]
        return next((each for each in others if self.admin_port(each)), None)

    # Faults

    def next_fault(self) -> int:
        """Return a number that no worker has used for a fault."""
        with self.shared.lock():
            self._words[_FAULTS] += 1
            return int(self._words[_FAULTS])

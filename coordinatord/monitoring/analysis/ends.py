"""The present state of a partition: its first offset, its end offset, and the content before its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

WINDOW_MS = 10 * 60_000
"""Default length of the window over which a group is judged."""
CLOCKS_MS = 60_000
"""Possible difference of two clocks: the coordinator's clock times commits, another clock times the samples of ends."""


class Open(NamedTuple):
    """The oldest open transaction in a partition. None for unknown values."""

    producer_id: int | None
    since_ms: int | None
    """The timestamp of its first record."""
    transactional_id: str | None = None


class Tail(NamedTuple):
    """The content before the end of a partition. None for unknown values."""

    readable_end: int | None = None
    """The end without the transaction markers and aborted records behind the last record that any consumer can read."""
    stable_offset: int | None = None
    """The last stable offset: where consumers with isolation.level=read_committed have to stop."""
    stable_end: int | None = None
    """The last stable offset without the markers and aborted records before it."""
    open: Open | None = None
    """The transaction that begins at the last stable offset."""


NO_TAIL = Tail()


@dataclass(frozen=True, slots=True)
class Ends:
    """The present state of a partition: its first offset, its end offset, and the time of their read."""

    log_start_offset: int | None
    end_offset: int
    sampled_ms: int
    tail: Tail = NO_TAIL
    retention_ms: int | None = None
    """The topic's retention.ms, if its cleanup.policy is delete; None if records are kept, or it is unknown."""

    @property
    def last_end(self) -> int:
        """Return the offset after the last record that can be read, as far as is known."""
        readable = self.tail.readable_end
        return self.end_offset if readable is None else min(readable, self.end_offset)

    def waits_for_transaction(self, committed: int) -> bool:
        """Return whether a group that reads only committed records has read all of them before an open transaction."""
        stable, stable_end = self.tail.stable_offset, self.tail.stable_end
        if stable is None or stable >= self.end_offset:
            return False
        return (stable if stable_end is None else stable_end) <= committed <= stable

    def is_of_another_log(self, offset: int, since_ms: int) -> bool:
        """Return whether an offset that a group has had since `since_ms` is beyond a later end of the partition: then
        the topic was recreated, or records were lost. `since_ms` is not the time of the last commit: a member that
        reads nothing commits the same offset again and again.
        """
        return offset > self.end_offset and self.sampled_ms - since_ms > CLOCKS_MS

"""Offset map of the cleaner: the last offset of every key in the dirty part of a log, within a budget of bytes.

Kafka keeps an MD5 of each key, 24 bytes an entry, and assumes that there are no collisions. A Python dictionary of the
keys takes more memory and has no collisions; in 128 MiB it holds 128 MiB / (key size + 125 bytes) keys, which is three
quarters of a million keys of `__consumer_offsets`. Keys that do not fit are left for the next cleaning, which begins
where this one ended.
"""

from __future__ import annotations

from kafka_wire.records.batch import BatchHeader
from kafka_wire.records.rewrite import last_offsets

ENTRY_BYTES = 125
"""Bytes of an entry besides its key: two objects and their share of a dictionary that has just grown (measured up to
1,500,000 entries).
"""


class OffsetMap:
    """The last offset of each key. `latest` is the last offset that the map covers: records above `latest` are never
    removed as outdated.
    """

    __slots__ = ("_key_bytes", "budget_bytes", "last", "latest")

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.last: dict[bytes, int] = {}
        self.latest = -1
        self._key_bytes = 0

    @property
    def used_bytes(self) -> int:
        return self._key_bytes + len(self.last) * ENTRY_BYTES

    @property
    def full(self) -> bool:
        """True if no further batch may be added. The first batch is always accepted, however large: otherwise a key
        that alone exceeds the budget would prevent all cleaning.
        """
        return self.used_bytes >= self.budget_bytes

    @property
    def utilization(self) -> float:
        """Used share of the budget, from 0 to 1 (or more after a large batch)."""
        return self.used_bytes / self.budget_bytes

    def add(self, section: bytes, header: BatchHeader, first_offset: int) -> None:
        """Add the keys of a batch's records from `first_offset` on. Its offsets must be greater than those of all
        batches before.
        """
        self._key_bytes += last_offsets(section, header, first_offset, self.last)

"""What clients were told, and what the coordinator must still know after a crash."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeAlias

Place: TypeAlias = tuple[str, str, int]  # group, topic, partition


@dataclass(slots=True)
class CommitLedger:
    """Commits of partitions that one client at a time writes to, each with the offset after the last one sent.

    So every offset between the last acknowledged one and the last one sent has been sent, and none above.
    """

    sent: dict[Place, int] = field(default_factory=dict)
    acknowledged: dict[Place, int] = field(default_factory=dict)
    acknowledgements: int = 0
    refusals: Counter[str] = field(default_factory=Counter)  # by the error's name

    def next_offset(self, place: Place) -> int:
        offset = self.sent[place] = self.sent.get(place, -1) + 1
        return offset

    def acknowledge(self, place: Place, offset: int) -> None:
        self.acknowledged[place] = max(offset, self.acknowledged.get(place, -1))
        self.acknowledgements += 1

    def problems(self, fetched: dict[Place, tuple[int, str | None]]) -> list[str]:
        """What is wrong with the offsets and metadata that the coordinator says are committed."""
        found = []
        for place, sent in self.sent.items():
            acknowledged = self.acknowledged.get(place, -1)
            offset, metadata = fetched.get(place, (-1, None))
            if not acknowledged <= offset <= sent:
                found.append(f"{place}: {offset} is committed, {acknowledged} was acknowledged, {sent} was sent last")
            elif offset >= 0 and metadata != str(offset):
                found.append(f"{place}: offset {offset} came back with the metadata {metadata!r}")
        found += [f"{place}: nobody committed it" for place in fetched if place not in self.sent]
        return found


@dataclass(slots=True)
class ProduceLedger:
    """Records of partitions that one producer each writes to; values are unique."""

    unverified: dict[tuple[str, int], dict[int, bytes]] = field(default_factory=dict)  # acknowledged since `verify`
    sent: set[bytes] = field(default_factory=set)
    read: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)
    once: set[tuple[str, int]] = field(default_factory=set)  # of idempotent producers: no value may be there twice

    def acknowledge(self, partition: tuple[str, int], base_offset: int, values: list[bytes]) -> None:
        at = self.unverified.setdefault(partition, {})
        at.update(enumerate(values, base_offset))

    def problems(self) -> list[str]:
        """What is wrong with what was read, from offset 0 on without a gap. What is right is not looked at again."""
        found = []
        for partition, at in self.unverified.items():
            values = self.read.get(partition, [])
            for offset, value in at.items():
                there = values[offset] if offset < len(values) else None
                if there != value:
                    found.append(f"{partition} at {offset}: {value!r} was acknowledged, {there!r} is there")
                    break
            at.clear()
        return found

    def problems_of_all(self) -> list[str]:
        """What is wrong with everything that was read."""
        found = []
        for partition, values in self.read.items():
            if strangers := set(values) - self.sent:
                found.append(f"{partition}: {len(strangers)} records that nobody sent")
            if partition in self.once and len(set(values)) != len(values):
                found.append(f"{partition}: {len(values) - len(set(values))} records are there twice")
        return found


@dataclass(slots=True)
class TableLedger:
    """Keyed records of compacted partitions that one producer each writes to: what a key may have now."""

    #: (topic, partition) -> key -> values since the last acknowledged one, that one included; None is a tombstone's
    possible: dict[tuple[str, int], dict[bytes, list[bytes | None]]] = field(default_factory=dict)
    acknowledgements: int = 0

    def sent(self, partition: tuple[str, int], records: list[tuple[bytes, bytes | None]]) -> None:
        keys = self.possible.setdefault(partition, {})
        for key, value in records:
            keys.setdefault(key, [None]).append(value)

    def acknowledge(self, partition: tuple[str, int], records: list[tuple[bytes, bytes | None]]) -> None:
        """These came back, and nothing that was sent before them can be the last any more."""
        keys = self.possible[partition]
        for key, value in records:
            values = keys[key]
            del values[: values.index(value, 1)]
        self.acknowledgements += len(records)

    def problems(self, partition: tuple[str, int], table: dict[bytes, bytes | None]) -> list[str]:
        """What is wrong with a table that was read from its first record to its last."""
        keys = self.possible.get(partition, {})
        found = [
            f"{partition}: {key!r} is {table.get(key)!r}, {values[0]!r} was acknowledged, later {values[1:]!r} sent"
            for key, values in keys.items()
            if table.get(key) not in values
        ]
        return found + [f"{partition}: nobody wrote {key!r}" for key in table if key not in keys]

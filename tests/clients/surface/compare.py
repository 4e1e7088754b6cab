"""Whether the calls of one program came to the same on Kafka and on coordinatord. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.clients.surface.outcome import ERROR, LOCAL, NOT_COVERED, Outcome

SHOWN_CHARACTERS = 400
SHOWN_PLACES = 20
SHOWN_IN_PLACE = 80
ABSENT = "(absent)"


@dataclass(frozen=True, slots=True)
class Row:
    """One call on both brokers. `reason` is that of a listed difference."""

    key: str
    kafka: Outcome
    ours: Outcome
    reason: str = ""

    @property
    def same(self) -> bool:
        return (self.kafka.outcome, self.kafka.detail) == (self.ours.outcome, self.ours.detail)

    @property
    def local(self) -> bool:
        return self.kafka.outcome == LOCAL


def rows(kafka: Sequence[Outcome], ours: Sequence[Outcome], known: Mapping[str, str]) -> list[Row]:
    """The calls side by side. A program makes the same calls in the same order on every broker, each of them once."""
    keys = [each.key for each in kafka]
    assert keys == [each.key for each in ours], f"other calls: {sorted(set(keys) ^ {each.key for each in ours})}"
    assert len(set(keys)) == len(keys), f"called twice: {sorted(key for key in keys if keys.count(key) > 1)}"
    return [Row(a.key, a, b, known.get(a.key, "")) for a, b in zip(kafka, ours, strict=True)]


def problems(compared: Sequence[Row], known: Mapping[str, str]) -> list[str]:
    """What must be mended or listed."""
    found = []
    for row in compared:
        if NOT_COVERED in (row.kafka.outcome, row.ours.outcome):
            found.append(f"{row.key}: not covered; the program has to call it, or to say that it reaches no broker")
        elif not row.same and not row.reason:
            found.append(
                f"{row.key} differs\n  Kafka: {shown(row.kafka)}\n  ours:  {shown(row.ours)}\n{where(row)}".rstrip()
            )
        elif row.same and row.reason:
            found.append(f"{row.key}: listed as a difference, but both say {shown(row.ours)}")
    absent = known.keys() - {row.key for row in compared}
    return found + [f"{key}: listed as a difference, but no such call" for key in sorted(absent)]


def where(row: Row) -> str:
    """Where two results part."""
    if ERROR in (row.kafka.outcome, row.ours.outcome):
        return ""
    places = _parted("", row.kafka.detail, row.ours.detail)
    parted = [f"  {path}: {str(a)[:SHOWN_IN_PLACE]} | {str(b)[:SHOWN_IN_PLACE]}" for path, a, b in places]
    return "\n".join(parted[:SHOWN_PLACES])


def _parted(path: str, a: Any, b: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict):
        for name in sorted(a.keys() | b.keys()):
            yield from _parted(f"{path}/{name}", a.get(name, ABSENT), b.get(name, ABSENT))
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for number, (one, other) in enumerate(zip(a, b, strict=True)):
            yield from _parted(f"{path}/{number}", one, other)
    elif a != b:
        yield path, a, b


def shown(outcome: Outcome) -> str:
    """An outcome in a failure's message."""
    return f"{outcome.outcome} {json.dumps(outcome.detail, sort_keys=True)}"[:SHOWN_CHARACTERS]


def named(outcome: Outcome) -> str:
    """An outcome in the table: its error's name, or `ok`."""
    return str(outcome.detail) if outcome.outcome == ERROR else outcome.outcome

"""What Kafka's DumpLogSegments prints of `__consumer_offsets`, put together as a coordinator does it at its start."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

_BATCH = re.compile(r"^baseOffset: .* producerId: (-?\d+) .*isTransactional: (\w+) isControl: (\w+) .*isvalid: (\w+)$")
_RECORD = re.compile(r"^\| offset: \d+ .* key: (\{.*?\}) payload: (.*)$")
_MARKER = re.compile(r"^\| offset: .* endTxnMarker: (\w+) ")

Key = tuple[str, str, int]
Offset = tuple[int, str]
"""With its leader epoch, `-` for none."""


@dataclass
class Dumped:
    """`kinds` counts records by type, and markers; `members` are member ids by group, those of classic groups."""

    offsets: dict[Key, Offset] = field(default_factory=dict)
    members: dict[str, set[str]] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)
    pending: dict[str, dict[Key, Offset]] = field(default_factory=dict)

    def _apply(self, key: dict[str, Any], value: dict[str, Any] | None, producer_id: str | None) -> None:
        kind, data = key["type"], key["data"]
        self.kinds["tombstone" if value is None else f"{kind} in a transaction" if producer_id else kind] += 1
        if kind == "1":
            where = data["group"], data["topic"], data["partition"]
            if value is None:
                self.offsets.pop(where, None)
            else:
                epoch = value.get("leaderEpoch", -1)
                offset = value["offset"], str(epoch) if epoch >= 0 else "-"
                into = self.offsets if producer_id is None else self.pending.setdefault(producer_id, {})
                into[where] = offset
        elif kind == "2":
            self.members[data["group"]] = {member["memberId"] for member in (value or {}).get("members", ())}

    def _mark(self, kind: str, producer_id: str) -> None:
        self.kinds[kind] += 1
        ended = self.pending.pop(producer_id, {})
        if kind == "COMMIT":
            self.offsets.update(ended)


def read_dump(text: str) -> Dumped:
    """Go through the records in the order of the text, which is that of each partition."""
    found = Dumped()
    producer_id, transactional = "", False
    for line in text.splitlines():
        if batch := _BATCH.match(line):
            producer_id, transactional = batch[1], batch[2] == "true"
            assert batch[4] == "true", line
        elif marker := _MARKER.match(line):
            found._mark(marker[1], producer_id)
        elif record := _RECORD.match(line):
            value = None if record[2] == "<DELETE>" else json.loads(record[2])["data"]
            found._apply(json.loads(record[1]), value, producer_id if transactional else None)
        else:
            assert not line.startswith("|"), f"a record that the tool could not read: {line}"
    return found

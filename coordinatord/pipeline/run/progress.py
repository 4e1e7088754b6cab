"""How far a long job is: a bar on a terminal, a line for each stage anywhere else (cli/progress.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class Progress:
    """Says nothing; the command line's says it to people."""

    def stage(self, text: str, done: int = 0, total: int = 0) -> None:
        """What is done now: the `done + 1`st thing of `total`, where there are several alike."""

    def amount(self, done: int, total: int, unit: str) -> None:
        """Of the stage: so much of so much."""

    def read(self, told: Mapping[str, Any] | None) -> None:
        """What Spark tells of a streaming query (lastProgress), as records of the log."""
        found = records_read(told)
        if found is not None:
            self.amount(*found, "records")


def records_read(told: Mapping[str, Any] | None) -> tuple[int, int] | None:
    """(records that have been read, records that there are), by the offsets of the log; None where they are unknown.

    Offsets count records that the cleaner has taken, too: as a share it is near enough.
    """
    for source in told["sources"] if told is not None else ():
        ends, last = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
        if last:
            total = sum(last.values())
            return min(sum(ends.values()), total), total
    return None


def _offsets(told: Any) -> dict[str, int]:
    """The log's next offsets; nothing for another source's (source/partition_ends.py)."""
    try:
        found = json.loads(told) if isinstance(told, str) else told
    except ValueError:
        return {}
    return found if isinstance(found, dict) and "at_ms" not in found else {}

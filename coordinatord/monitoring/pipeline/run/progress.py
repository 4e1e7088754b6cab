"""The progress of a long job: a bar on a terminal, a line per stage elsewhere (cli/progress.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class Progress:
    """Progress of a job, which this class does not show; the command line's subclass shows it to the user."""

    def stage(self, text: str, done: int = 0, total: int = 0) -> None:
        """Begin a stage: the `done + 1`st of `total`, if there are several like it."""

    def amount(self, done: int, total: int, unit: str) -> None:
        """Set the progress within the stage."""

    def read(self, told: Mapping[str, Any] | None) -> None:
        """Set the progress from Spark's report of a streaming query (lastProgress), as records of the log."""
        found = records_read(told)
        if found is not None:
            self.amount(*found, "records")


def records_read(told: Mapping[str, Any] | None) -> tuple[int, int] | None:
    """Return (records read, records in total), by the offsets of the log; None if unknown.

    Offsets also count records that the cleaner removed: the share is close enough.
    """
    for source in told["sources"] if told is not None else ():
        ends, last = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
        if last:
            total = sum(last.values())
            return min(sum(ends.values()), total), total
    return None


def _offsets(told: Any) -> dict[str, int]:
    """Return the log's next offsets; nothing for another source's (source/partition_ends.py)."""
    try:
        found = json.loads(told) if isinstance(told, str) else told
    except ValueError:
        return {}
    return found if isinstance(found, dict) and "at_ms" not in found else {}

"""What fails now and then for a reason of its own is tried again, and what fails often fails.

Clients have bugs that show once in some hundred times, and a busy machine is late. A test that just tried until it
passes would hide what fails every second time as well. So whatever has failed is tried some more times, however it
fares, and may fail in :data:`RATE` of them; more than :data:`SUSPECTS` of all may not fail to begin with. How often
something was tried again is told at the end of a run, also when it passed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest

TRIES = 4
"""How often what has failed is tried again."""
RATE = 0.25
"""Of these tries one may fail. What fails every second time is then found out two times of three; what fails once in a
hundred times fails one run in a hundred thousand."""
SUSPECTS = 0.3
"""Of all that is run so many may fail at first."""
PROPERTY = "again"

Record = Callable[[str, object], None]
"""pytest's `record_property`."""


def verdict(everything: int, failures: Mapping[str, int], tries: int = TRIES) -> list[str]:
    """What fails too often, a sentence each. `failures` has, for all that has failed at first, how often it failed
    when it was tried again.
    """
    if too_many(everything, failures):
        return [f"{len(failures)} of {everything} failed at first: {', '.join(failures)}"]
    return [
        f"{name}: failed at first, and {count} of {tries} times when tried again"
        for name, count in failures.items()
        if count > tries * RATE
    ]


def too_many(everything: int, failed: Collection[str]) -> bool:
    """Whether so much has failed that trying again would tell nothing. One may always."""
    return len(failed) > max(1, everything * SUSPECTS)


def tell(record_property: Record, what: str, everything: int, failures: Mapping[str, int], tries: int = TRIES) -> None:
    """Have it told at the end of the run."""
    counts = ", ".join(f"{name} (failed {count} of {tries} times more)" for name, count in failures.items())
    record_property(PROPERTY, f"{what}: {len(failures)} of {everything} were tried again{': ' * bool(counts)}{counts}")


def told(reports: Mapping[str, list[Any]]) -> list[str]:
    """What the reports of a run tell of it."""
    found = [
        str(value)
        for each in (*reports.get("passed", []), *reports.get("failed", []))
        if isinstance(each, pytest.TestReport) and each.when == "call"
        for name, value in each.user_properties
        if name == PROPERTY
    ]
    return sorted(found)

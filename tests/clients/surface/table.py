"""The page ../SURFACE.md: what each client's calls come to, here and on Kafka; a section per family.

`pytest tests/clients/surface --rewrite` writes the sections of the families that ran. The sections are made of what
programs said; the test fails when one of them is stale.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.clients.surface.compare import Row, named
from tests.clients.surface.families import FAMILIES, Family
from tests.clients.surface.outcome import CLASSES, ERROR
from tests.reference.broker import KAFKA_VERSION

PAGE = Path(__file__).parents[1] / "SURFACE.md"
HEAD = f"""\
# The result of every client call

Made by `pytest tests/clients/surface --rewrite`, which calls every public method of each client on Apache Kafka
{KAFKA_VERSION} and on coordinatord and compares the results or errors. A method without a call fails the test.
"""


def section(family: Family, compared: Sequence[Row]) -> str:
    """The text of one family, its heading included."""
    differing = [row for row in compared if not row.same]
    same = [row for row in compared if row.same and not row.local]
    local = [row for row in compared if row.same and row.local and row.kafka.part != CLASSES]
    others = [row for row in compared if row.kafka.part == CLASSES]
    calls = [row for row in compared if row.kafka.part != CLASSES]
    methods = {(row.kafka.part, row.kafka.method) for row in calls}
    out = [f"## {family.name} {family.version}", ""]
    out.append(
        f"{len(methods)} methods, {len(calls)} calls: {len(same)} have the same result, {len(differing)} "
        f"a different one, {len(local)} send nothing to a broker."
    )
    if differing:
        out += ["", "| call | on Kafka | here | why |", "|---|---|---|---|"]
        for row in differing:
            kafka, ours = named(row.kafka), named(row.ours)
            out.append(f"| {row.key} | {kafka} | {ours if ours != kafka else 'different answer'} | {row.reason} |")
    out += ["", "The same:", "", *_listed(same)]
    if local:
        out += ["", f"Send nothing to a broker: {_reasons(local)}."]
    if others:
        out += ["", f"Classes that are not called: {_reasons(others)}."]
    return "\n".join(out) + "\n"


def _listed(compared: Sequence[Row]) -> Iterator[str]:
    """A line per part: its methods, and in brackets the cases and errors."""
    for part in dict.fromkeys(row.kafka.part for row in compared):
        calls: dict[str, list[str]] = {}
        for row in compared:
            if row.kafka.part == part:
                calls.setdefault(row.kafka.method, []).append(_case(row))
        yield f"- {part}: " + ", ".join(f"`{method}`" + _bracketed(cases) for method, cases in calls.items())


def _case(row: Row) -> str:
    error = named(row.kafka) if row.kafka.outcome == ERROR else ""
    return ": ".join(filter(None, (row.kafka.case, error)))


def _bracketed(cases: Sequence[str]) -> str:
    told = "; ".join(filter(None, cases))
    return f" ({'also ' if '' in cases else ''}{told})" if told else ""


def _reasons(compared: Sequence[Row]) -> str:
    by_reason: dict[str, list[str]] = {}
    for row in compared:
        by_reason.setdefault(str(row.kafka.detail), []).append(f"`{row.key.removeprefix(CLASSES + '.')}`")
    return "; ".join(f"{', '.join(keys)} ({reason})" for reason, keys in by_reason.items())


def sections(page: str) -> dict[str, str]:
    """The sections of a page by their family's name."""
    parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)[1:]
    return {part.split()[1]: part.rstrip("\n") + "\n" for part in parts}


def page_with(page: str, family: Family, text: str) -> str:
    """The page with this family's section; those that are no more go."""
    found = sections(page) | {family.name: text}
    kept = [found[each.name] for each in FAMILIES if each.name in found]
    return "\n".join([HEAD, *kept])

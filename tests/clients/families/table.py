"""The comparison tables in ../README.md: client × scenario, made of the declarations that the tests run by.

    python -m tests.clients.families.table      writes it anew

A cell says `ok` where a test of the `clients` tier plays the scenario with the client: in CI it must run and pass,
by the consumer protocol in a share of the runs.
Every other cell says why it is not played. `test_table.py` says when the page is stale.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.clients.families.clients import (
    ADMIN,
    CLIENTS,
    CONSUMER_CLIENTS,
    CONSUMER_SCENARIOS,
    CONSUMING,
    SCENARIOS,
    SPARK_VERSION,
    lacking,
)

LETTERS = string.ascii_lowercase
PAGE = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- begin of the table: python -m tests.clients.families.table -->", "<!-- end of the table -->"


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    lacks: Mapping[str, str]


SPARK = Row(
    f"Spark {SPARK_VERSION} source and sink¹",
    lacking(
        *(each for each in CONSUMING if each not in ("resume", "read committed")),
        why="forms no groups: its driver assigns partitions",
    )
    | lacking(*ADMIN, why="no such call")
    | {"transactions": "no transactional producer"},
)
NOTE = "¹ It resumes from its checkpoint, which is where it keeps offsets (`families/test_spark.py`)."


def rows() -> list[Row]:
    return [*(Row(client.name, client.lacks) for client in CLIENTS), SPARK]


def consumer_rows() -> list[Row]:
    return [Row(client.name, client.lacks) for client in CONSUMER_CLIENTS]


def rendered() -> str:
    reasons: list[str] = []
    lines = drawn(rows(), SCENARIOS, reasons)
    lines += ["", "By the consumer protocol (KIP-848):", "", *drawn(consumer_rows(), CONSUMER_SCENARIOS, reasons)]
    notes = "; ".join(f"({LETTERS[number]}) {why}" for number, why in enumerate(reasons))
    lines += ["", f"Not supported by the client: {notes}.", NOTE]
    return "\n".join(lines)


def drawn(rows: Sequence[Row], scenarios: Mapping[str, str], reasons: list[str]) -> list[str]:
    """The lines of one table; reasons that are new get their letters."""

    def cell(row: Row, scenario: str) -> str:
        if scenario not in row.lacks:
            return "ok"
        reason = row.lacks[scenario]
        if reason not in reasons:
            reasons.append(reason)
        return f"({LETTERS[reasons.index(reason)]})"

    lines = ["| | " + " | ".join(scenarios.values()) + " |", "|---" * (len(scenarios) + 1) + "|"]
    for row in rows:
        lines.append("| " + " | ".join([row.name, *(cell(row, scenario) for scenario in scenarios)]) + " |")
    return lines


def page_with(table: str) -> str:
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with(rendered()))

"""What `coordinatord conform` has found on brokers, as the tables of docs/conformance.md.

    coordinatord conform --bootstrap HOST:PORT --json > report.json
    python -m tests.testing.conform.found "Apache Kafka 4.4.0" report.json [again.json …]     keep what it found
    python -m tests.testing.conform.found                                                     write the tables

A story that differs may be played again on its own, with `--only` and `--parallel 1`: on a busy machine one that waits
for a second member may be late. It differs if it does so in each of the reports.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from coordinatord.testing.conform.categories import CHAPTERS

FOLDER = Path(__file__).parent / "found"
PAGE = Path(__file__).parents[3] / "docs" / "conformance.md"
BEGIN, END = "<!-- begin of the tables: python -m tests.testing.conform.found -->", "<!-- end of the tables -->"
ORDER = ("Apache Kafka 4.3.0", "Apache Kafka 4.4.0", "kfake", "coordinatord")
SHOWN_CHARACTERS = 110
LISTED = "Apache Kafka 4.3.0"
BRACKETS = "{}[]"
COUNTED, COUNTED_ROWS = "kfake", 8


def kept(broker: str, reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is stored of the reports of one broker."""
    stories: dict[str, dict[str, Any]] = {}
    for report in reports:
        for story in report["stories"]:
            name = story["story"]
            if story["verdict"] == "not played" and name in stories:
                continue
            if name not in stories or story["verdict"] == "same":
                stories[name] = story
    return {
        "broker": broker,
        "stories": {name: _short(each) for name, each in sorted(stories.items())},
    }


def _short(story: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {"chapter": story["chapter"], "verdict": story["verdict"]}
    if story["verdict"] == "differs" and story["differences"]:
        first = story["differences"][0]
        expected, got = _first_difference(first["expected"], first["got"])
        told["first"] = {"request": first["request"].partition(" ")[2].partition(" ")[0], "kafka": expected, "it": got}
    return told


def _first_difference(expected: Sequence[str], got: Sequence[str]) -> tuple[str, str]:
    for ours, theirs in zip(expected, got, strict=False):
        if ours != theirs:
            return ours.strip(), theirs.strip()
    return (*[each.strip() for each in expected[len(got) : len(got) + 1]], "")[0], (
        *[each.strip() for each in got[len(expected) : len(expected) + 1]],
        "",
    )[0]


def stored() -> list[dict[str, Any]]:
    """What is kept of all brokers, in the page's order."""
    found = [json.loads(path.read_text()) for path in FOLDER.glob("*.json")]
    return sorted(found, key=lambda each: ORDER.index(each["broker"]))


def tables(brokers: Sequence[dict[str, Any]]) -> str:
    """The part of the page between the marks."""
    lines = ["| broker | stories | as Kafka 4.4 | different | not played: other settings |", "|---|--:|--:|--:|--:|"]
    for broker in brokers:
        same, differs, not_played = _counts(broker["stories"].values())
        lines.append(f"| {broker['broker']} | {same + differs + not_played} | {same} | {differs or 0} | {not_played} |")
    lines += ["", "By subject, stories that differ of those played:", ""]
    lines.append(f"| | {' | '.join(each['broker'] for each in brokers)} |")
    lines.append("|---|" + "--:|" * len(brokers))
    for chapter in [each.title for each in CHAPTERS]:
        cells = []
        for broker in brokers:
            same, differs, _ = _counts(each for each in broker["stories"].values() if each["chapter"] == chapter)
            cells.append(f"{differs or '·'} of {same + differs}" if same + differs else "")
        if any(cells):
            lines.append(f"| {chapter} | {' | '.join(cells)} |")
    (listed,) = [each for each in brokers if each["broker"] == LISTED] or [{"stories": {}}]
    different = {name: each for name, each in listed["stories"].items() if each["verdict"] == "differs"}
    lines += ["", f"What {LISTED} answers otherwise, by the first difference of each story:", ""]
    lines += ["| story | request | Kafka 4.4 | Kafka 4.3 |", "|---|---|---|---|"]
    for name, each in different.items():
        first = each.get("first", {})
        sides = _where(first.get("kafka", ""), first.get("it", ""))
        cells = [first.get("request", ""), *map(_code, sides)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    (counted,) = [each for each in brokers if each["broker"] == COUNTED] or [{"stories": {}}]
    lines += ["", f"Most stories differ on {COUNTED} for a few reasons. The most frequent first differences:", ""]
    lines += [f"| stories | request | Kafka 4.3 | {COUNTED} |", "|--:|---|---|---|"]
    firsts = [each["first"] for each in counted["stories"].values() if each.get("first", {}).get("request")]
    kinds = Counter((each["request"], *_where(each["kafka"], each["it"])) for each in firsts)
    for (request, expected, got), count in kinds.most_common(COUNTED_ROWS):
        lines.append(f"| {count} | {request} | {_code(expected)} | {_code(got)} |")
    return "\n".join(lines)


def _where(expected: str, got: str) -> tuple[str, str]:
    """The first field in which two lines differ."""
    for ours, theirs in zip_longest(expected.split(", "), got.split(", "), fillvalue=""):
        if ours.strip(BRACKETS) != theirs.strip(BRACKETS):
            return ours.strip(BRACKETS), theirs.strip(BRACKETS)
    return expected, got


def _counts(stories: Any) -> tuple[int, int, int]:
    verdicts = [each["verdict"] for each in stories]
    return verdicts.count("same"), verdicts.count("differs"), verdicts.count("not played")


def _code(text: str) -> str:
    shown = text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
    return f"`{shown.replace('|', '/')}`" if shown else "nothing"


def page(text: str) -> str:
    """The page with the tables of what is stored."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{tables(stored())}\n{END}{rest.partition(END)[2]}"


def main(arguments: Sequence[str]) -> None:
    """The command."""
    if arguments:
        broker, *reports = arguments
        name = re.sub(r"[^a-z0-9.]+", "-", broker.lower())
        made = kept(broker, [json.loads(Path(each).read_text()) for each in reports])
        (FOLDER / f"{name}.json").write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(PAGE.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])

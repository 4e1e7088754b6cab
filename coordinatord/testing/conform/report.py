"""Reports about the outcomes of all stories: as text, as JSON, and as JUnit XML."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from coordinatord.testing.conform.categories import CHAPTERS
from coordinatord.testing.conform.outcome import Outcome, Verdict, difference, request_text
from coordinatord.testing.conform.story import RELEASE


@dataclass(frozen=True, slots=True)
class Tally:
    """One row of the table: the number of stories with each verdict."""

    name: str
    kip: str
    same: int
    differs: int
    not_played: int

    @property
    def played(self) -> int:
        return self.same + self.differs


def reference(outcomes: Sequence[Outcome]) -> str:
    """Return the name of what the responses were compared with."""
    return f"Apache Kafka {outcomes[0].story.release if outcomes else RELEASE}"


def tally(name: str, kip: str, outcomes: Iterable[Outcome]) -> Tally:
    """Return the number of outcomes with each verdict."""
    verdicts = [outcome.verdict for outcome in outcomes]
    return Tally(name, kip, *(verdicts.count(each) for each in (Verdict.SAME, Verdict.DIFFERS, Verdict.NOT_PLAYED)))


def by_chapter(outcomes: Sequence[Outcome]) -> list[Tally]:
    """Return a row for each chapter that has stories."""
    rows = (
        tally(chapter.title, chapter.kip, [each for each in outcomes if each.chapter == chapter.title])
        for chapter in CHAPTERS
    )
    return [row for row in rows if row.played or row.not_played]


def by_api(outcomes: Sequence[Outcome]) -> list[Tally]:
    """Return a row for each API; a story is counted in the row of every API that it uses."""
    names = sorted({api for outcome in outcomes for api in outcome.apis})
    return [tally(name, "", [each for each in outcomes if name in each.apis]) for name in names]


def text(outcomes: Sequence[Outcome], left: Sequence[str] = ()) -> str:
    """Return the tables, each difference in a line, and the reasons why stories were not played."""
    whole = tally("all", "", outcomes)
    out = _table("chapter", [*by_chapter(outcomes), whole])
    out += ["", *_table("API", by_api(outcomes))]
    differing = [outcome for outcome in outcomes if outcome.verdict is Verdict.DIFFERS]
    if differing:
        out += ["", "Different answers (the first of each story; --explain STORY shows all):"]
        width = max(len(outcome.story.name) for outcome in differing)
        out += [f"  {outcome.story.name:<{width}}  {_one_line(outcome)}" for outcome in differing]
    if whole.not_played:
        out += ["", "Not played:", *_reasons(outcomes)]
    if left:
        out += ["", "Left on the broker, because it did not delete them:", *(f"  {name}" for name in left)]
    answers = sum(answered.answer is not None for outcome in outcomes for answered in outcome.answers)
    wrong = sum(len(outcome.differing) for outcome in outcomes)
    out += ["", f"{answers:,} answers compared with those of {reference(outcomes)}: {answers - wrong:,} are the same."]
    return "\n".join(out) + "\n"


def _table(head: str, rows: Sequence[Tally]) -> list[str]:
    width = max(len(head), *(len(row.name) for row in rows))
    with_kip = any(row.kip for row in rows)
    out = [f"{head:<{width}}  {'KIP      ' if with_kip else ''}  same  differ  not played"]
    for row in rows:
        kip = f"{row.kip:<9}" if with_kip else ""
        differs, not_played = (str(number) if number else "·" for number in (row.differs, row.not_played))
        out.append(f"{row.name:<{width}}  {kip}  {row.same:>4}  {differs:>6}  {not_played:>10}")
    return out


def _one_line(outcome: Outcome) -> str:
    line = outcome.summary()
    if not outcome.differing:
        return line
    more = len(outcome.differing) - 1
    line = line if len(line) <= 160 else line[:159] + "…"
    line += f" (and {more} more)" if more > 0 else ""
    return line + (" [as coordinatord]" if all(each.is_like_coordinatord for each in outcome.differing) else "")


def _reasons(outcomes: Sequence[Outcome]) -> list[str]:
    counts: dict[str, int] = {}
    for outcome in outcomes:
        if outcome.verdict is Verdict.NOT_PLAYED:
            counts[outcome.why] = counts.get(outcome.why, 0) + 1
    return [f"  {count:>4}  {why}" for why, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))]


def as_json(outcomes: Sequence[Outcome], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the run as a dict: one row a story, with each of its different responses. `facts`: data about the run."""
    whole = tally("all", "", outcomes)
    return {
        **facts,
        "reference": reference(outcomes),
        "same": whole.same,
        "differs": whole.differs,
        "not_played": whole.not_played,
        "stories": [
            {
                "story": outcome.story.name,
                "chapter": outcome.chapter,
                "kip": outcome.kip or None,
                "apis": outcome.apis,
                "verdict": outcome.verdict.value,
                "why": outcome.summary() or None,
                "answers": sum(answered.answer is not None for answered in outcome.answers),
                "differences": [
                    {
                        "line": answered.step.line,
                        "request": answered.step.source,
                        "expected": answered.step.recorded,
                        "got": answered.answer,
                        "coordinatord_differs_too": answered.step.reason if answered.is_like_coordinatord else None,
                    }
                    for answered in outcome.differing
                ],
            }
            for outcome in outcomes
        ],
    }


def junit(outcomes: Sequence[Outcome], broker: str) -> str:
    """Return a test case for each story: a failure if it differs, skipped if it was not played."""
    whole = tally("all", "", outcomes)
    suite = ElementTree.Element(
        "testsuite",
        name=f"coordinatord conform {broker}",
        tests=str(len(outcomes)),
        failures=str(whole.differs),
        skipped=str(whole.not_played),
        errors="0",
    )
    for outcome in outcomes:
        case = ElementTree.SubElement(suite, "testcase", classname=outcome.chapter, name=outcome.story.name)
        if outcome.verdict is Verdict.NOT_PLAYED:
            ElementTree.SubElement(case, "skipped", message=outcome.why)
        elif outcome.verdict is Verdict.DIFFERS:
            failure = ElementTree.SubElement(case, "failure", message=outcome.summary())
            failure.text = _printable("\n".join(difference_lines(outcome)))
    out = io.BytesIO()
    ElementTree.ElementTree(suite).write(out, encoding="utf-8", xml_declaration=True)
    return out.getvalue().decode() + "\n"


def difference_lines(outcome: Outcome) -> list[str]:
    """Return all differences of a story: each request, Kafka's response and the broker's."""
    out = []
    for answered in outcome.differing:
        out += [f"{request_text(answered.step)}:", *answered.step.source.splitlines(), *difference(answered), ""]
    return [*out, f"It ends early. {outcome.ending()}."] if outcome.why else out


def _printable(told_text: str) -> str:
    """Return the text without the characters that XML does not allow."""
    return "".join(c if c in "\n\t" or ord(c) >= 32 else "\N{REPLACEMENT CHARACTER}" for c in told_text)

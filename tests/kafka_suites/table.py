"""The tables of docs/conformance.md: what Kafka's own tests found, by class, and each difference with its reason."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.kafka_suites import stored
from tests.kafka_suites.play import Played
from tests.kafka_suites.suites import NOT_APPLICABLE, REASONS, SUITES, classes

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
BEGIN = "<!-- begin of the tables: python -m tests.kafka_suites table -->"
END = "<!-- end of the tables of Kafka's tests -->"


def short(name: str) -> str:
    """The class's name without its package."""
    return name.rpartition(".")[2]


def method(test: str) -> str:
    """The method of a test in JUnit's report: `testList()[1]` is one invocation of `testList`."""
    return re.split(r"[({\[]", test, maxsplit=1)[0]


def reason(name: str, test: str, reasons: Mapping[str, str] = REASONS) -> str | None:
    """Why a test that passes on Kafka does not here; the reason of one method, else that of its class."""
    return reasons.get(f"{short(name)}.{method(test)}") or reasons.get(short(name))


def not_applicable(name: str, ours: Played) -> dict[str, str]:
    """The tests of a class that are not applicable, with what they want: aborted ones, and failed ones by name."""
    wants = {test: reason(name, test, NOT_APPLICABLE) for test in ours.failed}
    return {**ours.aborted, **{test: want for test, want in wants.items() if want is not None}}


def missed(name: str, kafka: Played, ours: Played) -> list[str]:
    """The tests of a class that pass on Kafka, are applicable, and do not pass here."""
    left_out = not_applicable(name, ours)
    return [test for test in kafka.passed if test not in ours.passed and test not in left_out]


def tables(kafka: Mapping[str, Played], ours: Mapping[str, Played]) -> str:
    """The part of the page between the marks."""
    lines = ["| suite, class | tests | not applicable | pass on Kafka | of these pass here |", "|---|--:|--:|--:|--:|"]
    sums = [0, 0, 0, 0]
    for suite, names in SUITES.items():
        for name in names:
            if name not in kafka or name not in ours:
                continue
            counts = _counts(name, kafka[name], ours[name])
            sums = [one + other for one, other in zip(sums, counts, strict=True)]
            lines.append(f"| {suite}: {short(name)} | {' | '.join(map(str, counts))} |")
    lines.append(f"| all | {' | '.join(map(str, sums))} |")
    played = [name for name in classes() if name in kafka and name in ours]
    _, _, passing, here = sums
    lines += [
        "",
        f"{len(played)} of {len(list(classes()))} classes have been played on both. Of {passing} tests that pass",
    ]
    lines += [f"on Kafka and are applicable, {here} pass here: {100 * here / max(passing, 1):.1f} %."]
    lines += ["", "Tests that pass on Kafka and do not here:", "", *_differences(played, kafka, ours)]
    lines += ["", "Tests that are not applicable:", "", *_not_applicable(played, ours)]
    return "\n".join(lines)


def _counts(name: str, kafka: Played, ours: Played) -> list[int]:
    tests = {*kafka.passed, *kafka.failed, *kafka.aborted}
    left_out = not_applicable(name, ours)
    passing = [test for test in kafka.passed if test not in left_out]
    return [len(tests), len(left_out), len(passing), len(passing) - len(missed(name, kafka, ours))]


def _differences(played: list[str], kafka: Mapping[str, Played], ours: Mapping[str, Played]) -> Iterator[str]:
    yield from ("| test | reason |", "|---|---|")
    for name in played:
        for each in sorted({method(test) for test in missed(name, kafka[name], ours[name])}):
            yield f"| {short(name)}.{each} | {reason(name, each) or 'not looked into'} |"


def _not_applicable(played: list[str], ours: Mapping[str, Played]) -> Iterator[str]:
    yield from ("| class | wanted | tests |", "|---|---|---|")
    for name in played:
        by_want: dict[str, set[str]] = defaultdict(set)
        for test, message in not_applicable(name, ours[name]).items():
            by_want[message].add(method(test))
        for want, tests in sorted(by_want.items()):
            yield f"| {short(name)} | {want} | {', '.join(sorted(tests))} |"


def page(text: str) -> str:
    """Return the page's text with the tables of what is stored."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables(stored.read('kafka'), stored.read('coordinatord'))}\n{END}{after}"


def write() -> None:
    """Replace the tables in the page."""
    PAGE.write_text(page(PAGE.read_text()))

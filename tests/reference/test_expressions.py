"""Our expressions, which RE2 judges, against RE2/J's: what matches, and what is refused in which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.coordination.group.consumer.expression_cases import DIFFERING, RECORDED_SEEDS, ours, patterns, recorded
from tests.reference.expressions import ask

pytestmark = pytest.mark.reference

SEEDS = range(1_000, 21_000)


def test_re2j_matches_and_refuses_the_same(kafka_libs: Path) -> None:
    asked_all = patterns(SEEDS)
    differing = [
        (asked, answered)
        for asked, answered in zip(asked_all, ask(kafka_libs, asked_all), strict=True)
        if ours(asked) != answered and not DIFFERING.search(asked)
    ]
    assert not differing


def test_what_is_recorded_is_what_re2j_says(kafka_libs: Path) -> None:
    asked_all = [each for each in dict.fromkeys(patterns(RECORDED_SEEDS)) if not DIFFERING.search(each)]
    assert [asked for asked, _ in recorded()] == asked_all, "the cases changed: record anew, see expressions.py"
    assert [answered for _, answered in recorded()] == ask(kafka_libs, asked_all)


def test_re2j_still_mistakes_alternatives_for_each_other(kafka_libs: Path) -> None:
    """The one difference that is listed: coordinatord/coordination/group/consumer/expressions.py."""
    [answered] = ask(kafka_libs, ["A.|(?i:A)"])
    assert answered.index("1") > 0
    assert ours("A.|(?i:A)").startswith("1")

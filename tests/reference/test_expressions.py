"""Our expressions, which RE2 judges, against RE2/J's: what matches, and what is refused in which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.coordination.group.consumer.expression_cases import DIFFERING, ours, patterns
from tests.reference.java_programs import EXPRESSIONS

pytestmark = pytest.mark.reference

SEEDS = range(1_000, 21_000)


def test_re2j_matches_and_refuses_the_same(kafka_libs: Path) -> None:
    asked_all = patterns(SEEDS)
    differing = [
        (asked, answered)
        for asked, answered in zip(asked_all, EXPRESSIONS.ask(kafka_libs, asked_all), strict=True)
        if ours(asked) != answered and not DIFFERING.search(asked)
    ]
    assert not differing


def test_re2j_still_mistakes_alternatives_for_each_other(kafka_libs: Path) -> None:
    """The one difference that is listed: coordinatord/coordination/group/consumer/expressions.py."""
    [answered] = EXPRESSIONS.ask(kafka_libs, ["A.|(?i:A)"])
    assert answered.index("1") > 0
    assert ours("A.|(?i:A)").startswith("1")

"""Subscriptions by expression match and are refused as by RE2/J, within limits."""

from __future__ import annotations

import subprocess
import sys

import pytest

from coordinatord.coordination.group.consumer.expressions import (
    MAX_LENGTH,
    MAX_UNICODE_CLASSES,
    InvalidExpression,
    compile_expression,
)
from tests.coordination.group.consumer.expression_cases import BY_HAND, DIFFERING, ours, recorded


def test_recorded_answers_of_re2j() -> None:
    answers = recorded()
    assert len(answers) > 500
    assert sum(isinstance(answered, dict) for _, answered in answers) > 100
    assert {asked for asked, _ in answers} > {asked for asked in BY_HAND if not DIFFERING.search(asked)}
    assert {asked: ours(asked) for asked, _ in answers} == dict(answers)


def test_a_refusal_reads_as_kafkas() -> None:
    with pytest.raises(InvalidExpression) as error:
        compile_expression("orders(")
    said = "SubscribedTopicRegex `orders(` is not a valid regular expression: missing closing )."
    assert str(error.value) == said


def test_alternatives_that_re2j_mistakes_for_each_other_are_kept_apart() -> None:
    """RE2/J 1.8 says no: its Regexp.equals compares literals without their flags."""
    assert compile_expression("A.|(?i:A)").matches("a")


@pytest.mark.parametrize(
    ("pattern", "accepted"),
    [
        (r"\C", True),
        (r"\p{Adlam}", True),
        ("(?P<n>a)(?P<n>b)", True),
        ("a|{*", True),
        (r"\p{Unknown}", False),
        ("\\é", False),
    ],
)
def test_verdicts_that_are_not_re2js(pattern: str, accepted: bool) -> None:
    assert DIFFERING.search(pattern)
    assert isinstance(ours(pattern), str) == accepted


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:.?){1000}" * 8,
        r"\pL{1000}",
        r"\pL" * (MAX_UNICODE_CLASSES + 1),
        "(?i:" + "k" * (MAX_LENGTH - 5) + ")",
        "." * 2_000,
    ],
)
def test_what_would_cost_too_much_is_refused(pattern: str) -> None:
    assert len(pattern) <= MAX_LENGTH
    with pytest.raises(InvalidExpression, match=r"expression too large\.$"):
        compile_expression(pattern)


def test_repetitions_within_each_other_are_limited() -> None:
    with pytest.raises(InvalidExpression, match=r"invalid repeat count\.$"):
        compile_expression("((a{1000}){1000}){1000}")


def test_a_long_pattern_is_refused_unread() -> None:
    assert compile_expression("a" * MAX_LENGTH).matches("a" * MAX_LENGTH)
    with pytest.raises(InvalidExpression, match=f"^SubscribedTopicRegex is longer than {MAX_LENGTH} characters.$"):
        compile_expression("(" * (MAX_LENGTH + 1))


@pytest.mark.parametrize("opened", ["(", "(?:", "[", "{", "[[:", "(?P<n", r"\p{", r"\Q"])
def test_deep_and_open_patterns_end(opened: str) -> None:
    pattern = opened * (MAX_LENGTH // len(opened))
    try:
        compile_expression(pattern)
    except InvalidExpression:
        return
    assert opened in ("{", r"\Q")


def test_a_character_that_utf_8_cannot_say_is_refused() -> None:
    with pytest.raises(InvalidExpression):
        compile_expression("\ud800")


def test_re2_is_imported_by_the_first_expression() -> None:
    program = (
        "import sys; from coordinatord.coordination.group.consumer.expressions import compile_expression as c;"
        "before = 're2' in sys.modules; c('a'); print(before, 're2' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "True"]

"""Patterns, by hand and by chance, and the topics that they are tried on."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

from coordinatord.coordination.group.consumer.expressions import InvalidExpression, compile_expression

RECORDED = Path(__file__).parent / "kafka_expressions.jsonl"
"""Patterns with the answers of RE2/J: written by `python -m tests.reference.java_programs`."""

RECORDED_SEEDS = range(500)

PREFIX = "SubscribedTopicRegex `{}` is not a valid regular expression: "

TOPICS = [
    "a",
    "b",
    "ab",
    "aa",
    "aaa",
    "abc",
    "A",
    "AB",
    "aB",
    "orders",
    "Orders",
    "orders.eu",
    "orders-1",
    "orders_1",
    "x",
    "0",
    "1",
    "12",
    "a1",
    "a.b",
    "a-b",
    "a_b",
    ".a",
    "-",
    "_",
    "k",
    "K",
    "s",
    "S",
    "foo",
    "foobar",
    "topic-42",
    "zz",
    "ORDERS",
    "a.b.c",
    "__consumer_offsets",
    "i",
    "I",
    "E",
    "Q",
    "Qa",
    "{",
    "aaaa",
    "abab",
    "ba",
    "9",
    "z-Z",
    "n",
]
"""Names that topics may have, and one that they may not."""

BY_HAND = (Path(__file__).parent / "patterns.txt").read_text().splitlines()

DIFFERING = re.compile(r"\\C|\\[^\x00-\x7f]|\{[*+?{]|Unknown|Adlam|\(\?P?<|\[\[:\]|\\x\{$|\[.*\\p$", re.DOTALL)
"""Patterns that RE2 and RE2/J may judge differently, or describe in other words."""

_ATOMS = [
    "a",
    "b",
    "A",
    "k",
    "orders",
    ".",
    "\\.",
    "\\-",
    "\\d",
    "\\w",
    "\\pL",
    "\\p{Lu}",
    "\\b",
    "^",
    "$",
    "[ab]",
    "[^a]",
    "[a-z]",
    "[[:alpha:]]",
    "[\\w.-]",
    "\\x41",
    "\\x{61}",
    "\\101",
    "\\Qa.b\\E",
    "\\Q\\E",
    "é",
    "{",
    "}",
    "]",
    "-",
    "1",
    "_",
]
_ODD = [
    "\\C",
    "\\8",
    "\\1",
    "\\Z",
    "\\E",
    "\\",
    "[",
    "[^",
    "(?",
    "(?P<n>",
    "(?<m>",
    "(?i)",
    "(?i:",
    "(?-s)",
    "(?=",
    ")",
    "(",
    "|",
    "*",
    "+",
    "?",
    "{2}",
    "{1,2}",
    "{2,1}",
    "{1001}",
    "{,3}",
    "{3",
    "\\p{Foo}",
    "\\p",
    "[:",
    ":]",
    "[[:x:]]",
    "[z-a]",
    "\\x",
    "\\x{",
    "\\q",
    "\\Q",
]


_SOUP = "aaabk01-.^$|()()[[]]{{}},*+?\\\\\\pPQEdwxzbi:<>=U2é"


def random_pattern(seed: int) -> str:
    """A pattern: some are well formed, others nearly, others are characters in a row."""
    chance = random.Random(seed)
    if seed % 3 == 0:
        return "".join(chance.choice(_SOUP) for _ in range(chance.randint(1, 12)))
    odd = chance.choice([0.0, 0.05, 0.2])

    def grown(depth: int) -> str:
        kind = chance.random()
        if kind < odd:
            return chance.choice(_ODD)
        if depth == 0 or kind < 0.5:
            return chance.choice(_ATOMS)
        if kind < 0.65:
            return chance.choice(["(", "(?:", "(?i:", "(?s-i:"]) + grown(depth - 1) + ")"
        if kind < 0.8:
            repeated = f"(?:{grown(depth - 1)})" if chance.random() < 0.7 else grown(depth - 1)
            return repeated + chance.choice(["*", "+", "?", "*?", "{2}", "{1,3}", "{0,}"])
        return chance.choice(["", "|"]).join(grown(depth - 1) for _ in range(chance.randint(2, 3)))

    return grown(chance.randint(1, 4))


def patterns(seeds: range) -> list[str]:
    """Those by hand, and some by chance."""
    return [*BY_HAND, *map(random_pattern, seeds)]


def recorded() -> list[tuple[str, Any]]:
    """Patterns with the answers of RE2/J, without those of DIFFERING."""
    answers = map(json.loads, RECORDED.read_text().splitlines())
    return [(asked, answered) for asked, answered in answers if not DIFFERING.search(asked)]


def ours(pattern: str) -> Any:
    """Our answer in the form of tests/reference/java/ExpressionCheck.java."""
    try:
        expression = compile_expression(pattern)
    except InvalidExpression as error:
        return {"refused": str(error).removeprefix(PREFIX.format(pattern)).removesuffix(".")}
    return "".join(str(int(expression.matches(topic))) for topic in TOPICS)

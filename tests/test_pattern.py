"""Patterns from clients: they match what Python's `re` matches, and never take long."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from coordinatord.transactions.pattern import Pattern, PatternError

PIECES = st.recursive(
    st.sampled_from(["a", "b", "-", ".", "[ab]", "[^a]", "[a-c-]", r"\d", r"\W", r"\.", "()"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "{0}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
    ),
    max_leaves=6,
)


@given(PIECES, st.lists(st.text("ab-.1_\n", max_size=6), min_size=1, max_size=8))
def test_it_is_what_python_matches(pattern: str, texts: list[str]) -> None:
    try:
        compiled = Pattern(pattern)
    except PatternError:
        assume(re.search(r"[{*+]", pattern) is None)  # repeated again and again: too large
        raise
    for text in texts:
        assert compiled.matches(text) == (re.fullmatch(pattern, text, re.ASCII) is not None), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text", "matched"),
    [
        ("", "", True),
        ("", "a", False),
        ("orders-.*", "orders-1", True),
        ("^orders-[0-9]+$", "orders-12", True),
        ("a|b|", "", True),
        ("[]a]", "]", True),
        ("[a-]", "-", True),
        (r"[\d_]{3}", "1_2", True),
        ("é+", "éé", True),
    ],
)
def test_a_few_by_hand(pattern: str, text: str, matched: bool) -> None:
    assert Pattern(pattern).matches(text) == matched


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "*", "a**", "[a", "[z-a]", r"\1", r"\q", "(?=a)", "(?P<n>a)", "a{2", "a{3,1}", "a{5000}", "(a{20}){20}",
     "a\\", "a^b", "(a$)b", "(" * 60 + ")" * 60, "[[:alpha:]]"],
)  # fmt: skip
def test_what_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        Pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "a*a*a*a*a*a*a*a*b", "(.*)(.*)(.*)x"])
def test_what_hangs_others_does_not_hang_this(pattern: str) -> None:
    began_s = time.process_time()
    assert not Pattern(pattern).matches("a" * 5_000)
    assert time.process_time() - began_s < 20  # `re` would take longer than the universe is old

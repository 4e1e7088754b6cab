"""Regular expressions of subscriptions and of ListTransactions: RE2's, which Kafka takes by RE2/J, and which match in
linear time.

A name matches if the expression matches all of it. What RE2/J refuses is refused in its words (`syntax.py`).
Beyond that there are limits of our own, as patterns come from peers: Kafka has none, and `((a{1000}){1000}){1000}`
exhausts its memory.

One difference is known and kept: RE2/J takes `A.|(?i:A)` for `A.|A`, as it believes that both begin alike.

google-re2 is imported when the first expression is compiled: most servers never see one.
"""

from __future__ import annotations

from typing import Any

from coordinatord.coordination.group.consumer.syntax import TOO_LARGE, PatternSyntaxError, for_re2

MAX_LENGTH = 8_192
"""Characters of a pattern."""

MAX_PROGRAM = 10_000
"""Instructions of a compiled pattern. A topic's name takes three milliseconds in the worst case, microseconds else; a
transactional id of 32 KB, a second."""

MAX_MEMORY = 1 << 20
"""Bytes that RE2 may use for an expression, while it compiles and while it matches."""


class InvalidExpression(Exception):
    """INVALID_REGULAR_EXPRESSION; the text is that of Kafka's answer."""


class Expression:
    """A compiled expression. `size`: the instructions of its program."""

    __slots__ = ("_matches", "pattern", "size")

    def __init__(self, pattern: str, compiled: Any) -> None:
        self.pattern = pattern
        self.size: int = compiled.programsize
        self._matches = compiled.fullmatch

    def matches(self, name: str) -> bool:
        """Whether it matches the whole name. Meanwhile other threads run."""
        return self._matches(name.encode()) is not None


def compile_expression(pattern: str) -> Expression:
    """Compile a pattern; raises InvalidExpression if Kafka refuses it, or if it exceeds a limit."""
    if len(pattern) > MAX_LENGTH:
        raise InvalidExpression(f"SubscribedTopicRegex is longer than {MAX_LENGTH} characters.")
    try:
        spelled = for_re2(pattern)
    except PatternSyntaxError as error:
        raise _invalid(pattern, str(error)) from None
    import re2

    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    options.never_capture = True
    try:
        compiled = re2.compile(spelled.encode(), options)
    except (re2.error, UnicodeEncodeError):
        raise _invalid(pattern, TOO_LARGE) from None
    if compiled.programsize > MAX_PROGRAM:
        raise _invalid(pattern, TOO_LARGE)
    return Expression(pattern, compiled)


def _invalid(pattern: str, description: str) -> InvalidExpression:
    return InvalidExpression(f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {description}.")

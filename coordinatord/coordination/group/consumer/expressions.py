"""Regular expressions of subscriptions and of ListTransactions, in RE2's syntax, which Kafka implements with RE2/J.
They match in linear time.

A name matches if the expression matches all of it. An expression that RE2/J rejects is rejected with RE2/J's message
(`syntax.py`). There are further limits, because patterns come from peers: Kafka has none, and `((a{1000}){1000}){1000}`
exhausts its memory.

One difference is known and kept: RE2/J reads `A.|(?i:A)` as `A.|A`, because it believes that both begin alike.

google-re2 is imported when the first expression is compiled: most servers never compile one.
"""

from __future__ import annotations

from typing import Any

from coordinatord.coordination.group.consumer.syntax import TOO_LARGE, PatternSyntaxError, for_re2

MAX_LENGTH = 8_192
"""Limit of a pattern's length, in characters."""

MAX_PROGRAM = 10_000
"""Limit of instructions of a compiled pattern. A topic's name takes three milliseconds in the worst case, otherwise
microseconds; a transactional id of 32 KB, a second.
"""

MAX_MEMORY = 1 << 20
"""Limit of bytes that RE2 may use for an expression, while it compiles and while it matches."""


class InvalidExpression(Exception):
    """INVALID_REGULAR_EXPRESSION. The message is that of Kafka's response."""


class Expression:
    """A compiled expression. `size`: number of instructions of its program."""

    __slots__ = ("_matches", "pattern", "size")

    def __init__(self, pattern: str, compiled: Any) -> None:
        self.pattern = pattern
        self.size: int = compiled.programsize
        self._matches = compiled.fullmatch

    def matches(self, name: str) -> bool:
        """Return whether the expression matches the whole name. Other threads run meanwhile."""
        return self._matches(name.encode()) is not None


def compile_expression(pattern: str) -> Expression:
    """Compile a pattern. Raises InvalidExpression if Kafka rejects it, or if it exceeds a limit."""
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

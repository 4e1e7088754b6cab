"""Regular expressions of subscriptions and of ListTransactions, in RE2's syntax, which Kafka implements with RE2/J.
They match in linear time.

A name matches if the expression matches all of it. There are further limits, because patterns come from
peers: Kafka has none, and `((a{1000}){1000}){1000}` exhausts its memory.

RE2 and RE2/J 1.8 disagree about a few patterns that no topic needs. RE2 also accepts `\\C`, scripts of newer versions
of Unicode, group names beyond ASCII, a group name that occurs twice, and `{*`. RE2/J also accepts `\\p{Unknown}` and a
backslash before a letter beyond ASCII, and it reads `A.|(?i:A)` as `A.|A`, because it believes that both
begin alike.

google-re2 is imported when the first expression is compiled: most servers never compile one.
"""

from __future__ import annotations

from typing import Any

MAX_LENGTH = 8_192
"""Limit of a pattern's length, in characters."""

MAX_PROGRAM = 10_000
"""Limit of instructions of a compiled pattern. A topic's name takes three milliseconds in the worst case, otherwise
microseconds; a transactional id of 32 KB, a second.
"""

MAX_MEMORY = 1 << 20
"""Limit of bytes that RE2 may use for an expression, while it compiles and while it matches."""


MAX_UNICODE_CLASSES = 50
"""Number of `\\pL` and other Unicode classes in a pattern: RE2 needs 0.2 ms for each."""

TOO_LARGE = "expression too large"
"""Our own description: RE2/J rejects no pattern for its size."""

RE2J_DESCRIPTIONS = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "pattern too large - compile failed": TOO_LARGE,
    "trailing \\": "trailing backslash at end of expression",
    "unexpected )": "regexp/syntax: internal error",
}
"""RE2's description of an error -> RE2/J's; other descriptions are the same in both."""


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
    if pattern.count("\\p") + pattern.count("\\P") > MAX_UNICODE_CLASSES:
        raise _invalid(pattern, TOO_LARGE)
    import re2

    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    options.never_capture = True
    try:
        compiled = re2.compile(pattern.encode(), options)
    except UnicodeEncodeError:
        raise _invalid(pattern, "invalid UTF-8") from None
    except re2.error as error:
        description = error.args[0].decode(errors="replace").partition(": ")[0]
        raise _invalid(pattern, RE2J_DESCRIPTIONS.get(description, description)) from None
    if compiled.programsize > MAX_PROGRAM:
        raise _invalid(pattern, TOO_LARGE)
    return Expression(pattern, compiled)


def _invalid(pattern: str, description: str) -> InvalidExpression:
    return InvalidExpression(f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {description}.")

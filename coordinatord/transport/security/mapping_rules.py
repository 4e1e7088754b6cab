"""`ssl.principal.mapping.rules`: mapping of a certificate's distinguished name to the name of a principal.

Kafka's SslPrincipalMapper: the rules are tried in order, and the first whose pattern matches the whole name counts.
`RULE:^CN=(.*?),.*$/$1/L` gives the common name in lower case; `DEFAULT` gives the whole name. Patterns are regular
expressions of Python, which differ from Java's only in rare constructs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_RULE: Final = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLIT: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSE: Final = re.compile(_RULE)
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)|(\$)", re.DOTALL)


class InvalidRule(ValueError):
    """Raised for a rule that cannot be parsed."""


class NoMatchingRule(Exception):
    """Raised if no rule matches a distinguished name: its client is rejected."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; without a pattern it is DEFAULT. `case` is "L", "U" or ""."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, distinguished_name: str) -> str | None:
        """Return the principal's name; None if the pattern does not match."""
        pattern = self.pattern
        if pattern is None:
            return distinguished_name
        if pattern.fullmatch(distinguished_name) is None:
            return None
        name = pattern.sub(lambda match: _expanded(match, self.replacement), distinguished_name)
        return {"L": name.lower, "U": name.upper}.get(self.case, lambda: name)()


class PrincipalMapper:
    """A list of rules. Raises InvalidRule if one of them cannot be parsed."""

    def __init__(self, rules: str) -> None:
        self.rules = [rule for text in _split(rules) if (rule := _parsed(text)) is not None]

    def name(self, distinguished_name: str) -> str:
        """Return the principal's name. Raises NoMatchingRule."""
        for rule in self.rules:
            found = rule.apply(distinguished_name)
            if found is not None:
                return found
        raise NoMatchingRule(f"No rules apply to {distinguished_name}")


def _split(rules: str) -> list[str]:
    return [match[1] for match in _SPLIT.finditer(rules.strip())]


def _parsed(text: str) -> Rule | None:
    """Parse a rule; None if the text is empty."""
    match = _PARSE.match(text)
    if match is None:
        raise InvalidRule(f"Invalid rule: {text}")
    if match.end() != len(text):
        raise InvalidRule(f"Invalid rule: `{text}`, unmatched substring: `{text[match.end() :]}`")
    if match[1] is not None:
        return Rule()
    if match[2] is None:
        return None
    try:
        return Rule(re.compile(match[2]), match[4], match[6])
    except re.error as error:
        raise InvalidRule(f"Invalid rule: {text}: {error}") from error


def _expanded(match: re.Match[str], replacement: str) -> str:
    """Return the replacement with its references filled in. `$12` is group 12 or, if there is no such group, group 1
    and a 2; a reference to no group is literal text.
    """
    groups = match.re.groups

    def reference(found: re.Match[str]) -> str:
        if found[1] is not None:
            return found[1]
        if found[2] is None:
            return "$"
        digits, rest = found[2], ""
        while int(digits) > groups and len(digits) > 1:
            digits, rest = digits[:-1], digits[-1] + rest
        number = int(digits)
        return f"${digits}{rest}" if number > groups else (match[number] or "") + rest

    return _REFERENCE.sub(reference, replacement)

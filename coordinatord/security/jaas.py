"""The part of Kafka's JAAS settings that names users: `…LoginModule required user_alice="secret" user_bob="word";`.

`username` and `password`, with which a Kafka broker logs in at others, mean nothing here.
"""

from __future__ import annotations

import re
from typing import Final

USER: Final = "user_"
_TOKEN: Final = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"'=;]+)|([=;]))""")
_ESCAPE: Final = re.compile(r"\\(.)")
FLAGS: Final = ("required", "requisite", "sufficient", "optional")


def options_of(text: str) -> dict[str, str]:
    """All options of a JAAS entry. ValueError, with a sentence, if it is none."""
    tokens: list[tuple[str, bool]] = []
    at = 0
    stripped = text.strip()
    while at < len(stripped):
        found = _TOKEN.match(stripped, at)
        if found is None:
            raise ValueError(f"cannot be read from character {at + 1} on")
        quoted = found[1] if found[1] is not None else found[2]
        if quoted is not None:
            tokens.append((_ESCAPE.sub(r"\1", quoted), True))
        else:
            tokens.append((found[3] or found[4], False))
        at = found.end()
    if len(tokens) < 3 or tokens[1][0].lower() not in FLAGS or tokens[-1] != (";", False):
        raise ValueError('must be: LoginModule required NAME="VALUE" …;')
    options: dict[str, str] = {}
    rest = tokens[2:-1]
    if len(rest) % 3:
        raise ValueError('must be: LoginModule required NAME="VALUE" …;')
    for (name, is_quoted), sign, (value, _) in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if is_quoted or sign != ("=", False):
            raise ValueError(f"has no value for {name}")
        options[name] = value
    return options


def users_of(text: str) -> dict[str, str]:
    """Name -> password of each `user_NAME`. ValueError as above."""
    return {name.removeprefix(USER): value for name, value in options_of(text).items() if name.startswith(USER)}

"""The users in Kafka's JAAS settings: `…LoginModule required user_alice="secret" user_bob="word";`.

Parsed as Kafka's JaasConfig does, with the rules of java.io.StreamTokenizer: a word without quotes begins with a
letter, `$` or `_` (a number is no value), `/` begins a comment, a text in quotes has C's escapes and ends with its
line. So a password is the same text in both brokers.

`username` and `password`, with which a Kafka broker authenticates to other brokers, are ignored.
"""

from __future__ import annotations

import re
from typing import Final

USER: Final = "user_"
FLAGS: Final = ("required", "requisite", "sufficient", "optional")

_TOKEN: Final = re.compile(
    r"""
    (?P<skipped> [\x00-\x20]+ | /\*.*?(?:\*/|\Z) | /[^\r\n]* )
    | (?P<quote>["']) (?P<quoted> (?: \\. | (?!(?P=quote))[^\\\r\n] )* ) (?P=quote)?
    | (?P<number> [-.0-9][.0-9]* )
    | (?P<word> [A-Za-z_$\xa0-\U0010ffff][-.0-9A-Za-z_$\xa0-\U0010ffff]* )
    | (?P<sign> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_CONTROLS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SHAPE: Final = 'must be: LoginModule required NAME="VALUE" …;'


def options_of(text: str) -> dict[str, str]:
    """Return all options of a JAAS entry. Raises ValueError, with a sentence, if the text is not an entry."""
    tokens = _tokens_of(text)
    if len(tokens) < 3 or tokens[1][0] is None or tokens[1][0].lower() not in FLAGS or tokens[-1] != (None, ";"):
        raise ValueError(_SHAPE)
    options: dict[str, str] = {}
    rest = tokens[2:-1]
    for at in range(0, len(rest), 3):
        name, written = rest[at]
        if name is None:
            raise ValueError(f"{_SHAPE} Cannot be read from {written!r} on; put the name in quotes")
        value = rest[at + 2][0] if rest[at + 1 : at + 2] == [(None, "=")] and at + 2 < len(rest) else None
        if value is None:
            raise ValueError(
                f'has no value for {name}: write {name}="VALUE", and with other characters "{name}"="VALUE"'
            )
        options[name] = value
    return options


def users_of(text: str) -> dict[str, str]:
    """Return name -> password of each `user_NAME`. Raises ValueError as `options_of`."""
    return {name.removeprefix(USER): value for name, value in options_of(text).items() if name.startswith(USER)}


def _tokens_of(text: str) -> list[tuple[str | None, str]]:
    """Return (StreamTokenizer's `sval`, the token as written) of each token; numbers and signs have no `sval`."""
    tokens: list[tuple[str | None, str]] = []
    for found in _TOKEN.finditer(text):
        if found["quote"]:
            tokens.append((_ESCAPE.sub(_unescaped, found["quoted"]), found[0]))
        elif not found["skipped"]:
            tokens.append((found["word"], found[0]))
    return tokens


def _unescaped(found: re.Match[str]) -> str:
    escaped = found[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _CONTROLS.get(escaped, escaped)

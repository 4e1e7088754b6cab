"""Escaping of peers' text for output on a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return the text with each character that is not printable (`str.isprintable`) escaped as in Python: control
    characters of ASCII (escape sequences, BEL, line breaks) and C1, marks that turn the direction of writing, line and
    paragraph separators, lone surrogates. Escaped text is not escaped again.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)

"""Text of peers on a terminal: the one function that makes it harmless."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with each character that is not printable (`str.isprintable`) written as in Python: control characters
    of ASCII (escape sequences, BEL, line breaks) and C1, marks that turn the direction of writing, line and paragraph
    separators, lone surrogates. What has been escaped once stays as it is.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)

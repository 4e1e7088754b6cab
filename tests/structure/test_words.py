"""Wording of docstrings, comments, messages and documents: phrases that plain technical English does not need."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.structure.sources import ROOT, written

#: Software as persons, and word order that is not English. A phrase may go on in the next line, also of a comment.
PHRASES = re.compile(
    r"\b(?:[Nn]obody|[Ss]omebody|whom"
    r"|(?:is|are|was|were|be|been)~told|(?:come|comes|came)~by|[Aa]s~of|of~now|(?:lie|lies|lay)~in)\b".replace(
        "~", r"\s+(?:#:?\s+)?"
    )
)
#: A docstring, or the comment of an attribute, that begins with a relative clause instead of a noun or a verb.
TITLES = re.compile(r'(?:"""|#: )(?:What|Who|Whose|Whether|How|Which|what|who|whose|whether|how|which)\b')
#: Documents that record what was said at the time, and tables of recorded requests.
HISTORY = ("CHANGELOG.md", "docs/conformance.md")


def faults(text: str) -> Iterator[str]:
    """Yield each forbidden phrase of a text with its line."""
    for pattern in (PHRASES, TITLES):
        for found in pattern.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{line}: {found[0]!r}"


def documents() -> list[Path]:
    """Return the documents for readers: those of the root, docs/, deploy/ and the packages."""
    found = [
        *ROOT.glob("*.md"),
        *(path for folder in ("docs", "deploy", "coordinatord") for path in (ROOT / folder).rglob("*.md")),
    ]
    return sorted(path for path in found if path.relative_to(ROOT).as_posix() not in HISTORY)


def test_texts_have_no_forbidden_phrases() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{fault}" for path in [*written(), *documents()] for fault in faults(path.read_text())
    ]
    assert not found, "use the subject's name and a technical verb:\n" + "\n".join(found)

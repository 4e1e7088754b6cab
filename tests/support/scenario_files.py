"""Scenario files: a sentence of intent, then blocks of events, `----` and results, separated by blank lines."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pytest


class Story(Protocol):
    """Plays the blocks of one file, in order."""

    def play(self, lines: list[str]) -> list[str]:
        """Play the events of a block. Returns one line per result."""


def replayed(text: str, story: Story) -> str:
    """The scenario with its current results."""
    blocks = []
    for block in text.strip().split("\n\n"):
        lines = block.splitlines()
        sent = lines[: lines.index("----")] if "----" in lines else lines
        if all(line.startswith("#") for line in sent):
            blocks.append(block)
        else:
            blocks.append("\n".join([*sent, "----", *story.play(sent)]))
    return "\n\n".join(blocks) + "\n"


def check(path: Path, story: Story, request: pytest.FixtureRequest) -> None:
    """Check that the results are those in the file; with --rewrite, write them into it."""
    expected = path.read_text()
    actual = replayed(expected, story)
    if request.config.getoption("--rewrite"):
        path.write_text(actual)
    else:
        assert actual == expected

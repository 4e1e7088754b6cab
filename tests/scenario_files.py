"""Scenario files: an intent sentence, what is told to a story, `----`, what came out; blocks apart by blank lines."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pytest


class Story(Protocol):
    """What the blocks of one file are told to, in order."""

    def play(self, lines: list[str]) -> list[str]:
        """What comes out, a line per happening."""


def replayed(text: str, story: Story) -> str:
    """The scenario with the outputs that it has now."""
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
    """The outputs are still those of the file; with --rewrite they are written into it."""
    expected = path.read_text()
    actual = replayed(expected, story)
    if request.config.getoption("--rewrite"):
        path.write_text(actual)
    else:
        assert actual == expected

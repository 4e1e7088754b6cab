"""Scenario files: a sentence of intent, then blocks of events, `----` and results, separated by blank lines.

A line of events is a command on a virtual clock. `Story` has what all stories have in common; each kind of story adds
the verbs of its own world:

    settings clock=10:00:00 NAME=VALUE …    a new world
    at 10:00:03 · after 3s                  let time pass; timers expire on the way
    SUBJECT VERB WORD "MORE WORDS" NAME=VALUE …
    # a comment
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from coordinatord.coordination.group.state import NEVER
from coordinatord.testing.simulation.units import duration_ms


class Story:
    """Plays the blocks of one file, in order. Each kind of story adds `settings`, `does` and a world with a clock."""

    world: Any
    out: list[str]

    def play(self, lines: list[str]) -> list[str]:
        """Play the events of a block. Returns one line per result."""
        self.out = []
        for line in lines:
            if words := words_of(line):
                self.play_line(words)
        return self.out or ["nothing"]

    def play_line(self, words: list[str]) -> None:
        """Play one event."""
        match words:
            case ["settings", *rest]:
                self.settings(options_of(rest))
            case ["at", when]:
                self.world.advance(of_day_ms(when) - self.world.now_ms)
            case ["after", duration]:
                self.world.advance(duration_ms(duration))
            case [subject, *rest]:
                self.does(subject, rest)

    def say(self, text: str) -> None:
        """Add a result, with the time of day."""
        self.out.append(f"{clock(self.world.now_ms)} {text}")

    def settings(self, options: dict[str, str]) -> None:
        """Make a new world."""

    def does(self, subject: str, words: list[str]) -> None:
        """Play a verb of this kind of story."""


def words_of(line: str) -> list[str]:
    """Return the words of a line without its comment; what is in double quotes is one word."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split, lexer.quotes = True, '"'
    return list(lexer)


def options_of(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words if "=" in word and "/" not in word)


def of_day_ms(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    return int(hours) * 3_600_000 + int(minutes) * 60_000 + round(float(seconds) * 1_000)


def clock(ms: int) -> str:
    if ms >= NEVER:
        return "never"
    seconds, rest = divmod(ms, 1_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{rest:03}" if rest else text


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
    assert expected.startswith("# "), "a scenario begins with its intent"
    actual = replayed(expected, story)
    if request.config.getoption("--rewrite"):
        path.write_text(actual)
    else:
        assert actual == expected

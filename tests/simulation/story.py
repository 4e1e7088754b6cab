"""What happened, as a person reads it: when, who, what. All of it is kept for `--trace`, else the last lines."""

from __future__ import annotations

import re
from collections import deque

from coordinatord.simulation.engine import START_MS, Engine

TAIL = 60
RANDOM_PART = re.compile(r"(\w[\w.]*)-([0-9a-f]{4})[0-9a-f]{28}")
WHO_WIDTH = 18


def told_time(ms: int) -> str:
    """Hours, minutes, seconds since the world began."""
    seconds, rest_ms = divmod(ms - START_MS, 1_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:4}:{minutes:02}:{seconds:02}.{rest_ms:03}"


class Story:
    """Lines of (time, who, what). `is_traced`: also those of single requests, and all of them are kept."""

    def __init__(self, engine: Engine, *, is_traced: bool = False) -> None:
        self.engine = engine
        self.is_traced = is_traced
        self.lines: deque[tuple[int, str, str]] = deque(maxlen=None if is_traced else TAIL)

    def say(self, who: str, what: str) -> None:
        self.lines.append((self.engine.now_ms, who, what))

    def told(self) -> list[str]:
        """One line each; member ids shortened to what tells them apart."""
        return [f"{told_time(at)}  {who:{WHO_WIDTH}} {RANDOM_PART.sub(_short, what)}" for at, who, what in self.lines]


def _short(match: re.Match[str]) -> str:
    return f"{match[1]}-{match[2]}…"

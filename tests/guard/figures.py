"""The figures that are stored, and how what is counted now compares with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.guard.count import Figures

FILE = Path(__file__).with_name("figures.json")

MAY_GROW = 0.10
MAY_GROW_BLOCKS = 1.0
"""Of `held` and `kept`, beside the 10 %: a figure of nearly nothing may become a little more."""

Stored = dict[str, dict[str, Any]]
"""Script -> {"why": the reason for the last change, "calls": …, "held": …, "kept": …}."""


def load() -> Stored:
    stored: Stored = json.loads(FILE.read_text())
    return stored


def grown(name: str, stored: dict[str, Any], counted: Figures) -> list[str]:
    """What costs more than it did: a sentence each."""
    wrong = []
    for figure, now in counted.items():
        before = stored[figure]
        limit = before * (1 + MAY_GROW) + (0 if figure == "calls" else MAY_GROW_BLOCKS)
        if now > limit:
            wrong.append(f"{name}: {figure} per request were {before:g} and are {now:g}, more than {limit:.2f}")
    return wrong


def record(stored: Stored, counted: dict[str, Figures], why: str) -> Stored:
    """The figures with what was counted in place of what has changed; `why` goes to each that has."""
    changed = dict(stored)
    for name, figures in counted.items():
        old = stored.get(name, {})
        if any(old.get(figure) != value for figure, value in figures.items()):
            changed[name] = {"why": why, **figures}
    return changed

"""Hunts that are too long for every commit: the gate runs a share of each, and another one with the next commit.

Which share follows from the commit's hash, so a run can be repeated. `.ci/run all` runs all of them.

    COORDINATORD_TESTS_SHARE=all    everything
    COORDINATORD_TESTS_SHARE=7      the share of turn 7, whatever the commit is

Outside of git it is the share of turn 0.
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")
VARIABLE = "COORDINATORD_TESTS_SHARE"
KEPT = f"_{VARIABLE}"
"""Its name during a run: daemons that tests start would take VARIABLE for a setting, and refuse it."""


def keep() -> None:
    """Rename the variable for this process and its children, pytest's workers among them."""
    if (wanted := os.environ.pop(VARIABLE, None)) is not None:
        os.environ[KEPT] = wanted


def _wanted() -> str:
    return os.environ.get(VARIABLE) or os.environ.get(KEPT, "")


def in_full() -> bool:
    """Whether all of each hunt is wanted."""
    return _wanted() == "all"


@functools.cache
def turn() -> int:
    """A number that changes with each commit."""
    wanted = _wanted()
    if wanted.isdecimal():
        return int(wanted)
    try:
        command = ["git", "rev-parse", "HEAD"]
        here = Path(__file__).parent
        done = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=30, check=False)
        return int(done.stdout.strip() or "0", 16)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return 0


def chosen(items: Sequence[T], of: int) -> list[T]:
    """Every `of`-th of them, beginning where this commit's turn is; one at least."""
    if in_full():
        return list(items)
    return list(items[turn() % min(of, len(items)) :: of])


def changed(directory: Path) -> set[Path]:
    """The files of a directory that differ from the commit before the last one; none outside of git."""
    command = ["git", "diff", "--name-only", "--relative", "HEAD~1", "--", "."]
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return set()
    return {directory / name for name in done.stdout.splitlines()}


def not_in_turn(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """The tests of the files that wait for another commit: of the files whose tests are marked `in_turn(group, of)`
    with the same group, every `of`-th runs. A file that is run by itself is the only one of its group: it runs.
    """
    groups: dict[tuple[str, int], dict[Path, list[pytest.Item]]] = {}
    for item in items:
        if marker := item.get_closest_marker("in_turn"):
            groups.setdefault(marker.args, {}).setdefault(item.path, []).append(item)
    waiting: set[pytest.Item] = set()
    for (_, of), files in groups.items():
        running = set(chosen(sorted(files), of))
        waiting.update(item for path, each in files.items() if path not in running for item in each)
    return waiting


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep this commit's share: of files marked `in_turn(group, of)`, of the rows of each function marked
    `rotating(of)`, and with `--rotate N` that many rows of every other function.
    """
    if in_full():
        return
    rotate: int = config.getoption("--rotate")
    waiting = not_in_turn(items)
    rows: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        marker = item.get_closest_marker("rotating")
        of = rotate if marker is None else marker.args[0]
        if of > 1:
            rows.setdefault((item.nodeid.split("[")[0], of), []).append(item)
    left_out = waiting.union(*(set(each) - set(chosen(each, of)) for (_, of), each in rows.items()))
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def header() -> str:
    """What a run says of itself."""
    return "shares of hunts: all" if in_full() else f"shares of hunts: {VARIABLE}={turn()}"

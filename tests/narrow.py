"""Leave out the files in which no test can be what `-m` asks for, before they are imported.

Importing all test modules takes some twenty seconds, and each process of each tier would do it. The text of a file,
and of the conftest.py beside it and above it, names every marker that its tests have; :func:`unnamed` finds a marker
that came in another way, so that no test is left out in silence.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterable
from pathlib import Path

TESTS = Path(__file__).parent
MARKER = re.compile(r"\bmark\.(\w+)")


@functools.cache
def named(path: Path) -> frozenset[str]:
    """The markers that a file's text names."""
    return frozenset(MARKER.findall(path.read_text(encoding="utf-8"))) if path.exists() else frozenset()


@functools.cache
def possible(path: Path) -> frozenset[str]:
    """The markers that tests of this file can have."""
    folders = [folder for folder in path.parents if folder == TESTS or TESTS in folder.parents]
    return named(path).union(*(named(folder / "conftest.py") for folder in folders))


@functools.cache
def may_be_wanted(expression: str, markers: frozenset[str]) -> bool:
    """Whether a test that has some of these markers, or none, can be what the expression of `-m` asks for."""
    try:
        tree = ast.parse(expression, mode="eval")
    except SyntaxError:
        return True  # pytest says what is wrong with it
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    wanted = compile(tree, "-m", "eval")
    relevant = sorted(names & markers)
    subsets = itertools.chain.from_iterable(
        itertools.combinations(relevant, count) for count in range(len(relevant) + 1)
    )
    return any(eval(wanted, {"__builtins__": {}}, {name: name in subset for name in names}) for subset in subsets)


def can_be_left_out(path: Path, expression: str) -> bool:
    """Whether a file has no test that `-m` asks for."""
    is_test = path.name.startswith("test_") and path.suffix == ".py"
    return is_test and bool(expression) and not may_be_wanted(expression, possible(path))


def unnamed(path: Path, markers: Iterable[str]) -> set[str]:
    """The markers of a test that its file does not name."""
    return set(markers) - possible(path)

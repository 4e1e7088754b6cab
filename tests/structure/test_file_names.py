"""Files and modules that docstrings, comments and pages name are there: a renamed file leaves no name behind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.structure.sources import ROOT, modules
from tests.structure.test_links import pages

FILE = re.compile(r"(?<![\w./-])(?:[\w-]+/)*[\w-]+\.py\b")
MODULE = re.compile(r"-m ((?:tests|bench|coordinatord|kafka_wire)(?:\.\w+)*)")
HISTORY = "CHANGELOG.md"
EXAMPLES = {"main.py", "setup.py"}
"""A file of users, and the one at the top."""


def texts() -> Iterator[tuple[str, str]]:
    for path in modules().values():
        if "generated" not in path.parts:
            yield str(path.relative_to(ROOT)), path.read_text()
    for page in pages():
        if page != HISTORY:
            yield page, (ROOT / page).read_text()


def sources() -> set[str]:
    """Every suffix of the path of each source file: `b/c.py` stands for `a/b/c.py`."""
    folders = ("coordinatord", "protocol", "tests", "bench", "docs", "deploy", ".ci")
    paths = [path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return {"/".join(path.parts[first:]) for path in paths for first in range(len(path.parts))}


def is_runnable(module: str) -> bool:
    parts = module.split(".")
    base = ROOT / "protocol" if parts[0] == "kafka_wire" else ROOT
    path = Path(base, *parts)
    return path.with_suffix(".py").exists() or (path / "__main__.py").exists()


def test_each_named_file_is_there() -> None:
    there = sources() | EXAMPLES
    missing = [f"{where}: {name}" for where, text in texts() for name in FILE.findall(text) if name not in there]
    assert not missing, "\n".join(missing)


def test_each_named_module_can_be_run() -> None:
    missing = [f"{where}: {name}" for where, text in texts() for name in MODULE.findall(text) if not is_runnable(name)]
    assert not missing, "\n".join(missing)

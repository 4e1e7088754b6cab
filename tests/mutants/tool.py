"""One mutant: its source, a process in which it stands instead of the module, and what notices it there.

The process imports the module from the mutant's source, so that constants, tables of handlers and functions that were
imported elsewhere are all of the mutant. It runs a command that fails if it notices the mistake.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import runpy
import subprocess
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[2]
LIMIT_S = 600.0
# A test that takes so long does not end: it takes a tenth of a second otherwise. pytest's rewriting of assertions comes
# with a finder of its own, which would load the module as it is.
PYTEST = (
    *("-x", "-q", "--tb=no", "--no-header", "--assert=plain", "--timeout=20"),
    *("-p", "no:cacheprovider", "-m", "not slow and not full"),
)


class Mutant(NamedTuple):
    """`where` is "module", "module:function" or "module:Class.method"; `old` is there once and is replaced by `new`.

    `command` is pytest or a module, with arguments, and is to notice the mistake; if it does not, `otherwise` may.
    """

    where: str
    old: str
    new: str
    command: str
    otherwise: str = ""

    @property
    def module(self) -> str:
        return self.where.partition(":")[0]

    @property
    def path(self) -> Path:
        return REPOSITORY / f"{self.module.replace('.', '/')}.py"


class Stale(Exception):
    """The code is not what the mutant takes it for."""


def mutated(mutant: Mutant) -> str:
    """The module's source with the mistake. Raises Stale if the piece to replace is missing or ambiguous."""
    source = mutant.path.read_text("utf-8")
    start, end = _extent(source, mutant)
    piece = source[start:end]
    if piece.count(mutant.old) != 1:
        raise Stale(f"{mutant.old!r} is {piece.count(mutant.old)} times in {mutant.where}, and should be there once")
    return source[:start] + piece.replace(mutant.old, mutant.new) + source[end:]


def _extent(source: str, mutant: Mutant) -> tuple[int, int]:
    """Where the source of the mutant's function begins and ends, or of its module."""
    node: ast.AST = ast.parse(source)
    name = mutant.where.partition(":")[2]
    if not name:
        return 0, len(source)
    for part in name.split("."):
        found = [each for each in ast.iter_child_nodes(node) if getattr(each, "name", None) == part]
        if len(found) != 1:
            raise Stale(f"{mutant.where} is there {len(found)} times")
        node = found[0]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef), mutant.where
    lines = source.splitlines(keepends=True)
    return sum(map(len, lines[: node.lineno - 1])), sum(map(len, lines[: node.end_lineno]))


class _Source(SourceFileLoader):
    """Loads a module from another source than its file's."""

    def __init__(self, mutant: Mutant) -> None:
        super().__init__(mutant.module, str(mutant.path))
        self._source = mutated(mutant)
        self.is_loaded = False

    def get_code(self, fullname: str) -> object:  # type: ignore[override]
        self.is_loaded = True
        return compile(self._source, self.path, "exec")


class _Finder(MetaPathFinder):
    """Finds one module with its mistake."""

    def __init__(self, loader: _Source) -> None:
        self._loader = loader

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        loader: Loader = self._loader
        return importlib.util.spec_from_loader(fullname, loader) if fullname == self._loader.name else None


def play(mutant: Mutant | None, command: str) -> int:
    """Run the command in this process, with the mistake; its exit status."""
    loader = None if mutant is None else _Source(mutant)
    if loader is not None:
        assert loader.name not in sys.modules, "too late to load a mutant"
        sys.meta_path.insert(0, _Finder(loader))
    module, *arguments = command.split()
    sys.argv = [module, *(PYTEST if module == "pytest" else ()), *arguments]
    status: object = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code
    assert loader is None or loader.is_loaded, f"{command} does not import {loader.name}"
    return int(str(status or 0))


def noticed_by(mutant: Mutant | None, command: str, name: str = "") -> str:
    """The test that fails or the world that is in disorder, with this mutant in place; empty: neither."""
    where = ["--mutant", name] if mutant else []
    arguments = [sys.executable, "-m", "tests.mutants", "--play", command, *where]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=LIMIT_S, cwd=REPOSITORY, check=False)
    if not done.returncode:
        return noticed_by(mutant, mutant.otherwise, name) if mutant and command != mutant.otherwise != "" else ""
    found = re.findall(r"^(?:FAILED|ERROR) (\S+)|^(seed \d+: .*)", done.stdout, re.MULTILINE)
    assert found, done.stdout + done.stderr
    return "".join(found[-1])  # worlds before the last one are in order

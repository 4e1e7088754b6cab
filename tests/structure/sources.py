"""The packages' sources as text and syntax trees, for tests of their structure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {"coordinatord": ROOT / "coordinatord", "kafka_wire": ROOT / "protocol" / "kafka_wire"}


@cache
def modules() -> dict[str, Path]:
    """Every module by its dotted name; a package's `__init__` under the package's."""
    found = {}
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = (package, *path.relative_to(folder).with_suffix("").parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def written() -> list[Path]:
    """The files that people write: not what is generated."""
    return [path for name, path in modules().items() if not name.startswith("kafka_wire.generated.")]


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text())


def functions(path: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """(qualified name, definition) of each function of a file."""

    def within(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + each.name, each
                yield from within(each, f"{prefix}{each.name}.")
            elif isinstance(each, ast.ClassDef):
                yield from within(each, f"{prefix}{each.name}.")
            else:
                yield from within(each, prefix)

    yield from within(tree(path), "")


def imports(name: str) -> set[str]:
    """The modules of ours that a module imports, wherever in it; those for type checkers alone count, too."""
    known = modules()
    found = set()
    for node in ast.walk(tree(known[name])):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for each in node.names:
                inner = f"{node.module}.{each.name}"
                found.add(inner if inner in known else node.module)
    return (found & known.keys()) - {name}

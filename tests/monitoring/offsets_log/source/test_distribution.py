"""pyspark-consumer-offsets: its list of files has all that these files import, at the ranges of the whole project."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[4]
DISTRIBUTION = ROOT / "deploy" / "pyspark-consumer-offsets"
PROJECT = tomllib.loads((DISTRIBUTION / "pyproject.toml").read_text())
IMPORTED_AS = {"kafka": "kafka-python", "pyspark": "pyspark"}
OURS = ("coordinatord", "kafka_wire", "pyspark_consumer_offsets")


def files() -> dict[str, Path]:
    """The wheel's modules by their dotted names."""
    found: dict[str, Path] = {}
    included: dict[str, str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    for source, place in included.items():
        path = (DISTRIBUTION / source).resolve()
        assert path.exists(), path
        for each in [path] if path.is_file() else path.rglob("*.py"):
            below = Path(place) / each.relative_to(path) if path.is_dir() else Path(place)
            if below.suffix == ".py":
                found[".".join(below.with_suffix("").parts).removesuffix(".__init__")] = each
    return found


def imports(path: Path) -> Iterator[tuple[str, str | None]]:
    """(module, name that is taken from it)."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((each.name, None) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            assert node.module
            yield from ((node.module, each.name) for each in node.names)


def test_what_the_wheels_modules_import_is_in_the_wheel_or_required() -> None:
    modules = files()
    asked: dict[str, Any] = PROJECT["project"]
    extras = [each for names in asked["optional-dependencies"].values() for each in names]
    required = {Requirement(each).name for each in [*asked["dependencies"], *extras]}
    reached: set[str] = set()
    for module, path in modules.items():
        for name, taken in imports(path):
            top = name.partition(".")[0]
            if top in OURS:
                assert name in modules, f"{module} imports {name}, which is not in the wheel"
                reached |= {name, f"{name}.{taken}"}
            elif top not in sys.stdlib_module_names:
                asks_for = IMPORTED_AS.get(top, top)
                assert asks_for in required, f"{module} imports {name}, which the wheel does not ask for"
    assert "kafka_wire.records.offsets" in reached
    # Codecs are looked up by name.
    declaring = {name for name, path in modules.items() if ".records." in name and "\n@message(" in path.read_text()}
    generated = {f"kafka_wire.generated.{name.rpartition('.')[2]}" for name in declaring & reached}
    assert generated <= modules.keys()
    assert not any(name.startswith("coordinatord.server") for name in modules), "the source, and what it needs"


def test_ranges_are_those_of_the_whole_project() -> None:
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = whole["optional-dependencies"]
    all_of = [*whole["dependencies"], *extras["spark"], *extras["postgresql"]]
    ranges = {Requirement(each).name: each for each in all_of}
    asked = PROJECT["project"]
    extras = [each for names in asked["optional-dependencies"].values() for each in names]
    for each in [*asked["dependencies"], *extras]:
        assert ranges[Requirement(each).name] == each

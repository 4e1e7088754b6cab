"""The walks of ARCHITECTURE.md are the code's: each name exists, each hop is a call, none is taken twice."""

from __future__ import annotations

import ast
import re
import tomllib

import pytest

from tests.structure.sources import PACKAGES, ROOT, functions, tree

PAGE = (ROOT / "ARCHITECTURE.md").read_text()
MAX_HOPS = 8
ROW = re.compile(r"^\| (\d*) ?\| `(coordinatord/[^`]+)` \| `([^`]+)` \|", re.M)
WALKS = {
    title: ROW.findall(text) for title, text in re.findall(r"^### An? (\w+)\n(.*?)(?=^### |\Z)", PAGE, re.M | re.S)
}
WINGS = re.findall(r"^\| `(?:coordinatord|protocol)/(\w+)/` \|", PAGE, re.M)
PACKAGES_OF_WINGS = re.findall(r"^\| `(\w+)/(\w+)/` \|", PAGE, re.M)
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
LAYERS = [each for each in CONTRACTS if each["type"] == "layers"]


def names_in(path: str) -> set[str]:
    """Every name that a file calls or takes: attributes, names and imports."""
    found = set()
    for node in ast.walk(tree(ROOT / path)):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name):
            found.add(node.id)
    return found


def handlers_of(path: str) -> set[str]:
    """What a module of apis gives to the router."""
    (handlers,) = [each for name, each in functions(ROOT / path) if name.endswith(".handlers")]
    return {node.attr for node in ast.walk(handlers) if isinstance(node, ast.Attribute)}


def test_there_are_six_walks() -> None:
    assert WALKS.keys() == {"heartbeat", "JoinGroup", "OffsetCommit", "ConsumerGroupHeartbeat", "Produce", "Fetch"}
    assert all(rows for rows in WALKS.values())


@pytest.mark.parametrize("walk", WALKS)
def test_each_name_is_there(walk: str) -> None:
    for _, path, function in WALKS[walk]:
        assert function in dict(functions(ROOT / path)), f"{path} has no {function}"


@pytest.mark.parametrize("walk", WALKS)
def test_at_most_eight_hops_and_no_file_twice(walk: str) -> None:
    hops = [int(hop) for hop, _, _ in WALKS[walk] if hop]
    assert hops == list(range(1, len(WALKS[walk])))
    assert len(hops) <= MAX_HOPS
    paths = [path for _, path, _ in WALKS[walk]]
    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize("walk", WALKS)
def test_each_hop_is_called_by_one_before_it(walk: str) -> None:
    """By the file before it, or by one that the walk has come through: an actor calls the core, then the log."""
    rows = WALKS[walk]
    for number, (_, path, function) in enumerate(rows[1:], 1):
        called = function.rsplit(".", 1)[-1]
        callers = [before for _, before, _ in rows[:number] if called in names_in(before)]
        if rows[number - 1][1].endswith("router.py"):
            callers += [path] * (called in handlers_of(path))
        assert callers, f"nothing before {path} in the walk of a {walk} calls {called}"


def positions(layers: list[str]) -> dict[str, int]:
    """Each package of a layers contract -> its layer; packages side by side are on the same one."""
    return {name.strip().rpartition(".")[2]: number for number, line in enumerate(layers) for name in line.split("|")}


def test_wings_are_in_the_order_of_the_import_contract() -> None:
    (contract,) = [each for each in LAYERS if "containers" not in each]
    layer = positions(contract["layers"])
    assert sorted(WINGS, key=lambda wing: layer[wing]) == WINGS
    folders = {path.parent.name for path in PACKAGES["coordinatord"].glob("*/__init__.py")}
    assert set(WINGS) == layer.keys() == folders | {"kafka_wire"}


@pytest.mark.parametrize("wing", [each for each in WINGS if each not in ("kafka_wire", "cli")])
def test_packages_of_a_wing_are_in_the_order_of_its_import_contract(wing: str) -> None:
    packages = [package for of, package in PACKAGES_OF_WINGS if of == wing]
    folders = {path.parent.name for path in (PACKAGES["coordinatord"] / wing).glob("*/__init__.py")}
    assert set(packages) == folders
    assert len(packages) == len(folders)
    contracts = [each for each in LAYERS if each.get("containers") == [f"coordinatord.{wing}"]]
    if contracts:
        layer = positions(contracts[0]["layers"])
        assert sorted(packages, key=lambda package: layer[package]) == packages
    else:
        assert wing == "testing"


def test_each_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (ROOT / target).exists(), target

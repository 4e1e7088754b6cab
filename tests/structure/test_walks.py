"""The walks of ARCHITECTURE.md are the code's: each name exists, each hop is a call, none is taken twice."""

from __future__ import annotations

import ast
import re

import pytest

from tests.structure.sources import PACKAGES, ROOT, functions, tree

PAGE = (ROOT / "ARCHITECTURE.md").read_text()
MAX_HOPS = 8
ROW = re.compile(r"^\| (\d*) ?\| `(coordinatord/[^`]+)` \| `([^`]+)` \|", re.M)
WALKS = {
    title: ROW.findall(text) for title, text in re.findall(r"^### An? (\w+)\n(.*?)(?=^### |\Z)", PAGE, re.M | re.S)
}
ROOMS = re.findall(r"^\| `((?:coordinatord|protocol)/\w+)/` \|", PAGE, re.M)


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


def test_there_are_three_walks() -> None:
    assert WALKS.keys() == {"heartbeat", "JoinGroup", "OffsetCommit"}
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


def test_each_room_is_on_the_map() -> None:
    rooms = {
        f"coordinatord/{path.name}"
        for path in PACKAGES["coordinatord"].iterdir()
        if path.is_dir() and (path / "__init__.py").exists()
    }
    assert set(ROOMS) == rooms | {"protocol/kafka_wire"}


def test_each_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (ROOT / target).exists(), target

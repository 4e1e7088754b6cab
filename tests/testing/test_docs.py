"""docs/testing.md says what is so: its recipes are the tests that run, its names are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coordinatord.testing import Group, Kafka

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text()
RECIPES = (ROOT / "tests" / "clients" / "test_recipes.py").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
FIRST, *OTHERS = BLOCKS

pytest_plugins = ("pytester",)


def test_there_are_recipes() -> None:
    assert len(OTHERS) >= 10


@pytest.mark.parametrize("block", OTHERS, ids=lambda block: re.search(r"def (\w+)", block)[1])
def test_each_recipe_is_a_test_that_runs(block: str) -> None:
    assert f"\n{block}" in RECIPES


def test_the_first_example_runs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FIRST)
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "ignore").assert_outcomes(passed=1)


def test_each_method_that_it_names_is_there() -> None:
    for name in re.findall(r"`kafka\.(\w+)\(", PAGE) + re.findall(r"kafka\.(\w+)", FIRST):
        assert hasattr(Kafka, name), name
    for name in re.findall(r"`(?:with )?group\.(\w+)\(", PAGE):
        assert hasattr(Group, name), name


def test_each_fault_is_there() -> None:
    rows = re.findall(r"^\| `(\w+)\(.*\)` \|", PAGE.partition("## Faults")[2].partition("\n## ")[0], re.M)
    assert {"fail", "delay", "hold", "drop", "disconnect", "duplicate", "blackhole"} == set(rows)
    assert all(hasattr(Kafka, name) for name in rows)


def test_each_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target

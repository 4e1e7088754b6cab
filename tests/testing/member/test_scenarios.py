"""The scenario files of scenarios/, played; story.py says how to read and write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scenario_files import check
from tests.testing.member.story import Story

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    check(path, Story(), request)


def test_there_are_scenarios_and_each_says_what_it_is_about() -> None:
    assert len(SCENARIOS) >= 10
    assert all(path.read_text().startswith("# ") for path in SCENARIOS)

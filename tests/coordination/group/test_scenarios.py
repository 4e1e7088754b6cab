"""The scenario files of scenarios/, played; story.py defines their verbs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.coordination.group.story import Story
from tests.support.scenario_files import check

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    check(path, Story(), request)

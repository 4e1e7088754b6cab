"""The scenario files of scenarios/, played; story.py says how to read and write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.group.story import Story

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


def replayed(text: str) -> str:
    """The scenario with the outputs that it has now. Blocks are separated by blank lines."""
    story = Story()
    blocks = []
    for block in text.strip().split("\n\n"):
        lines = block.splitlines()
        sent = lines[: lines.index("----")] if "----" in lines else lines
        if all(line.startswith("#") for line in sent):
            blocks.append(block)
        else:
            blocks.append("\n".join([*sent, "----", *story.play(sent)]))
    return "\n\n".join(blocks) + "\n"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    expected = path.read_text()
    actual = replayed(expected)
    if request.config.getoption("--rewrite", default=False):
        path.write_text(actual)
    else:
        assert actual == expected


def test_there_are_scenarios_and_each_says_what_it_is_about() -> None:
    assert len(SCENARIOS) >= 10
    assert all(path.read_text().startswith("# ") for path in SCENARIOS)

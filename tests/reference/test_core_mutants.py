"""Each mistake in the core of consumer groups is shown by a story that Kafka has told (core_mutants.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinatord.testing.conform.story import FOLDER, StoryError, parse
from tests.reference.core_mutants import MUTANTS, mistaken
from tests.reference.in_process import run
from tests.reference.record import play_in_process

pytestmark = pytest.mark.interpreted


@pytest.mark.parametrize("name", MUTANTS)
def test_a_story_shows_the_mistake(name: str, tmp_path: Path) -> None:
    mutant = MUTANTS[name]
    story = parse(FOLDER / f"{mutant.story}.txt")
    with mistaken(mutant):
        try:
            played = story.rendered(run(play_in_process(story, tmp_path)), ours=True)
        except (AssertionError, StoryError):
            return  # the group is in a state that it cannot be in, or a later request needs what did not come
    assert played != story.path.read_text()

"""The recordings of the stories are still what Kafka says: all of them, played on a live broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.record import but_for_a_second, play_on_kafka
from tests.reference.story import Story, all_stories

pytestmark = [pytest.mark.reference, pytest.mark.alone]


def differing(stories: list[Story]) -> list[Story]:
    """The stories to which Kafka gives other answers now than those recorded."""
    results = play_on_kafka(stories)
    return [
        story
        for story in stories
        if story.rendered(but_for_a_second(story, results[story.name])) != story.path.read_text()
    ]


@pytest.mark.timeout(900)
def test_kafka_answers_as_recorded(kafka_libs: Path) -> None:
    suspects = differing([story for story in all_stories() if not story.slow])
    # Many are played at once, and on a machine that is busy a request can overtake one that was sent before it on
    # another connection. Played by themselves they tell what Kafka does.
    changed = [story.name for story in suspects if differing([story])]
    assert changed == [], "see what changed: python -m tests.reference.record " + " ".join(changed)

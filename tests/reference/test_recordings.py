"""The recordings of the stories are still what Kafka says: all of them, played on a live broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.record import but_for_a_second, play_on_kafka
from tests.reference.story import all_stories

pytestmark = [pytest.mark.reference, pytest.mark.slow]


@pytest.mark.timeout(900)
def test_kafka_answers_as_recorded(kafka_libs: Path) -> None:
    stories = all_stories()
    results = play_on_kafka(stories)
    changed = []
    for story in stories:
        played = but_for_a_second(story, results[story.name])
        if story.rendered(played) != story.path.read_text():
            changed.append(story.name)
    assert changed == [], "see what changed: python -m tests.reference.record " + " ".join(changed)

"""The recordings of the stories are still what Kafka says: all of them, played on a live broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.record import play_on_kafka
from tests.reference.story import all_stories

pytestmark = [pytest.mark.reference, pytest.mark.slow]


@pytest.mark.timeout(900)
def test_kafka_answers_as_recorded(kafka_libs: Path) -> None:
    stories = all_stories()
    results = play_on_kafka(stories)
    changed = [story.name for story in stories if story.rendered(results[story.name]) != story.path.read_text()]
    assert changed == [], "see what changed: python -m tests.reference.record " + " ".join(changed)

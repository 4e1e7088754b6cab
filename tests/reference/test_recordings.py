"""The recordings of the stories are still what Kafka says, played on a live broker.

The gate plays a quarter of them, on the brokers of a third of the settings that stories ask for, and what the last
commit has changed; `.ci/run all` plays all of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinatord.conform.story import Story, all_stories
from tests import again, shares
from tests.reference.record import but_for_a_second, by_settings, play_on_kafka

pytestmark = [pytest.mark.reference, pytest.mark.alone]


def differing(stories: list[Story]) -> list[Story]:
    """The stories to which Kafka gives other answers now than those recorded."""
    results = play_on_kafka(stories)
    return [
        story
        for story in stories
        if not results[story.name]
        or story.rendered(but_for_a_second(story, results[story.name])) != story.path.read_text()
    ]


def chosen() -> list[Story]:
    """This commit's share."""
    common, *special = sorted(
        (members for _, members in by_settings([story for story in all_stories() if not story.slow])), key=len
    )[::-1]
    share = shares.chosen(common, 8) + [story for members in shares.chosen(special, 6) for story in members]
    touched = shares.changed(all_stories()[0].path.parent)
    return share + [story for story in all_stories() if story.path in touched and story not in share and not story.slow]


@pytest.mark.timeout(3600)
def test_kafka_answers_as_recorded(kafka_libs: Path, record_property: again.Record) -> None:
    stories = chosen()
    suspects = differing(stories)
    # Many are played at once, and on a machine that is busy a request can overtake one that was sent before it on
    # another connection. Played by themselves they tell what Kafka does; one that a pause of the machine has hit there,
    # too, is played once more.
    alone = [story for story in suspects if differing([story])]
    changed = [story.name for story in alone if differing([story])]
    failures = {story.name: (story in alone) + (story.name in changed) for story in suspects}
    again.tell(record_property, "recorded stories", len(stories), failures, tries=2)
    assert not again.too_many(len(stories), [story.name for story in alone]), failures
    assert changed == [], "see what changed: python -m tests.reference.record " + " ".join(changed)

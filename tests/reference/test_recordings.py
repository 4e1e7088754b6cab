"""The recorded answers of the stories beside those of a running Kafka."""

from __future__ import annotations

import pytest

from coordinatord.testing.conform.story import Story, all_stories
from tests.reference.record import but_for_a_second, play_on_kafka
from tests.support.rows import selected

pytestmark = [pytest.mark.reference, pytest.mark.recordings, pytest.mark.alone, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def answers(request: pytest.FixtureRequest, kafka_libs: object) -> dict[str, list[list[str]]]:
    """Kafka's answers to the stories that this run selects, which are played side by side."""
    return play_on_kafka([row["story"] for row in selected(request.session, test_kafka_answers_as_recorded)])


@pytest.mark.parametrize("story", [each for each in all_stories() if not each.slow], ids=lambda story: story.name)
def test_kafka_answers_as_recorded(story: Story, answers: dict[str, list[list[str]]]) -> None:
    """After an intended change: `python -m tests.reference.record STORY`."""
    played = answers[story.name]
    assert played
    assert story.rendered(but_for_a_second(story, played)) == story.path.read_text()

"""Stories, replayed: our daemon answers what Kafka answered when they were recorded. Needs neither Java nor Kafka.

How stories are written and recorded: story.py and record.py.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from coordinatord.testing.conform.story import Story, all_stories
from tests.reference import differences
from tests.reference.in_process import run
from tests.reference.record import play_in_process

STORIES = all_stories()


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_we_answer_what_kafka_answered(story: Story, tmp_path: Path) -> None:
    results = run(play_in_process(story, tmp_path))
    told, played = story.path.read_text(), story.rendered(results, ours=True)
    lines = difflib.unified_diff(told.splitlines(), played.splitlines(), "Kafka", "coordinatord", lineterm="", n=6)
    assert told == played, "\n" + "\n".join(lines)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_story_is_complete(story: Story) -> None:
    answered = [step for step in story.steps if step.is_answered]
    assert answered
    assert story.path.read_text().startswith("# "), "a story begins by saying what it is about"
    assert [step.line for step in answered if not step.recorded] == [], "record it"
    for step in answered:
        if step.reason:
            assert step.ours not in ([], step.recorded), f"line {step.line}: what is not different needs no reason"


def test_the_list_of_differences_is_current() -> None:
    assert differences.LIST.read_text() == differences.text(STORIES), "python -m tests.reference.differences"

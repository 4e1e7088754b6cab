"""A story names each setting that its answers depend on: a broker with another value is not asked, or answers alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinatord.testing.conform.selection import COMMON, KAFKA_DEFAULTS, Broker, why_not
from coordinatord.testing.conform.story import Story, all_stories
from kafka_wire.api_key import ApiKey
from tests.reference.in_process import run
from tests.reference.record import play_in_process

OTHERS = {
    "auto.create.topics.enable": ["false"],
    "group.consumer.assignment.interval.ms": ["0", "10000"],
    "group.consumer.assignors": ["range", "range,uniform"],
    "group.consumer.heartbeat.interval.ms": ["6000"],
    "group.consumer.max.size": ["100"],
    "group.consumer.migration.policy": ["disabled", "upgrade", "downgrade"],
    "group.consumer.min.session.timeout.ms": ["40000"],
    "group.consumer.session.timeout.ms": ["50000"],
    "group.max.size": ["100"],
    "group.min.session.timeout.ms": ["1000"],
    "num.partitions": ["3"],
    "offset.metadata.max.bytes": ["5000"],
    "offsets.retention.check.interval.ms": ["60000"],
    "offsets.topic.num.partitions": ["50"],
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": ["5000"],
}
"""What users set, and to what."""


def _cases() -> list[tuple[str, str, Story]]:
    """Each story with each value of a setting that it does not name, where it is played on a broker with that value."""
    versions = dict.fromkeys(ApiKey, (0, 99))
    found = []
    for story in all_stories():
        for name, values in OTHERS.items():
            for value in values:
                broker = Broker({**COMMON, **KAFKA_DEFAULTS, **story.settings, name: value}, versions, is_own=True)
                if name not in story.settings and not why_not(story, broker, is_slow_wanted=True):
                    found.append((name, value, story))
    return found


def _is_as_recorded(name: str, value: str, story: Story, directory: Path) -> bool:
    played = run(play_in_process(story, directory, **{name: value}))
    return story.rendered(played, ours=True) == story.path.read_text()


@pytest.mark.parametrize(("name", "value", "story"), _cases()[::50], ids=lambda each: getattr(each, "name", each))
def test_a_story_that_is_played_depends_on_no_other_setting(
    name: str, value: str, story: Story, tmp_path: Path
) -> None:
    assert _is_as_recorded(name, value, story, tmp_path)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_no_story_depends_on_a_setting_that_it_does_not_name(tmp_path: Path) -> None:
    depending = [
        f"{story.name} with {name}={value}"
        for number, (name, value, story) in enumerate(_cases())
        if not _is_as_recorded(name, value, story, tmp_path / str(number))
    ]
    assert not depending

"""Which stories a broker can be asked, and what each of them is about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from coordinatord.testing.conform.categories import CHAPTERS, chapter_of
from coordinatord.testing.conform.selection import Broker, by_settings, to_start_with, why_not
from coordinatord.testing.conform.story import Step, Story, all_stories
from kafka_wire.api_key import ApiKey

STORIES = all_stories()
ALL_VERSIONS = dict.fromkeys(ApiKey, (0, 99))
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


def story(*requests: tuple[str, int], **settings: str) -> Story:
    made = Story("told", Path("told.txt"), settings={name.replace("_", "."): value for name, value in settings.items()})
    made.parts = [Step(number, ":", "", "A", api, version) for number, (api, version) in enumerate(requests)]
    return made


def reason(told: Story, broker: Broker, *, is_slow_wanted: bool = False) -> str:
    return why_not(told, broker, is_slow_wanted=is_slow_wanted)


@pytest.mark.parametrize("name", [story.name for story in STORIES])
def test_each_story_has_a_chapter(name: str) -> None:
    assert chapter_of(name).title


def test_each_chapter_has_stories() -> None:
    assert {chapter_of(story.name).title for story in STORIES} == {chapter.title for chapter in CHAPTERS}


def test_a_story_without_a_chapter_is_named() -> None:
    with pytest.raises(LookupError, match="no chapter has the story tale_of_two"):
        chapter_of("tale_of_two")


def test_a_broker_with_the_settings_and_apis_of_a_story_is_asked() -> None:
    assert reason(story(("JoinGroup", 9)), Broker(SETTINGS, ALL_VERSIONS)) == ""


def test_settings_that_differ_and_settings_that_are_not_told() -> None:
    told = story(("JoinGroup", 9), group_max_size="2")
    broker = Broker({**SETTINGS, "group.max.size": "2147483647"}, ALL_VERSIONS)
    assert reason(told, broker) == "needs group.max.size=2; the broker has 2147483647"
    assert "--assume group.max.size=2" in reason(told, Broker(SETTINGS, ALL_VERSIONS))
    assert reason(told, Broker({**SETTINGS, "group.max.size": "2"}, ALL_VERSIONS)) == ""


def test_a_list_may_have_more_than_the_story_needs() -> None:
    told = story(("JoinGroup", 9), group_coordinator_rebalance_protocols="classic,consumer")
    name = "group.coordinator.rebalance.protocols"
    assert reason(told, Broker({**SETTINGS, name: "consumer, classic,streams"}, ALL_VERSIONS)) == ""
    assert "the broker has classic" in reason(told, Broker({**SETTINGS, name: "classic"}, ALL_VERSIONS))


def test_share_groups_are_there_if_their_apis_are() -> None:
    """Kafka's setting of protocols does not name them."""
    told = story(("ShareGroupHeartbeat", 1), group_coordinator_rebalance_protocols="classic,consumer,share")
    broker = Broker({**SETTINGS, "group.coordinator.rebalance.protocols": "classic,consumer,streams"}, ALL_VERSIONS)
    assert reason(told, broker) == ""
    versions = {key: each for key, each in ALL_VERSIONS.items() if key != ApiKey.SHARE_GROUP_HEARTBEAT}
    assert reason(told, replace(broker, versions=versions)) == "the broker does not serve ShareGroupHeartbeat v1"
    slow = {**broker.settings, "group.share.heartbeat.interval.ms": "7000"}
    assert "the broker has 7000" in reason(told, replace(broker, settings=slow))


def test_a_version_that_the_broker_does_not_serve() -> None:
    told = story(("JoinGroup", 2), ("ConsumerGroupHeartbeat", 1))
    versions = {**ALL_VERSIONS, ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 0)}
    assert reason(told, Broker(SETTINGS, versions)) == "the broker does not serve ConsumerGroupHeartbeat v1"
    del versions[ApiKey.CONSUMER_GROUP_HEARTBEAT]
    assert reason(told, Broker(SETTINGS, versions)) == "the broker does not serve ConsumerGroupHeartbeat v1"


def test_a_version_that_nobody_serves_is_what_a_story_is_about() -> None:
    assert reason(story(("Heartbeat", 77)), Broker(SETTINGS, {})) == ""


def test_slow_stories_and_those_that_want_a_broker_of_their_own() -> None:
    slow, alone = replace(story(("Heartbeat", 0)), slow=True), replace(story(("Heartbeat", 0)), alone=True)
    broker = Broker(SETTINGS, ALL_VERSIONS)
    assert "--slow" in reason(slow, broker)
    assert reason(slow, broker, is_slow_wanted=True) == ""
    assert "--start" in reason(alone, broker)
    assert reason(alone, replace(broker, is_own=True)) == ""


def test_stories_share_a_broker_unless_their_settings_differ_or_one_is_to_be_alone() -> None:
    groups = by_settings(STORIES)
    assert sum(len(members) for _settings, members in groups) == len(STORIES)
    for settings, members in groups:
        assert all(to_start_with(member) == settings for member in members)
        assert len(members) == 1 or not any(member.alone for member in members)
    assert len(groups[0][1]) == max(len(members) for _settings, members in groups)

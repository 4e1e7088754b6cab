"""The hashes by which groups of the consumer protocol know that a topic has changed; recorded from Kafka."""

from __future__ import annotations

from coordinatord.group.consumer.topics import group_hash, topic_hash
from tests.group.topic_hashes import RECORDED, RECORDED_SEEDS, groups


def test_hashes_are_kafkas() -> None:
    for group, recorded in zip(groups(RECORDED_SEEDS), RECORDED, strict=True):
        hashes = {case.name: topic_hash(*case) for case in group}
        assert [*hashes.values(), group_hash(hashes)] == recorded


def test_a_group_without_topics_has_none() -> None:
    assert group_hash({}) == 0

"""The hash of a group's topics is Kafka's, and tells what matters apart."""

from __future__ import annotations

from coordinatord.coordination.group.consumer.metadata_hash import NO_TOPICS, group_hash, topic_hash
from tests.coordination.group.consumer.hash_cases import ours, recorded

ID = bytes(range(16))


def test_recorded_hashes_of_kafka() -> None:
    cases = recorded()
    assert sum(len(asked) for asked, _ in cases) > 60
    for asked, answered in cases:
        assert ours(asked) == answered


def test_a_group_without_topics_has_no_hash() -> None:
    assert group_hash({}) == NO_TOPICS == 0


def test_the_order_of_topics_and_of_replicas_does_not_count() -> None:
    assert group_hash({"a": 1, "b": -2}) == group_hash({"b": -2, "a": 1}) != group_hash({"a": -2, "b": 1})
    assert topic_hash(ID, "t", [["b", "a"]]) == topic_hash(ID, "t", [["a", "b"]])


def test_what_changes_the_hash() -> None:
    hashes = {
        topic_hash(ID, "t", [["a"]]),
        topic_hash(ID[::-1], "t", [["a"]]),
        topic_hash(ID, "u", [["a"]]),
        topic_hash(ID, "t", [["a"], ["a"]]),
        topic_hash(ID, "t", [["b"]]),
        topic_hash(ID, "t", [["a", "a"]]),
        topic_hash(ID, "t", [[]]),
        topic_hash(ID, "t", [["aa"]]),
    }
    assert len(hashes) == 8

"""The assignors give what Kafka's give: recorded answers of the Java classes, and cases that one can read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coordinatord.testing.member.assignors import ASSIGNORS, java_hash
from coordinatord.testing.member.assignors.base import AssignmentError, Assignor, Subscription
from coordinatord.testing.member.assignors.java_hash import string_order
from coordinatord.testing.member.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from coordinatord.testing.member.subscription import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kafka_wire.errors import DecodeError
from kafka_wire.java import string_hash
from tests.testing.member.assignor_cases import RECORDED, History, decoded, ours


def recorded() -> list[tuple[dict[str, Any], dict[str, str]]]:
    """Questions with Kafka's answers."""
    return [(asked, answered) for asked, answered in map(json.loads, RECORDED.read_text().splitlines())]


@pytest.mark.parametrize("name", ASSIGNORS)
def test_recorded_answers_of_kafka(name: str) -> None:
    cases = [(asked, answered) for asked, answered in recorded() if asked["assignor"] == name]
    assert len(cases) >= 30
    for asked, answered in cases:
        assert ours(asked) == answered


def test_some_answers_depend_on_the_order_of_javas_hash_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the recordings would not show whether we keep to it."""
    monkeypatch.setattr(java_hash, "STRINGS", java_hash.STRINGS._replace(spread=lambda text: -len(text) & 0xFFFF))
    differing = {asked["assignor"] for asked, answered in recorded() if ours(asked) != answered}
    assert {"range", "sticky"} <= differing


def test_hashes_are_javas() -> None:
    assert [string_hash(text) for text in ("", "Aa", "BB", "hello")] == [0, 2112, 2112, 99_162_322]
    assert string_order(["b", "a", "q"]) == ["a", "q", "b"]  # 97, 113 and 98, in sixteen buckets


def members(**topics: list[str]) -> dict[str, Subscription]:
    return {member_id: Subscription(each) for member_id, each in topics.items()}


def assigned(assignor: Assignor, sizes: Mapping[str, int], subscriptions: dict[str, Subscription]) -> dict[str, Any]:
    topics = {topic: [frozenset[str]()] * size for topic, size in sizes.items()}
    return {
        member_id: [f"{topic}{partition}" for topic, partition in partitions]
        for member_id, partitions in assignor.assign(topics, subscriptions).items()
    }


def test_range_and_roundrobin_as_the_article_has_them() -> None:
    """Four partitions, three consumers; the article gives the last consumer of range one more, Kafka the first."""
    group = members(c0=["p"], c1=["p"], c2=["p"])
    assert assigned(ASSIGNORS["range"](), {"p": 4}, group) == {"c0": ["p0", "p1"], "c1": ["p2"], "c2": ["p3"]}
    assert assigned(ASSIGNORS["roundrobin"](), {"p": 4}, group) == {"c0": ["p0", "p3"], "c1": ["p1"], "c2": ["p2"]}


def test_static_members_come_first_in_order_of_their_instance_ids() -> None:
    group = members(a=["p"], z1=["p"], z2=["p"])
    group["z1"].group_instance_id, group["z2"].group_instance_id = "i2", "i1"
    assert assigned(ASSIGNORS["range"](), {"p": 3}, group) == {"z2": ["p0"], "z1": ["p1"], "a": ["p2"]}


def test_range_prefers_partitions_in_the_members_rack() -> None:
    group = {"m1": Subscription(["p"], rack_id="a"), "m2": Subscription(["p"], rack_id="b")}
    topics = {"p": [frozenset({"b"}), frozenset({"a"})]}
    assert ASSIGNORS["range"]().assign(topics, group) == {"m1": [("p", 1)], "m2": [("p", 0)]}


def test_cooperative_sticky_withholds_what_another_member_must_give_up_first() -> None:
    all_four = [("p", number) for number in range(4)]
    group = {"old": Subscription(["p"], owned_partitions=all_four, generation_id=1), "new": Subscription(["p"])}
    assert assigned(CooperativeStickyAssignor(), {"p": 4}, group) == {"old": ["p0", "p1"], "new": []}
    group["old"].owned_partitions, group["old"].generation_id = all_four[:2], 2
    assert assigned(CooperativeStickyAssignor(), {"p": 4}, group) == {"old": ["p0", "p1"], "new": ["p2", "p3"]}


def test_sticky_remembers_what_it_was_assigned() -> None:
    assignor = StickyAssignor()
    assert assignor.subscription_user_data(()) is None
    assignor.on_assignment([("p", 1), ("o", 0), ("p", 0)], 5)
    subscription = Subscription(["p"], user_data=assignor.subscription_user_data(()))
    assert assignor.owned(subscription) == ([("p", 1), ("p", 0), ("o", 0)], 5)
    assert assignor.owned(Subscription(["p"], user_data=b"")) == ([], None)
    assert assignor.owned(Subscription(["p"], user_data=b"\x00\x00\x00\x07?")) == ([], -1)
    before_generations = Subscription(["p"], user_data=subscription.user_data[:-4] if subscription.user_data else b"")
    assert assignor.owned(before_generations) == ([("p", 1), ("p", 0), ("o", 0)], None)


def test_an_owner_of_what_does_not_exist_any_more() -> None:
    """Kafka's walk over two lists loses its place then, and there is more to give away than anybody may have."""
    group = {
        "m": Subscription(["p"], owned_partitions=[("p", 5)], generation_id=1),
        "n": Subscription(["p"], generation_id=1),
    }
    with pytest.raises(AssignmentError):
        CooperativeStickyAssignor().assign({"p": [frozenset()]}, group)
    [(_, answered)] = [(asked, answered) for asked, answered in recorded() if "error" in answered]
    assert answered == {"error": "IllegalStateException"}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from(sorted(ASSIGNORS)))
@example(18536, "cooperative-sticky")  # who had a partition has all that it may have, of other topics
def test_every_partition_has_one_owner_and_members_get_what_they_subscribe_to(seed: int, name: str) -> None:
    history = History(seed, name)
    for _ in range(4):
        asked = history.step()
        assignment = decoded(ours(asked))
        given_out = [partition for partitions in assignment.values() for partition in partitions]
        assert len(given_out) == len(set(given_out))
        topics_of = {member.member_id: set(member.topics) for member in history.members}
        for member in history.members:
            unasked = {each for each in assignment[member.member_id] if each[0] not in member.topics}
            # Kafka's sticky assignors give back to a member that missed a rebalance what it does not subscribe to now.
            assert unasked <= (set(member.owned) if member.generation_id < history.generation_id else set())
        wanted = {
            (topic, number)
            for topic, partitions in history.topics.items()
            for number in range(len(partitions))
            if any(topic in topics for topics in topics_of.values())
        }
        if name == "cooperative-sticky":
            owned = {partition for member in history.members for partition in member.owned}
            assert wanted - set(given_out) <= owned
        else:
            assert set(given_out) == wanted
        history.learn(assignment)


def test_subscriptions_of_other_versions() -> None:
    data = encode_subscription(["t", "a"], b"u", [("t", 1), ("a", 0), ("t", 0)], 7, "r")
    assert decode_subscription(data) == Subscription(["a", "t"], b"u", [("a", 0), ("t", 0), ("t", 1)], 7, "r")
    version_0 = b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"
    assert decode_subscription(version_0) == Subscription(["t"])
    assert decode_subscription(b"\x00\x09" + data[2:]) == decode_subscription(data), "a later version is read as ours"
    for broken in (b"", b"\x00", b"\xff\xff" + data[2:], data[:-1]):
        with pytest.raises(DecodeError):
            decode_subscription(broken)


def test_assignments_keep_their_order() -> None:
    partitions = [("t", 3), ("t", 1), ("a", 0)]
    assert decode_assignment(encode_assignment(partitions)) == partitions
    with pytest.raises(DecodeError):
        decode_assignment(b"")

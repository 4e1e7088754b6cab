"""The vote for a protocol, decided as Kafka's Java code decides it; and what is read of subscriptions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinatord.coordination.group.classic.protocol_selection import in_hash_map_order
from coordinatord.coordination.group.classic.subscription import topics_of
from kafka_wire.codecs import encoder
from kafka_wire.records.consumer import ConsumerProtocolSubscription, TopicPartition
from tests.coordination.group.world import World, subscription


def chosen(*preferences: str) -> str:
    """The protocol of a group whose members' preferences are given as "a b c"."""
    world = World()
    parked = [world.enter(protocols=dict.fromkeys(names.split(), b""))[1] for names in preferences]
    world.advance(6_000)
    return str(world.answers[parked[0]].protocol_name)


@pytest.mark.parametrize(
    ("preferences", "winner"),
    [
        (["range"], "range"),
        (["range roundrobin", "roundrobin range", "roundrobin range"], "roundrobin"),
        (["range roundrobin", "roundrobin"], "roundrobin"),
        (["x range", "y range", "z range"], "range"),  # only what all support counts
        (["range sticky", "sticky range"], "sticky"),  # a tie, decided by how Java hashes the names
        (["sticky range", "range sticky"], "sticky"),
        (["roundrobin range", "range roundrobin"], "range"),
        (["cooperative-sticky sticky", "sticky cooperative-sticky"], "sticky"),
        (["range cooperative-sticky", "cooperative-sticky range"], "range"),
    ],
)
def test_most_votes_win(preferences: list[str], winner: str) -> None:
    assert chosen(*preferences) == winner


@pytest.mark.parametrize(
    ("put", "iterated"),
    [
        ("sticky roundrobin range", "sticky range roundrobin"),
        ("roundrobin range sticky cooperative-sticky", "sticky range roundrobin cooperative-sticky"),
        ("Aa BB x", "Aa BB x"),  # Aa and BB have the same hash
        (
            "a b c d e f g h i j k l m range sticky roundrobin",  # more than 12: the table has grown
            "a b c d e f g h i range j roundrobin k l m sticky",
        ),
        (
            "streams copartitioned_range uniform sticky compatible sessioned eager",
            "uniform compatible copartitioned_range eager streams sticky sessioned",
        ),
    ],
)
def test_names_come_as_a_java_hash_map_gives_them(put: str, iterated: str) -> None:
    """The right-hand sides are what java.util.HashMap of OpenJDK 17 printed."""
    assert in_hash_map_order(put.split()) == iterated.split()


@given(st.lists(st.text(max_size=5), max_size=30, unique=True))
def test_it_is_an_order(names: list[str]) -> None:
    assert sorted(in_hash_map_order(names)) == sorted(names)


@given(
    version=st.integers(0, 3),
    topics=st.lists(st.text(st.characters(codec="utf-8"), max_size=10), max_size=5),
    user_data=st.none() | st.binary(max_size=10),
)
def test_topics_are_read_from_every_version(version: int, topics: list[str], user_data: bytes | None) -> None:
    out = bytearray(version.to_bytes(2, "big"))
    value = ConsumerProtocolSubscription(topics, user_data, [TopicPartition("t", [1])] if version else [])
    encoder(ConsumerProtocolSubscription, version)(value, out)
    assert topics_of(bytes(out)) == topics


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_not(metadata: bytes) -> None:
    topics_of(metadata)


def test_a_cut_subscription_is_not_read() -> None:
    whole = subscription("topic", "other")
    assert topics_of(whole) == ["topic", "other"]
    assert all(topics_of(whole[:length]) is None for length in range(len(whole)))

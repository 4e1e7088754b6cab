"""Kafka's SimpleAssignor: recorded answers of its class, and its rules in our words."""

from __future__ import annotations

from collections import Counter

import pytest

from coordinatord.coordination.group.consumer.assignors.spec import Assignment, GroupSpec, MemberSpec
from coordinatord.coordination.group.share import simple
from tests.coordination.group.consumer.groups import Topics
from tests.coordination.group.share.assignor_cases import ours, recorded, run

A, B = bytes(15) + b"a", bytes(15) + b"b"


def shared_out(
    subscriptions: list[set[bytes]], topics: dict[bytes, int], before: Assignment | None = None
) -> Assignment:
    """The assignment of members m0, m1 …; they have no partitions before."""
    members = {
        f"m{place}": MemberSpec(None, None, frozenset(each), (before or {}).get(f"m{place}", {}))
        for place, each in enumerate(subscriptions)
    }
    is_homogeneous = len(set(map(frozenset, subscriptions))) == 1
    return run(simple.NAME, GroupSpec(members, is_homogeneous), Topics(topics))


def test_recorded_answers_of_kafka() -> None:
    cases = recorded()
    assert len(cases) > 100
    for asked, answered in cases:
        assert ours(asked) == answered


@pytest.mark.parametrize(("members", "partitions"), [(1, 3), (3, 3), (2, 5), (5, 2), (7, 3), (200, 1)])
@pytest.mark.parametrize("is_homogeneous", [True, False])
def test_members_and_partitions_differ_by_one_at_most(members: int, partitions: int, is_homogeneous: bool) -> None:
    subscriptions = [{A}] * members if is_homogeneous else [{A}, *[{A, B}] * (members - 1)]
    result = shared_out(subscriptions, {A: partitions, B: 0})
    loads = [sum(map(len, topics.values())) for topics in result.values()]
    sharing = Counter((topic, each) for topics in result.values() for topic, held in topics.items() for each in held)
    assert sharing.keys() == {(A, each) for each in range(partitions)}
    assert max(loads) - min(loads) <= 1
    assert max(sharing.values()) <= -(-members // partitions)


def test_a_member_that_joins_moves_no_more_than_its_share() -> None:
    before = shared_out([{A}] * 2, {A: 6})
    after = shared_out([{A}] * 3, {A: 6}, before)
    assert len(after["m2"][A]) == 2
    assert after["m0"][A] < before["m0"][A]
    assert after["m1"][A] < before["m1"][A]


def test_partitions_without_state_are_not_assigned() -> None:
    spec = GroupSpec({"m": MemberSpec(None, None, frozenset({A}), {})}, True, assignable={A: frozenset({1})})
    assert run(simple.NAME, spec, Topics({A: 3})) == {"m": {A: {1}}}

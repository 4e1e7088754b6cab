"""Who gets which partitions: kafka-python's assignors, static members, wildcards, topics that grow."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import FencedInstanceIdError, InconsistentGroupProtocolError

from tests.clients.kinds import MakeMember, MakeTopic, Name, Produce
from tests.clients.members import (
    PATIENT_POLL_TIMEOUT_MS,
    Member,
    wait_for_assignment,
    wait_for_members,
    wait_for_values,
)

pytestmark = pytest.mark.clients

PARTITIONS = 6
# Long enough that nobody is expelled on a busy machine while a static member is away.
STATIC_SESSION_TIMEOUT_MS = 20_000


def protocol_of(admin: KafkaAdminClient, group: str) -> str:
    protocol: str = admin.describe_groups([group])[group]["protocol_data"]
    return protocol


@pytest.mark.parametrize(
    ("assignor", "protocol", "sizes"),
    [
        (RangePartitionAssignor, "range", [2, 4]),
        (RoundRobinPartitionAssignor, "roundrobin", [3, 3]),
        (StickyPartitionAssignor, "sticky", [3, 3]),
        (CooperativeStickyAssignor, "cooperative-sticky", [3, 3]),
    ],
)
def test_assignors(
    assignor: type[Any],
    protocol: str,
    sizes: list[int],
    admin: KafkaAdminClient,
    make_topic: MakeTopic,
    produce: Produce,
    member: MakeMember,
    name: Name,
) -> None:
    """Two topics of three partitions for two members: range gives 4 and 2, the others 3 and 3."""
    topics, group = [make_topic(3), make_topic(3)], name("group")
    members = [member(group, *topics, partition_assignment_strategy=[assignor]) for _ in range(2)]
    wait_for_assignment(members, PARTITIONS)
    assert sorted(len(each.assignment) for each in members) == sizes
    assert protocol_of(admin, group) == protocol
    values = [value for topic in topics for value in produce(topic, 30, 3)]
    wait_for_values(members, values)
    assert sorted(value for each in members for value in each.values) == sorted(values)


def test_sticky_members_keep_what_they_have(make_topic: MakeTopic, member: MakeMember, name: Name) -> None:
    topic, group = make_topic(PARTITIONS), name("group")
    strategy = [StickyPartitionAssignor]
    members = [member(group, topic, partition_assignment_strategy=strategy) for _ in range(2)]
    wait_for_assignment(members, PARTITIONS)
    before = [each.assignment for each in members]
    members.append(member(group, topic, partition_assignment_strategy=strategy))
    wait_for_assignment(members, PARTITIONS)
    assert [len(each.assignment) for each in members] == [2, 2, 2]
    assert all(each.assignment < had for each, had in zip(members, before, strict=False))


def test_cooperative_members_give_up_only_what_moves(
    make_topic: MakeTopic, produce: Produce, member: MakeMember, name: Name
) -> None:
    """The third member's two partitions are revoked from the others, in two rebalances; the rest is never let go."""
    topic, group = make_topic(PARTITIONS), name("group")
    strategy = [CooperativeStickyAssignor]
    members = [member(group, topic, partition_assignment_strategy=strategy) for _ in range(2)]
    wait_for_assignment(members, PARTITIONS)
    for each in members:
        each.revocations.clear()
    generation = members[0].generation
    members.append(member(group, topic, partition_assignment_strategy=strategy))
    # They may let go one after the other, each in a rebalance of its own.
    wait_for_members(
        members, lambda: [len(each.assignment) for each in members] == [2, 2, 2], "two partitions with each of three"
    )
    revoked = {tp for each in members for partitions in each.revocations for tp in partitions}
    assert revoked == members[2].assignment
    assert len(revoked) == 2
    # The first one's assignment stays the same, so it may hear of the last rebalance after the others.
    wait_for_members(members, lambda: members[0].generation >= generation + 2, "two rebalances")
    values = produce(topic, 60, PARTITIONS)
    wait_for_values(members, values)


def test_the_protocol_is_one_that_all_members_have(
    admin: KafkaAdminClient, make_topic: MakeTopic, member: MakeMember, name: Name
) -> None:
    topic, group = make_topic(2), name("group")
    first = member(group, topic, partition_assignment_strategy=[RangePartitionAssignor, RoundRobinPartitionAssignor])
    wait_for_assignment([first], 2)
    assert protocol_of(admin, group) == "range"
    second = member(group, topic, partition_assignment_strategy=[RoundRobinPartitionAssignor])
    wait_for_assignment([first, second], 2)
    assert protocol_of(admin, group) == "roundrobin"

    stranger = member(group, topic, partition_assignment_strategy=[StickyPartitionAssignor])
    stranger._thread.join(20)
    assert isinstance(stranger.problem, InconsistentGroupProtocolError)
    assert [first.generation, second.generation] == [first.generation] * 2


def test_a_static_member_restarts_without_a_rebalance(
    make_topic: MakeTopic, produce: Produce, member: MakeMember, name: Name
) -> None:
    """Leader and follower alike: the same partitions in the same generation, and the other one notices nothing."""
    topic, group = make_topic(4), name("group")
    settings = {"session_timeout_ms": STATIC_SESSION_TIMEOUT_MS}

    def static(number: int) -> Member:
        return member(group, topic, group_instance_id=f"instance-{number}", **settings)

    members = [static(0), static(1)]
    wait_for_assignment(members, 4)
    generation = members[0].generation
    values: list[bytes] = []
    for number in (0, 1):
        before, other = members[number], members[1 - number]
        rebalances_of_other = len(other.assignments)
        before.close()
        after = members[number] = static(number)
        wait_for_assignment(members, 4)
        assert after.assignment == before.assignment
        assert {after.generation, other.generation} == {generation}
        assert after.member_id != before.member_id
        assert len(other.assignments) == rebalances_of_other
        values = produce(topic, 40, 4)
        wait_for_values(members, values)


def test_the_elder_of_two_static_members_with_one_name_is_fenced(
    make_topic: MakeTopic, member: MakeMember, name: Name
) -> None:
    topic, group = make_topic(2), name("group")
    settings = {"group_instance_id": "the-one", "session_timeout_ms": STATIC_SESSION_TIMEOUT_MS}
    elder = member(group, topic, **settings)
    wait_for_assignment([elder], 2)
    younger = member(group, topic, **settings)
    wait_for_members([younger], lambda: len(younger.assignment) == 2, "the younger one's partitions")
    with pytest.raises(FencedInstanceIdError):
        elder.call(lambda consumer: consumer.commit(timeout_ms=30_000))
    assert younger.assignment == elder.assignment


def test_a_wildcard_subscription_finds_a_topic_that_comes_later(
    admin: KafkaAdminClient, make_topic: MakeTopic, produce: Produce, member: MakeMember, name: Name
) -> None:
    first = make_topic(2)
    prefix = first.removesuffix("1")
    # Without commits: it would try for minutes to commit for a topic that has been deleted.
    settings = {"metadata_max_age_ms": 400, "enable_auto_commit": False, "poll_timeout_ms": PATIENT_POLL_TIMEOUT_MS}
    reader = member(name("group"), pattern=f"^{prefix}.*", **settings)
    wait_for_assignment([reader], 2)
    second = make_topic(2)
    wait_for_assignment([reader], 4)
    wait_for_values([reader], produce(first, 20, 2) + produce(second, 20, 2))
    admin.delete_topics([second])
    wait_for_assignment([reader], 2)
    assert {tp.topic for tp in reader.assignment} == {first}


def test_new_partitions_of_a_topic_are_assigned(
    admin: KafkaAdminClient, make_topic: MakeTopic, produce: Produce, member: MakeMember, name: Name
) -> None:
    topic = make_topic(2)
    settings = {"metadata_max_age_ms": 400, "poll_timeout_ms": PATIENT_POLL_TIMEOUT_MS}
    members = [member(name("group"), topic, **settings) for _ in range(2)]
    wait_for_assignment(members, 2)
    admin.create_partitions({topic: 4})
    wait_for_assignment(members, 4)
    values = produce(topic, 40, 2)
    wait_for_values(members, values)


def test_a_changed_subscription_rebalances(
    make_topic: MakeTopic, produce: Produce, member: MakeMember, name: Name
) -> None:
    first, second = make_topic(2), make_topic(2)
    reader = member(name("group"), first, poll_timeout_ms=PATIENT_POLL_TIMEOUT_MS)
    wait_for_assignment([reader], 2)
    generation = reader.generation
    reader.call(lambda consumer: consumer.subscribe([first, second]))
    wait_for_assignment([reader], 4)
    assert reader.generation > generation
    wait_for_values([reader], produce(first, 20, 2) + produce(second, 20, 2))

"""Assignors of the application's own: registered by name, offered, and told what every member has to say."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import pytest

from coordinatord.testing.member.assignors import ASSIGNORS, register
from coordinatord.testing.member.assignors.base import Assignment, Assignor, Subscription, Topics
from coordinatord.testing.member.assignors.java_hash import TopicPartition
from coordinatord.testing.member.assignors.range import RangeAssignor
from coordinatord.testing.member.events import Rejoin
from coordinatord.testing.member.state import MemberSettings
from coordinatord.testing.member.subscription import decode_assignment, decode_subscription, encode_subscription
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupResponseMember
from kafka_wire.api.sync_group import SyncGroupRequest
from kafka_wire.errors import ErrorCode
from tests.testing.member.lab import GENERATION, MEMBER_ID, Lab


class Weighted(Assignor):
    """Everything to the member that offers most; it remembers what it was assigned."""

    name = "weighted"
    told: Mapping[str, Subscription]

    def __init__(self) -> None:
        self.assigned: tuple[Sequence[TopicPartition], int] | None = None

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        return f"{len(topics)} of {' '.join(sorted(topics))}".encode()

    def on_assignment(self, partitions: Sequence[TopicPartition], generation_id: int) -> None:
        self.assigned = (partitions, generation_id)

    def assign_partitions(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        Weighted.told = members
        winner = max(members, key=lambda each: members[each].user_data or b"")
        everything = [(topic, number) for topic, racks in topics.items() for number in range(len(racks))]
        return {each: everything if each == winner else [] for each in members}


class Broken(Weighted):
    name = "broken"

    def assign_partitions(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        raise KeyError("rack")


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    before = dict(ASSIGNORS)
    register(Weighted)
    register(Broken)
    yield
    ASSIGNORS.clear()
    ASSIGNORS.update(before)


def test_one_that_nobody_registered_is_refused_and_told_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"'sorted'.*range, roundrobin.*weighted.*or register it first"):
        MemberSettings("g", partition_assignment_strategy=("weighted", "sorted"))


def test_a_name_is_given_once() -> None:
    class Other(RangeAssignor):
        name = "weighted"

    register(Weighted)  # the same again
    with pytest.raises(ValueError, match="'weighted' is used in more than one assignor"):
        register(Other)
    with pytest.raises(ValueError, match="name each once"):
        MemberSettings("g", partition_assignment_strategy=("range", "weighted", "range"))


def test_one_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="has no name"):
        register(Assignor)


def test_every_member_sends_its_user_data_and_the_leaders_assignor_gets_them_all() -> None:
    lab = Lab({"t": 2, "u": 1}, partition_assignment_strategy=("weighted", "range")).preparing()
    [weighted, of_range] = lab.waiting(JoinGroupRequest)[0].request.protocols
    assert (weighted.name, of_range.name) == ("weighted", "range")
    assert decode_subscription(weighted.metadata).user_data == b"2 of t u"
    assert decode_subscription(of_range.metadata).user_data is None
    lab.poll(10_000)
    other = encode_subscription(["t"], b"9 of t", [], -1, None)
    members = [JoinGroupResponseMember(MEMBER_ID, None, weighted.metadata), JoinGroupResponseMember("z", None, other)]
    lab.join(leads=True, members=members)
    assert {name: each.user_data for name, each in Weighted.told.items()} == {MEMBER_ID: b"2 of t u", "z": b"9 of t"}
    given = {each.member_id: each.assignment for each in lab.waiting(SyncGroupRequest)[0].request.assignments}
    assert decode_assignment(given[MEMBER_ID]) == []
    assert sorted(decode_assignment(given["z"])) == [("t", 0), ("t", 1), ("u", 0)]
    lab.sync(("u", 0))
    own = lab.member.assignors["weighted"]
    assert isinstance(own, Weighted)
    assert own.assigned == ([("u", 0)], GENERATION)


def test_the_exception_of_an_assignor_is_the_applications_and_the_next_poll_tries_again() -> None:
    lab = Lab(partition_assignment_strategy=("broken",)).preparing()
    lab.poll(10_000)
    lab.join(leads=True)
    assert lab.polled[-1].error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert lab.polled[-1].what == "assignor broken: KeyError('rack')"
    lab.tell(Rejoin())
    lab.poll(10_000)
    assert "JoinGroup" in lab.names()

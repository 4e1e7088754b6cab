"""Groups as their coordinators describe them."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from coordinatord.monitoring.admin.groups import CLASSIC, Group, Member, describe, member_names
from kafka_wire.api import consumer_group_describe as consumer_groups
from kafka_wire.api import share_group_describe as share_groups
from kafka_wire.api import streams_group_describe as streams_groups
from kafka_wire.api.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kafka_wire.api.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kafka_wire.api.share_group_describe import ShareGroupDescribeRequest
from kafka_wire.api.streams_group_describe import StreamsGroupDescribeRequest
from kafka_wire.errors import ErrorCode

NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND


class Converting:
    """A cluster whose group becomes one of the consumer protocol when it has been asked about once."""

    def __init__(self, *, is_there: bool) -> None:
        self.asked: list[type[Any]] = []
        self.is_there = is_there

    def by_coordinator(self, groups: Iterable[str]) -> dict[int, list[str]]:
        return {0: list(groups)}

    def serves(self, _request: type[Any]) -> bool:
        return True

    def ask(self, request: Any, _node_id: int) -> Any:
        self.asked.append(type(request))
        if isinstance(request, DescribeGroupsRequest):
            return DescribeGroupsResponse(groups=[DescribedGroup(0, group_id="g", group_state="Dead")])
        if not isinstance(request, ConsumerGroupDescribeRequest):
            return ConsumerGroupDescribeResponse(groups=[consumer_groups.DescribedGroup(NOT_FOUND, group_id="g")])
        error = ErrorCode.NONE if self.is_there and len(self.asked) > 1 else ErrorCode.GROUP_ID_NOT_FOUND
        described = consumer_groups.DescribedGroup(error, group_id="g", group_state="Stable")
        return ConsumerGroupDescribeResponse(groups=[described])


def described(cluster: Converting) -> SimpleNamespace:
    it: Any = cluster
    return SimpleNamespace(groups=describe(it, ["g"]), asked=cluster.asked)


def test_a_group_that_is_upgraded_between_two_questions_is_there() -> None:
    found = described(Converting(is_there=True))
    assert found.groups["g"].state == "Stable"
    others = [ShareGroupDescribeRequest, StreamsGroupDescribeRequest]
    assert found.asked == [ConsumerGroupDescribeRequest, *others, DescribeGroupsRequest, ConsumerGroupDescribeRequest]


def test_one_that_is_not_there_is_left_out() -> None:
    assert described(Converting(is_there=False)).groups == {}


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (0, ""),
        (1, "c0 on h"),
        (5, "c0 on h, c1 on h, c2 on h, c3 on h, c4 on h"),
        (6, "c0 on h, c1 on h, c2 on h, c3 on h, c4 on h and 1 more"),
        (7, "c0 on h, c1 on h, c2 on h, c3 on h, c4 on h and 2 more"),
    ],
)
def test_members_beyond_the_fifth_are_counted(count: int, told: str) -> None:
    group = Group("g", CLASSIC, "Stable", "range", 0, "consumer")
    group.members.extend(Member(f"m{number}", None, f"c{number}", "/h", {}, []) for number in range(count))
    assert member_names(group) == told


def test_the_partitions_of_a_member_are_counted() -> None:
    assert Member("m", None, "c", "/h", {"orders": [0, 1, 4], "payments": [0]}, []).count == 4
    assert Member("m", None, "c", "/h", {}, []).count == 0


class Consuming(Converting):
    """A cluster with a group of the consumer protocol whose members subscribe by name, by expression, or to nothing."""

    def ask(self, request: Any, _node_id: int) -> Any:
        assert type(request) is ConsumerGroupDescribeRequest
        members = [
            consumer_groups.Member(f"m{number}", subscribed_topic_names=names, subscribed_topic_regex=regex)
            for number, (names, regex) in enumerate([(["a", "b"], None), ([], "a.*"), ([], None), ([], "")])
        ]
        return ConsumerGroupDescribeResponse(groups=[consumer_groups.DescribedGroup(group_id="g", members=members)])


def test_an_expression_stands_for_the_topics_of_a_member_without_names() -> None:
    found = described(Consuming(is_there=True))
    assert [member.topics for member in found.groups["g"].members] == [["a", "b"], ["a.*"], [], []]


class Streaming(Converting):
    """A cluster with a streams group of two subtopologies; the second one reads a repartition topic."""

    def ask(self, request: Any, _node_id: int) -> Any:
        if type(request) is not StreamsGroupDescribeRequest:
            answered = {ConsumerGroupDescribeRequest: ConsumerGroupDescribeResponse}.get(type(request))
            kind = consumer_groups.DescribedGroup if answered is not None else share_groups.DescribedGroup
            return (answered or share_groups.ShareGroupDescribeResponse)(
                groups=[kind(ErrorCode.GROUP_ID_NOT_FOUND, group_id="g")]
            )
        topology = streams_groups.Topology(
            1,
            [
                streams_groups.Subtopology("0", ["orders", "payments"]),
                streams_groups.Subtopology(
                    "1", [], repartition_source_topics=[streams_groups.TopicInfo("by-shop", 4, 1)]
                ),
            ],
        )
        tasks, warming = streams_groups.TaskIds("0", [1, 0]), streams_groups.TaskIds("1", [3])
        member = streams_groups.Member(
            "m",
            7,
            client_id="app-1",
            client_host="/127.0.0.1",
            assignment=streams_groups.Assignment([tasks], warmup_tasks=[warming]),
            target_assignment=streams_groups.Assignment([tasks, warming]),
        )
        group = streams_groups.DescribedGroup(0, None, "g", "Reconciling", 8, 8, topology, [member])
        return streams_groups.StreamsGroupDescribeResponse(groups=[group])


def test_a_member_of_a_streams_group_has_the_partitions_that_its_active_tasks_read() -> None:
    it: Any = Streaming(is_there=True)
    group = describe(it, ["g"])["g"]
    assert (group.kind, group.state, group.epoch) == ("streams", "Reconciling", 8)
    [member] = group.members
    assert (member.name, member.epoch) == ("app-1 on 127.0.0.1", 7)
    assert member.assigned == {"orders": [0, 1], "payments": [0, 1]}
    assert member.target == {"by-shop": [3], "orders": [0, 1], "payments": [0, 1]}
    assert member.topics == ["by-shop", "orders", "payments"]

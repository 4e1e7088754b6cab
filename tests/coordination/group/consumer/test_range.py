"""The server-side range assignor, by hand; `test_assignors.py` compares it with Kafka's."""

from __future__ import annotations

import pytest

from coordinatord.coordination.group.consumer.assignors import assign
from coordinatord.coordination.group.consumer.assignors.spec import PartitionAssignorError
from tests.coordination.group.consumer.groups import T1, T2, T3, Topics, group, member, shown


def test_topics_with_as_many_partitions_are_cut_alike() -> None:
    result = assign("range", group(a=member(T1, T2), b=member(T1, T2)), Topics({T1: 3, T2: 3}))
    assert shown(result) == {"a": {T1: [0, 1], T2: [0, 1]}, "b": {T1: [2], T2: [2]}}


def test_static_members_come_first_in_order_of_their_instance_ids() -> None:
    members = group(a=member(T1), b=member(T1, instance_id="2"), c=member(T1, instance_id="1"))
    assert shown(assign("range", members, Topics({T1: 4}))) == {"c": {T1: [0, 1]}, "b": {T1: [2]}, "a": {T1: [3]}}


def test_ids_are_compared_by_utf_16_units_as_java_does() -> None:
    late, early = "\uffff", "\U0001f600"
    result = assign("range", group(**{late: member(T1), early: member(T1)}), Topics({T1: 1}))
    assert shown(result) == {early: {T1: [0]}, late: {}}


def test_members_read_different_topics() -> None:
    members = group(a=member(T1, T2), b=member(T2), c=member())
    result = assign("range", members, Topics({T1: 2, T2: 3, T3: 9}))
    assert shown(result) == {"a": {T1: [0, 1], T2: [0, 1]}, "b": {T2: [2]}, "c": {}}


def test_an_empty_group_has_no_assignment() -> None:
    assert assign("range", group(), Topics({})) == {}


@pytest.mark.parametrize("other", [T1, T2])
def test_a_topic_that_does_not_exist_is_refused(other: bytes) -> None:
    with pytest.raises(PartitionAssignorError, match="non-existent topic"):
        assign("range", group(a=member(T1), b=member(other)), Topics({T2: 1}))

"""The uniform assignor, by hand; `test_assignors.py` compares it with Kafka's."""

from __future__ import annotations

import pytest

from coordinatord.coordination.group.consumer.assignors import assign
from coordinatord.coordination.group.consumer.assignors.spec import GroupSpec, MemberSpec, PartitionAssignorError
from coordinatord.coordination.group.consumer.java_collections.hash_map import STRINGS, _hash, collected
from coordinatord.coordination.group.consumer.java_collections.java_set import JavaSet
from tests.coordination.group.consumer.groups import T1, T2, T3, Topics, group, member, shown, topic_id
from tests.coordination.group.consumer.test_assignors import loads, sliced


def test_a_newcomer_gets_what_others_have_too_much() -> None:
    members = group(a=member(T1, assigned={T1: [0, 1, 2]}), b=member(T1, assigned={T1: [3, 4, 5]}), c=member(T1))
    result = assign("uniform", members, Topics({T1: 6}))
    assert shown(result) == {"a": {T1: [0, 1]}, "b": {T1: [3, 4]}, "c": {T1: [2, 5]}}


def test_who_has_an_extra_partition_keeps_it() -> None:
    members = group(a=member(T1, assigned={T1: [0]}), b=member(T1, assigned={T1: [1, 2]}), c=member(T1))
    assert shown(assign("uniform", members, Topics({T1: 4}))) == {"a": {T1: [0]}, "b": {T1: [1, 2]}, "c": {T1: [3]}}


def test_a_topic_that_nobody_reads_any_more_goes() -> None:
    members = group(a=member(T2, assigned={T1: [0], T2: [1]}), b=member(T2, assigned={T1: [1]}))
    assert shown(assign("uniform", members, Topics({T1: 2, T2: 2}))) == {"a": {T2: [1]}, "b": {T2: [0]}}


def test_readers_of_different_topics_are_balanced_where_they_overlap() -> None:
    members = group(a=member(T1, assigned={T1: [0, 1, 2, 3]}), b=member(T1, T2), c=member(T2, assigned={T2: [0]}))
    result = assign("uniform", members, Topics({T1: 4, T2: 1}))
    assert shown(result) == {"a": {T1: [0, 1]}, "b": {T1: [2, 3]}, "c": {T2: [0]}}


def test_a_group_that_reads_nothing_has_nothing() -> None:
    assert assign("uniform", group(a=member(assigned={T1: [0]})), Topics({T1: 1})) == {"a": {}}
    assert assign("uniform", GroupSpec({"a": member()}, False), Topics({})) == {"a": {}}
    assert assign("uniform", group(), Topics({})) == {}


@pytest.mark.parametrize("homogeneous", [True, False])
def test_a_topic_that_does_not_exist_is_refused(homogeneous: bool) -> None:
    with pytest.raises(PartitionAssignorError, match=r"topic AAAAAAAAAAAAAAAAAAAAAw which doesn't exist"):
        assign("uniform", GroupSpec({"a": member(T3)}, homogeneous), Topics({T1: 1}))


def test_a_partition_that_its_topic_does_not_have_is_refused_where_kafka_fails() -> None:
    members = group(a=member(T1, assigned={T1: [7]}), b=member(T1, T2))
    with pytest.raises(PartitionAssignorError, match="a has a partition that its topic does not have"):
        assign("uniform", members, Topics({T1: 2, T2: 1}))


def test_a_set_without_an_order_is_read_in_ascending_order() -> None:
    plain = {topic_id(number) for number in range(40)}
    by_hand = group(a=MemberSpec(None, None, frozenset(plain), {}), b=MemberSpec(None, None, frozenset(plain), {}))
    ordered = JavaSet(sorted(plain))
    in_order = group(a=MemberSpec(None, None, ordered, {}), b=MemberSpec(None, None, ordered, {}))
    topics = Topics(dict.fromkeys(plain, 3))
    for name in ("uniform", "range"):
        assert shown(assign(name, by_hand, topics)) == shown(assign(name, in_order, topics))


@pytest.mark.parametrize("name", ["uniform", "range"])
@pytest.mark.parametrize("homogeneous", [True, False])
def test_others_may_run_many_times_while_a_large_group_is_assigned(name: str, homogeneous: bool) -> None:
    topics = Topics({topic_id(number): 1_000 for number in range(10)})
    members = {f"m{number}": member(*topics.partitions) for number in range(500)}
    result, slices = sliced(name, GroupSpec(members, homogeneous), topics)
    assert set(loads(result).values()) == {20}
    assert slices >= 3
    first_hundred = {each: member(*topics.partitions, assigned=result[each]) for each in list(members)[:100]}
    result, slices = sliced(name, GroupSpec(first_hundred, homogeneous), topics)
    assert set(loads(result).values()) == {100}
    assert slices >= 2


def test_hashes_of_long_ids_are_not_kept() -> None:
    """Clients choose the ids of members, and what is kept has a limit of their number."""
    before = _hash.cache_info().currsize
    long = [f"{number}-{'x' * 300}" for number in range(100)]
    assert sorted(collected(STRINGS, long)) == sorted(long)
    assert _hash.cache_info().currsize == before

"""The server-side assignors give what Kafka's give: recorded answers of its classes, and rules of our own."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from coordinatord.coordination.group.consumer.assignors import ASSIGNORS
from coordinatord.coordination.group.consumer.assignors.spec import Assignment, GroupSpec, PartitionAssignorError
from tests.coordination.group.consumer.assignor_cases import (
    History,
    answer,
    group_spec,
    new_records,
    ours,
    recorded,
    topics_of,
)

SEEDS = range(5_000, 5_120)


@pytest.mark.parametrize("kind", ["uniform", "range", "tables", "timeline", "names"])
def test_recorded_answers_of_kafka(kind: str) -> None:
    cases = [each for each in recorded() if kind in (each[0]["do"], each[0].get("assignor"))]
    assert len(cases) >= 30
    for asked, answered in cases:
        assert ours(asked) == answered


def loads(result: Assignment) -> dict[str, int]:
    return {member_id: sum(map(len, topics.values())) for member_id, topics in result.items()}


def check_owners(spec: GroupSpec, partitions: dict[bytes, int], result: Assignment) -> None:
    """Each partition that somebody reads has one owner, who reads it; nobody has anything else."""
    owned = Counter((topic, each) for topics in result.values() for topic, held in topics.items() for each in held)
    read = {topic for member in spec.members.values() for topic in member.topic_ids}
    assert owned == {(topic, each): 1 for topic in read for each in range(partitions[topic])}
    assert result.keys() == spec.members.keys()
    for member_id, topics in result.items():
        assert topics.keys() <= spec.members[member_id].topic_ids
        assert all(topics.values())


def kept(spec: GroupSpec, result: Assignment) -> int:
    return sum(
        len(held & member.assigned.get(topic, frozenset()))
        for member_id, member in spec.members.items()
        for topic, held in result[member_id].items()
    )


def check_uniform(spec: GroupSpec, partitions: dict[bytes, int], result: Assignment) -> None:
    """Members differ by one at most, and as many partitions stay where they are as that allows."""
    load = loads(result)
    assert max(load.values()) - min(load.values()) <= 1
    quota, more = divmod(sum(load.values()), len(load))
    had = [
        sum(len(held) for topic, held in each.assigned.items() if topic in each.topic_ids)
        for each in spec.members.values()
    ]
    full = sum(each > quota for each in had)
    assert kept(spec, result) == sum(min(each, quota) for each in had) + min(full, more)


def check_mixed(spec: GroupSpec, partitions: dict[bytes, int], result: Assignment) -> None:
    """Nobody could give a partition to a reader of its topic who has two fewer."""
    load = loads(result)
    for member_id, topics in result.items():
        for other_id, other in spec.members.items():
            if topics.keys() & other.topic_ids:
                assert load[member_id] - load[other_id] <= 1


def check_range(spec: GroupSpec, partitions: dict[bytes, int], result: Assignment) -> None:
    """Each topic is cut into runs, in order of instance ids and then of member ids, the long ones first."""

    def place(member_id: str) -> tuple[bool, bytes]:
        instance_id = spec.members[member_id].instance_id
        return instance_id is None, (instance_id or member_id).encode("utf-16-be")

    for topic in {topic for member in spec.members.values() for topic in member.topic_ids}:
        readers = sorted((each for each, member in spec.members.items() if topic in member.topic_ids), key=place)
        runs = [sorted(result[each].get(topic, ())) for each in readers]
        assert [each for run in runs for each in run] == list(range(partitions[topic]))
        assert sorted(map(len, runs), reverse=True) == list(map(len, runs))
        assert len(runs[0]) - len(runs[-1]) <= 1


CHECKS = {"uniform": check_uniform, "mixed": check_mixed, "range": check_range}


@pytest.mark.parametrize("kind", CHECKS)
def test_rules_hold_in_random_histories(kind: str) -> None:
    checked = 0
    for seed in SEEDS:
        question = History(seed).question()
        name = question["assignor"]
        target: Assignment = {}
        for epoch in question["epochs"]:
            spec, topics = group_spec(epoch, target), topics_of(epoch)
            try:
                result, _ = sliced(name, spec, topics)
            except PartitionAssignorError:
                continue
            if kind == ("range" if name == "range" else "uniform" if epoch["homogeneous"] else "mixed") and result:
                partitions = dict(topics.partitions)
                check_owners(spec, partitions, result)
                CHECKS[kind](spec, partitions, result)
                checked += 1
            new_records(target, result)
            again, _ = sliced(name, group_spec(epoch, target), topics)
            assert again == result, "nothing has changed, but partitions move"
    assert checked > 100


def sliced(name: str, spec: GroupSpec, topics: Any) -> tuple[Assignment, int]:
    """An assignment, and how many times others could run meanwhile. Only the first slice may ask for topics."""
    slices = ASSIGNORS[name](spec, topics)
    asked = None
    for count in range(100_000):
        try:
            next(slices)
        except StopIteration as finished:
            assert asked in (None, topics.asked)
            result: Assignment = finished.value
            return result, count
        asked = topics.asked if asked is None else asked
    raise AssertionError("does not end")


def test_an_error_stops_one_epoch_only() -> None:
    cases = [answered for asked, answered in recorded() if asked["do"] == "assign" and asked["assignor"] == "uniform"]
    errors = [epoch for answered in cases for epoch in answered if isinstance(epoch, str)]
    assert len(errors) > 3
    assert any(isinstance(epoch, str) for answered in cases for epoch in answered[:-1])
    asked = next(asked for asked, answered in recorded() if errors[0] in answered)
    assert errors[0] in answer(asked)

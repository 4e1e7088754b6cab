"""Kafka's server-side assignors, with its results to the last partition and in its order.

spec.py                what an assignor is told and what it answers
range.py               one run of each topic for each member
uniform.py             as many partitions for each member; the same topics for all
mixed.py               the same where members subscribe to different topics; balancer.py picks who gives and who takes
slices.py              the order of members, and when to let others run
assignment_builder.py  a member's assignment while it is changed
java_hash_map.py       the iteration order of Java's hash tables, which decides some results
java_tree_bin.py       the same for long buckets

An assignor is a generator: the caller resumes it until it returns, and serves others in between. It works on what the
group and the topics were at its first step.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinatord.coordination.group.consumer.assignors.spec import Assignment, Assignor, GroupSpec, Slices, TopicsImage


def _uniform(spec: GroupSpec, topics: TopicsImage) -> Slices:
    from coordinatord.coordination.group.consumer.assignors import uniform  # a start does not need it

    return uniform.assign(spec, topics)


def _range(spec: GroupSpec, topics: TopicsImage) -> Slices:
    from coordinatord.coordination.group.consumer.assignors import range as range_assignor  # a start does not need it

    return range_assignor.assign(spec, topics)


ASSIGNORS: Mapping[str, Assignor] = {"uniform": _uniform, "range": _range}
"""By the name that `group.consumer.assignors` and members use."""


def assign(name: str, spec: GroupSpec, topics: TopicsImage) -> Assignment:
    """Compute an assignment at one go; raises PartitionAssignorError."""
    slices = ASSIGNORS[name](spec, topics)
    while True:
        try:
            next(slices)
        except StopIteration as finished:
            result: Assignment = finished.value
            return result

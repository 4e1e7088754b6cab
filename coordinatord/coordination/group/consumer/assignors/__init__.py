"""Kafka's server-side assignors, with exactly Kafka's results, in Kafka's order (see java_collections).

spec.py                the input and the output of an assignor
range.py               one run of each topic for each member
uniform.py             equal numbers of partitions for each member; all members subscribe to the same topics
mixed.py               equal numbers where members subscribe to different topics; balancer.py selects the members
slices.py              the order of members, and the points at which other work may run
assignment_builder.py  a member's assignment while it is changed

An assignor is a generator: the caller resumes it until it returns, and serves other requests in between. Its input is
the state of the group and of the topics at its first step.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinatord.coordination.group.consumer.assignors import range as range_assignor
from coordinatord.coordination.group.consumer.assignors import uniform
from coordinatord.coordination.group.consumer.assignors.spec import Assignment, Assignor, GroupSpec, TopicsImage

ASSIGNORS: Mapping[str, Assignor] = {"uniform": uniform.assign, "range": range_assignor.assign}
"""Assignors by their names in `group.consumer.assignors` and in requests."""


def assign(name: str, spec: GroupSpec, topics: TopicsImage) -> Assignment:
    """Compute an assignment without interruption; raises PartitionAssignorError."""
    slices = ASSIGNORS[name](spec, topics)
    while True:
        try:
            next(slices)
        except StopIteration as finished:
            result: Assignment = finished.value
            return result

"""Assignors of the classic protocol: Kafka's four, with identical results, and those of applications.

base.py       from subscriptions to partitions per member
range.py      one run per topic · roundrobin.py: partitions dealt in turn
sticky.py     sticky and cooperative-sticky; constrained.py and general.py do the work, movements.py and racks.py help
java_hash.py  the iteration order of Java's hash tables, which determines some results

An application registers its own assignor by name, and then offers it in `partition_assignment_strategy`:

    class Weighted(Assignor):
        name = "weighted"

        def subscription_user_data(self, topics):       # of each member, in its JoinGroup
            return b"weight=3"

        def assign_partitions(self, topics, members):   # of the leader; members[...].user_data is that of each member
            ...

    register(Weighted)
"""

from __future__ import annotations

from collections.abc import Callable

from coordinatord.testing.member.assignors.base import Assignor
from coordinatord.testing.member.assignors.range import RangeAssignor
from coordinatord.testing.member.assignors.roundrobin import RoundRobinAssignor
from coordinatord.testing.member.assignors.sticky import CooperativeStickyAssignor, StickyAssignor

ASSIGNORS: dict[str, Callable[[], Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
"""Constructors of assignors, by the name that members offer."""


def register(assignor: Callable[[], Assignor]) -> None:
    """Register an application's own assignor under its `name`, so that members can offer it. `assignor` is called for
    each member that offers it.

    Raises `ValueError` for an empty name, and for the name of another assignor (Kafka rejects the second one, too).
    """
    name = assignor().name
    if not name:
        raise ValueError(f"{assignor!r} has no name: a group agrees on an assignor by its name")
    if ASSIGNORS.setdefault(name, assignor) is not assignor:
        raise ValueError(f"The assignor name: '{name}' is used in more than one assignor: {ASSIGNORS[name]!r}")

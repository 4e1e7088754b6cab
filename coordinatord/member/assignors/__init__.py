"""Kafka's four assignors of the classic protocol, with its results to the last partition.

base.py         from subscriptions to partitions per member
range.py        one run per topic · roundrobin.py: partitions dealt in turn
sticky.py       sticky and cooperative-sticky; constrained.py and general.py do the work, movements.py and racks.py help
java_hash.py    the iteration order of Java's hash tables, which decides some results
"""

from __future__ import annotations

from collections.abc import Callable

from coordinatord.member.assignors.base import Assignor
from coordinatord.member.assignors.range import RangeAssignor
from coordinatord.member.assignors.roundrobin import RoundRobinAssignor
from coordinatord.member.assignors.sticky import CooperativeStickyAssignor, StickyAssignor

ASSIGNORS: dict[str, Callable[[], Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
"""By the name that members offer."""

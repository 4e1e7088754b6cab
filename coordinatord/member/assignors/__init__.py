"""Kafka's four assignors of the classic protocol, with its results to the last partition.

base.py         subscriptions in, partitions per member out
range.py        a run of each topic · roundrobin.py dealt out in turn
sticky.py       sticky and cooperative-sticky; constrained.py and general.py do the work, movements.py and racks.py help
java_hash.py    the order of Java's hash tables, on which some results depend
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
"""By the name under which members offer them."""

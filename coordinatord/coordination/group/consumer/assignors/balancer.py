"""Selection of the members that get or lose the next partition of a topic (Kafka's MemberAssignmentBalancer).

Members are numbers, in order of the partitions that they have: `loads[member]`, which the caller keeps up to date. The
least loaded members, all with equal loads, take one partition each in turn; then the next members have an equal load
and join them. The most loaded ones give in the same way, from the other end. The topic is balanced as soon as the two
loads differ by one at most.
"""

from __future__ import annotations

from collections.abc import Sequence


class Balancer:
    """The members that subscribe to one topic."""

    __slots__ = ("_giving_end", "_giving_start", "_loads", "_members", "_next_giver", "_next_taker", "_taking_end",
                 "high", "imbalance", "low")  # fmt: skip

    low: int
    """Load of the taking members before this turn."""
    high: int
    """Load of the giving members before this turn."""
    imbalance: int
    """Initial difference of the loads."""

    def __init__(self, readers: Sequence[int], loads: Sequence[int]) -> None:
        """`readers`: at least one."""
        self._loads = loads
        self._members = sorted(readers, key=lambda member: (loads[member], member))
        first, last = loads[self._members[0]], loads[self._members[-1]]
        self.imbalance = last - first
        self.low = first - 1
        self._taking_end = 0
        self._next_taker = 0
        self.high = last + 1
        self._giving_start = self._giving_end = len(self._members)
        self._next_giver = len(self._members) - 1

    def balanced(self) -> bool:
        """True if no move improves the balance any more."""
        return self.high - self.low <= 1

    def taker(self) -> int:
        """Return the member that takes the next partition."""
        if self._next_taker >= self._taking_end:
            self.low += 1
            members, loads = self._members, self._loads
            while self._taking_end < len(members) and loads[members[self._taking_end]] == self.low:
                self._taking_end += 1
            self._next_taker = 0
        self._next_taker += 1
        return self._members[self._next_taker - 1]

    def giver(self) -> int | None:
        """Return the member that gives the next partition; None if no member is left."""
        if self._next_giver < self._giving_start:
            members, loads = self._members, self._loads
            if self._giving_end <= self._giving_start and self._giving_start > 0:
                self.high = loads[members[self._giving_start - 1]]  # no giving member had any
            else:
                self.high -= 1
            while self._giving_start > 0 and loads[members[self._giving_start - 1]] == self.high:
                self._giving_start -= 1
            self._next_giver = self._giving_end - 1
        if self._next_giver < 0:
            return None
        self._next_giver -= 1
        return self._members[self._next_giver + 1]

    def exclude_giver(self) -> None:
        """Exclude the last giving member: it has no partition of this topic."""
        members, last = self._members, self._giving_end - 1
        at = self._next_giver + 1
        members[at], members[last] = members[last], members[at]
        self._giving_end = last

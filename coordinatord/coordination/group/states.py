"""The states of a classic group and their transitions; the states of consumer groups and their members, which
consumer/state.py explains; those of share groups; and the rebalance ledger's names of causes.

| state               | members                                   | leaves it when                                     |
|---------------------|-------------------------------------------|----------------------------------------------------|
| Empty               | none; perhaps offsets                     | a member joins, or the group is deleted            |
| PreparingRebalance  | rejoining; JoinGroups are parked          | all have rejoined, or the rebalance timeout passes |
| CompletingRebalance | have their generation; followers parked   | the leader's SyncGroup contains the assignment     |
| Stable              | have their assignment; send heartbeats    | a member joins, leaves, expires or changes         |
| Dead                | none                                      | never: deleted, or served by another node          |
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final

from kafka_wire.records.rebalance_ledger import Cause as Cause
from kafka_wire.records.rebalance_ledger import Outcome as Outcome
from kafka_wire.records.rebalance_ledger import Why as Why


class GroupState(Enum):
    """Kafka's ClassicGroupState; the value is the name in ListGroups and
    DescribeGroups. `shown` is that value without Enum's lookup.
    """

    def __init__(self, shown: str) -> None:
        self.shown = shown

    __hash__ = object.__hash__  # faster: Enum's is written in Python

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY = GroupState.EMPTY
PREPARING_REBALANCE = GroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE = GroupState.COMPLETING_REBALANCE
STABLE = GroupState.STABLE
DEAD = GroupState.DEAD

NEXT_STATES: Final[dict[GroupState, frozenset[GroupState]]] = {
    EMPTY: frozenset({PREPARING_REBALANCE, DEAD}),
    PREPARING_REBALANCE: frozenset({COMPLETING_REBALANCE, EMPTY, DEAD}),
    COMPLETING_REBALANCE: frozenset({STABLE, PREPARING_REBALANCE, DEAD}),
    STABLE: frozenset({PREPARING_REBALANCE, DEAD}),
    DEAD: frozenset({DEAD}),
}
"""All allowed transitions. A restored group starts in Empty or Stable."""


class ConsumerState(Enum):
    """Kafka's ConsumerGroupState; `shown` is the name in ListGroups."""

    def __init__(self, shown: str) -> None:
        self.shown = shown

    __hash__ = object.__hash__

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ShareState(Enum):
    """Kafka's ShareGroupState; `shown` is the name in ListGroups."""

    def __init__(self, shown: str) -> None:
        self.shown = shown

    __hash__ = object.__hash__

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


AnyState = GroupState | ConsumerState | ShareState


class MemberState(IntEnum):
    """Kafka's MemberState, as logged."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def of(cls, value: int) -> MemberState:
        """Return the state with this value; UNKNOWN for values of later versions of Kafka."""
        return _MEMBER_STATES.get(value, cls.UNKNOWN)


_MEMBER_STATES = {int(each): each for each in MemberState}

"""A classic group's states and the transitions between them, and the words for what changes them.

| state               | members                                   | leaves it when                                     |
|---------------------|-------------------------------------------|----------------------------------------------------|
| Empty               | none; perhaps offsets                     | somebody joins, or the group is deleted            |
| PreparingRebalance  | rejoining; JoinGroups are parked          | all have rejoined, or the rebalance timeout passes |
| CompletingRebalance | know their generation; followers parked   | the leader's SyncGroup brings the assignment       |
| Stable              | own their assignment and heartbeat        | one joins, leaves, expires or changes              |
| Dead                | none                                      | never: deleted, or served elsewhere from now on    |
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class GroupState(Enum):
    """Kafka's ClassicGroupState; the value is the name that ListGroups and DescribeGroups show. `shown` is the same,
    without what Enum does to look it up.
    """

    def __init__(self, shown: str) -> None:
        self.shown = shown

    __hash__ = object.__hash__  # Enum's is written in Python

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
"""The law: no other transition exists. A restored group starts in Empty or Stable."""


class Cause:
    """Why a member is gone, for logs and the rebalance ledger."""

    SESSION_EXPIRED = "session expired"
    JOIN_EXPIRED = "new member did not come back to its parked join in time"
    ID_NOT_USED = "member id was handed out and not used in time"
    NOT_REJOINED = "did not rejoin within the rebalance timeout"
    NOT_SYNCED = "did not sync within the rebalance timeout"
    LEFT = "left"
    REPLACED = "replaced by a new member with its instance id"
    GROUP_FULL = "group is full"
    NOT_LOADED = "was logged without an id, or with that of another member"


class Why:
    """What makes a group rebalance, for logs and the rebalance ledger."""

    NEW_MEMBER = "new member"
    LEADER_REJOINED = "leader rejoined"
    METADATA_CHANGED = "member changed its metadata"
    STATIC_MEMBER_RESTARTED = "static member restarted"
    MEMBER_LEFT = "member left"
    SESSION_EXPIRED = "session expired"
    NOT_SYNCED = "no sync in time"
    TOO_MANY_MEMBERS = "too many members"

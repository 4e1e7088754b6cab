"""What a record of the topic `__rebalances` says: how a rebalance came about, in the coordinator's own words.

The topic is not Kafka's: coordinatord writes it (coordinatord/observe/ledger.py), and its pipeline reads it. A record
is a JSON object, its key is the group's name. A rebalance has two phases, as a group has states:

    PreparingRebalance: members rejoin  →  CompletingRebalance: the leader assigns  →  Stable
    began_ms .............. joined_ms ......................... ended_ms

Version 1 (fields may be added to a version, and are never changed or removed):

version
    1
group, node_id
    the group, and the node that coordinated it
outcome
    one of `Outcome`
trigger
    `kind` (one of `Why`) and `text`; `member_id` where it was one member; `reason`, the client's own (KIP-800), where
    it gave one
generation_before, generation_after
    equal when no new generation came about
began_ms, joined_ms, ended_ms
    epoch milliseconds; `joined_ms` is null where the members did not all rejoin
initial
    the group was empty before, so that group.initial.rebalance.delay.ms was waited for
protocol_type, protocol, leader
    of the generation after
members_before, members_after, added, removed
    how many; a static member that restarted is added and removed, its id being another
rejoined
    a list of those that joined, in the order in which they came: `member_id`, `client_id`, `after_ms` since `began_ms`;
    `instance` (group.instance.id) and `reason` where there is one; `is_new` where it is
dropped
    a list of those that went: `member_id`, `cause` (one of `Cause`), `after_ms`; `instance` where there is one
slowest
    what took longest: `phase` (`join` or `sync`), `member_id`, `after_ms` since the phase began; absent where nobody
    was waited for
omitted
    entries of `rejoined` and `dropped` beyond what one record lists, which are counted only
"""

from __future__ import annotations

LEDGER_TOPIC = "__rebalances"
"""As many partitions as `__consumer_offsets`, so that a group's rebalances are where its offsets are."""

VERSION = 1


class Outcome:
    """What became of a rebalance."""

    COMPLETED = "completed"
    SUPERSEDED = "superseded"
    """By another rebalance, before the leader's assignment came."""
    EMPTY = "empty"
    """Nobody was left."""
    STOPPED = "stopped"
    """The coordinator stopped serving the group, or it was deleted."""


class Why:
    """What makes a group rebalance."""

    NEW_MEMBER = "new member"
    LEADER_REJOINED = "leader rejoined"
    METADATA_CHANGED = "member changed its metadata"
    STATIC_MEMBER_RESTARTED = "static member restarted"
    MEMBER_LEFT = "member left"
    SESSION_EXPIRED = "session expired"
    NOT_SYNCED = "no sync in time"
    TOO_MANY_MEMBERS = "too many members"


class Cause:
    """Why a member is gone."""

    SESSION_EXPIRED = "session expired"
    JOIN_EXPIRED = "new member did not come back to its parked join in time"
    ID_NOT_USED = "member id was handed out and not used in time"
    NOT_REJOINED = "did not rejoin within the rebalance timeout"
    NOT_SYNCED = "did not sync within the rebalance timeout"
    LEFT = "left"
    REPLACED = "replaced by a new member with its instance id"
    GROUP_FULL = "group is full"
    NOT_LOADED = "was logged without an id, or with that of another member"

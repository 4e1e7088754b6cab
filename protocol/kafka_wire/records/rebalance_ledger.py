"""The record format of the topic `__rebalances`: the coordinator's record of each rebalance.

The topic is not Kafka's: coordinatord writes it (coordinatord/coordination/service/ledger.py), and its pipeline reads
it. A record's key is the group's name, its value a JSON object. A rebalance has two phases, named after the group's
states:

    PreparingRebalance: members rejoin  →  CompletingRebalance: the leader assigns  →  Stable
    began_ms .............. joined_ms ......................... ended_ms

Version 1 is a rebalance of a classic group, version 2 a group epoch of a consumer group (KIP-848), which has these
fields and more. Fields may be added to a version but are never changed or removed; readers reject a later version.

version
    1 or 2
group, node_id
    the group, and the node that coordinated it
outcome
    one of `Outcome`
trigger
    `kind` (one of `Why`) and `text`; `member_id` where one member triggered it; `reason` where the client gave one
    (KIP-800)
generation_before, generation_after
    equal when no new generation was created
began_ms, joined_ms, ended_ms
    epoch milliseconds; `joined_ms` is null where the join phase did not complete
initial
    true if the group was empty before, so that the coordinator waited group.initial.rebalance.delay.ms
protocol_type, protocol, leader
    those of `generation_after`
members_before, members_after, added, removed
    counts; a static member that restarted counts as added and as removed, because its member id changes
rejoined
    the members that joined, in order of arrival: `member_id`, `client_id`, `after_ms` since `began_ms`; `instance`
    (group.instance.id) and `reason` where present; `is_new` for a new member
dropped
    the members that left or were dropped: `member_id`, `cause` (one of `Cause`), `after_ms`; `instance` where present
slowest
    the longest wait: `phase` (`join` or `sync`), `member_id`, `after_ms` since the phase began; absent where the
    coordinator waited for no member
omitted
    number of entries of `rejoined`, `dropped` and `members` beyond the limit of one record

A group epoch begins when the group's epoch number rises, and is completed when each member has its target assignment of
that epoch. There is one record for each group epoch; its `generation_after` is the group epoch. `joined_ms` and
`leader` are null; `protocol` is the assignor. `rejoined` has new members and static members that came back (these do
not count as added); `after_ms` in `rejoined` and `dropped` is 0, because these members raised the group epoch, or
joined or left shortly before. Version 2 adds:

group_type
    "consumer"
assigned_ms
    when the target assignment was computed; null if the epoch was over before
overtaken_by
    the trigger that raised the next group epoch (or began a rebalance, if the group became a classic one) before all
    members had reached this epoch
held_up
    the longest wait after `assigned_ms`: `member_id`, `client_id`, `instance`, `after_ms`, and `phase`: `revoke`, until
    the member had given up partitions, or `heartbeat`, until its next request after it could continue; `away` if it is
    a static member that has left temporarily. Absent if no member was waited for
gave_up, got
    numbers of partitions that members had to give up, and that they were to get: by the target assignments of this
    group epoch and of the one before
not_reached
    number of members that had not reached the epoch at its end; absent if all had
members
    the members in the order in which they reached the group epoch, the others last; of an epoch that was overtaken,
    only members that had to give up or get partitions, and ten that had not reached the epoch: `member_id`,
    `client_id`, `instance`, `after_ms` since `began_ms` (null if the member did not reach the epoch), `gave_up` and
    `got` (partitions by topic), `told_after_ms` and `revoked_after_ms` where it had partitions to give up, `classic` if
    it uses the classic protocol, `away`. Members in `dropped` have `gave_up` and `client_id` there
resumed
    true if the coordinator loaded the group in the middle of the epoch: the record covers the rest of the epoch, and
    the trigger is not known; an earlier record may have it
omitted_partitions
    number of partitions beyond the limit of one record

Version 3 is about records of a share group (KIP-932) that a member has lost without accepting or rejecting them: they
are delivered again, unless they were delivered as often as the group allows. It has `version`, `group`, `node_id`, and

group_type
    "share"
cause
    one of `Redelivery`
member_id
    the member that had acquired the records
topic, partition, first_offset, last_offset
    the partition, and the range of the offsets; between them may be others
count, archived
    number of records, and how many of them are archived: their delivery count was at its limit
delivery_count
    the highest delivery count
at_ms
    when the first of them was taken from the member; events within a quarter of a second are one record
"""

from __future__ import annotations

LEDGER_TOPIC = "__rebalances"
"""The topic of the ledger. It has as many partitions as `__consumer_offsets`, so a group's rebalances have the
partition number of its offsets.
"""

VERSION = 3
"""The latest version. Each record has the earliest version that has its fields, so that older programs can read it if
possible.
"""
CLASSIC_VERSION = 1
EPOCH_VERSION = 2
REDELIVERY_VERSION = 3


def unreadable(record: object) -> str | None:
    """Return the reason why this program cannot read the record, and what to do about it; None for a record of its
    version.
    """
    version = record.get("version") if isinstance(record, dict) else None
    if version in (CLASSIC_VERSION, EPOCH_VERSION, REDELIVERY_VERSION):
        return None
    if isinstance(version, int) and version > VERSION:
        return f"has version {version} and this program reads versions up to {VERSION}: use the later coordinatord"
    return f"is not a record of a rebalance, of which this program reads versions up to {VERSION}"


class Outcome:
    """Ways in which a rebalance ends."""

    COMPLETED = "completed"
    SUPERSEDED = "superseded"
    """Another rebalance began before the leader's assignment arrived."""
    EMPTY = "empty"
    """No member was left."""
    STOPPED = "stopped"
    """The coordinator stopped serving the group, or the group was deleted."""


class Why:
    """Triggers of a rebalance."""

    NEW_MEMBER = "new member"
    LEADER_REJOINED = "leader rejoined"
    METADATA_CHANGED = "member changed its metadata"
    STATIC_MEMBER_RESTARTED = "static member restarted"
    MEMBER_LEFT = "member left"
    SESSION_EXPIRED = "session expired"
    NOT_SYNCED = "no sync in time"
    TOO_MANY_MEMBERS = "too many members"
    FORCED = "forced"
    """A test has requested the rebalance (coordinatord.server.control)."""
    # only of group epochs
    SUBSCRIPTION_CHANGED = "subscription changed"
    REGEX_RESOLVED = "regular expression resolved"
    TOPICS_CHANGED = "topics changed"
    NOT_REVOKED = "no revocation in time"
    NOT_REJOINED = "no rejoin in time"
    CONVERTED = "converted from the classic protocol"
    LOADED = "loaded in the middle of it"
    """The coordinator loaded the group when its group epoch had risen and not all members had reached it."""


class Cause:
    """Reasons for the removal of a member."""

    SESSION_EXPIRED = "session expired"
    JOIN_EXPIRED = "new member did not come back to its parked join in time"
    ID_NOT_USED = "member id was handed out and not used in time"
    NOT_REJOINED = "did not rejoin within the rebalance timeout"
    NOT_SYNCED = "did not sync within the rebalance timeout"
    NOT_REVOKED = "did not give up its partitions within the rebalance timeout"
    LEFT = "left"
    REPLACED = "replaced by a new member with its instance id"
    GROUP_FULL = "group is full"
    NOT_LOADED = "was logged without an id, or with that of another member"


class Redelivery:
    """Reasons why records of a share group are delivered again."""

    LOCK_EXPIRED = "lock expired"
    RELEASED = "released"
    MEMBER_GONE = "member gone"
    RENEWED_TOO_LATE = "renewed too late"
    """A member has renewed a lock that it no longer had."""

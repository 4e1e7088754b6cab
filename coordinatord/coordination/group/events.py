"""The events of a group. `HeartbeatRequest` and `OffsetDeleteRequest` are events themselves.

Behaviour that depends on the request's version is a field of the event, so that steps need no versions; `of` makes the
event from a request and its version. `reply_to` is opaque, hashable and not None: the shell finds the parked request by
it. `client_host` has the format of Java's InetAddress.toString() ("/127.0.0.1"), because it is logged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coordinatord.coordination.group.result import TimerKey
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.api.sync_group import SyncGroupRequest
from kafka_wire.api.txn_offset_commit import TxnOffsetCommitRequest
from kafka_wire.errors import ErrorCode

MayDescribe = Callable[[str], bool]
"""Function that returns True if the client of a request may learn that a topic of this name exists."""


@dataclass(slots=True)
class Join:
    """A JoinGroup request."""

    request: JoinGroupRequest
    reply_to: Any
    client_id: str
    client_host: str
    require_known_member_id: bool = True  # v4+, KIP-394
    supports_skipping_assignment: bool = True  # v9+, KIP-814
    rebalance_timeout_ms: int | None = None  # None: as in the request
    may_describe: MayDescribe | None = None  # None: all topics
    has_room: bool = True  # false: max.pending.members ids have been returned to clients and not been used yet

    @classmethod
    def of(
        cls,
        request: JoinGroupRequest,
        version: int,
        reply_to: Any,
        client_id: str | None,
        client_host: str,
        may_describe: MayDescribe | None = None,
        has_room: bool = True,
    ) -> Join:
        """Make the event from a request. v0 has no rebalance timeout and uses the session timeout; a null client id
        becomes an empty one.
        """
        timeout_ms = request.session_timeout_ms if version == 0 else None
        known, skips = version >= 4, version >= 9
        return cls(request, reply_to, client_id or "", client_host, known, skips, timeout_ms, may_describe, has_room)

    @property
    def wants_id(self) -> bool:
        """True if the response is a member id, with which the client must join again."""
        request = self.request
        return self.require_known_member_id and not request.member_id and request.group_instance_id is None


@dataclass(slots=True)
class Sync:
    """A SyncGroup request."""

    request: SyncGroupRequest
    reply_to: Any
    require_protocol: bool = True  # v5+, KIP-559: protocol type and name are required

    @classmethod
    def of(cls, request: SyncGroupRequest, version: int, reply_to: Any) -> Sync:
        """Make the event from a request of this version."""
        return cls(request, reply_to, version >= 5)


@dataclass(slots=True)
class Leave:
    """A LeaveGroup request of one or several members."""

    request: LeaveGroupRequest
    members: list[MemberIdentity]
    single: bool = False  # true before v3: the response has an error code and no members

    @classmethod
    def of(cls, request: LeaveGroupRequest, version: int) -> Leave:
        """Make the event from a request. Before v3 the request itself contains the id of the one member that leaves."""
        if version >= 3:
            return cls(request, request.members)
        return cls(request, [MemberIdentity(member_id=request.member_id)], single=True)


@dataclass(slots=True)
class ConsumerHeartbeat:
    """A ConsumerGroupHeartbeat request. Without `reply_to` it cannot wait for an assignment."""

    request: ConsumerGroupHeartbeatRequest
    client_id: str
    client_host: str
    member_id_required: bool = True  # v1+: the client generates the member's id
    reply_to: Any = None
    may_describe: MayDescribe | None = None  # None: all topics

    @classmethod
    def of(
        cls,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        client_id: str | None,
        client_host: str,
        reply_to: Any = None,
        may_describe: MayDescribe | None = None,
    ) -> ConsumerHeartbeat:
        """Make the event from a request. A null client id becomes an empty one."""
        return cls(request, client_id or "", client_host, version >= 1, reply_to, may_describe)


@dataclass(slots=True)
class Commit:
    """An OffsetCommit request. The shell has removed unknown topics and filled in topic names and ids."""

    request: OffsetCommitRequest
    absent_error: ErrorCode = ErrorCode.GROUP_ID_NOT_FOUND  # if a generation is given and the group does not exist
    knows_member_epochs: bool = True  # v9+, KIP-848

    @classmethod
    def of(cls, request: OffsetCommitRequest, version: int) -> Commit:
        """Make the event from a request. Clients before v9 support ILLEGAL_GENERATION only."""
        return cls(request) if version >= 9 else cls(request, ErrorCode.ILLEGAL_GENERATION, False)


@dataclass(slots=True)
class TxnCommit:
    """A TxnOffsetCommit request. The shell has removed unknown topics and checked that the producer may write."""

    request: TxnOffsetCommitRequest
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)  # by name
    knows_group_errors: bool = False  # v6+, KIP-1319: GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH


@dataclass(slots=True)
class EndTransaction:
    """The marker of a producer's transaction has been written to the group's partition."""

    producer_id: int
    committed: bool


@dataclass(slots=True)
class TimedOut:
    """A timer, set by a step, that has passed its deadline."""

    key: TimerKey


@dataclass(slots=True)
class Rebalance:
    """A rebalance without another cause, for tests. `reason` is the test's."""

    reason: str


@dataclass(slots=True)
class Delete:
    """A DeleteGroups request for this group; `reply` is its DeletableGroupResult."""


@dataclass(slots=True)
class Expire:
    """Remove offsets older than the retention (KIP-211), and the group if nothing needs it any more."""

    retention_ms: int


@dataclass(slots=True)
class TopicDeleted:
    """Deletion of a topic: delete its offsets, except those committed for another topic of the same name."""

    topic: str
    topic_id: bytes


@dataclass(slots=True)
class Unload:
    """End of service: this coordinator stops serving the group, and parked requests get `error`. Nothing is logged."""

    error: ErrorCode = ErrorCode.NOT_COORDINATOR


Event = (
    Join
    | Sync
    | Leave
    | ConsumerHeartbeat
    | Commit
    | TxnCommit
    | EndTransaction
    | TimedOut
    | Rebalance
    | Delete
    | Expire
    | TopicDeleted
    | Unload
)
"""All events besides HeartbeatRequest, OffsetDeleteRequest, and those of share groups (share/events.py)."""

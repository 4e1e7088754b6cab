"""What can happen to a group. `HeartbeatRequest` and `OffsetDeleteRequest` are events as they are.

Behaviour that depends on the request's version arrives as a field, so that steps know no versions; `of` makes the
event from a request and its version. `reply_to` is opaque, hashable and not None: the shell finds the parked request
by it. `client_host` is written as Java's InetAddress.toString() does ("/127.0.0.1"): it goes into the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coordinatord.group.result import TimerKey
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.api.sync_group import SyncGroupRequest
from kafka_wire.api.txn_offset_commit import TxnOffsetCommitRequest
from kafka_wire.errors import ErrorCode


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

    @classmethod
    def of(
        cls, request: JoinGroupRequest, version: int, reply_to: Any, client_id: str | None, client_host: str
    ) -> Join:
        """v0 has no rebalance timeout and uses the session timeout; a null client id counts as an empty one."""
        rebalance_timeout_ms = request.session_timeout_ms if version == 0 else None
        return cls(request, reply_to, client_id or "", client_host, version >= 4, version >= 9, rebalance_timeout_ms)


@dataclass(slots=True)
class Sync:
    """A SyncGroup request."""

    request: SyncGroupRequest
    reply_to: Any
    require_protocol: bool = True  # v5+, KIP-559: protocol type and name must be there

    @classmethod
    def of(cls, request: SyncGroupRequest, version: int, reply_to: Any) -> Sync:
        """From a request of that version."""
        return cls(request, reply_to, version >= 5)


@dataclass(slots=True)
class Leave:
    """A LeaveGroup request of one or several members."""

    request: LeaveGroupRequest
    members: list[MemberIdentity]
    single: bool = False  # before v3: the response has no members, only an error code

    @classmethod
    def of(cls, request: LeaveGroupRequest, version: int) -> Leave:
        """Before v3 one member leaves, named in the request itself."""
        if version >= 3:
            return cls(request, request.members)
        return cls(request, [MemberIdentity(member_id=request.member_id)], single=True)


@dataclass(slots=True)
class Commit:
    """An OffsetCommit request. The shell has taken out unknown topics and filled in names and topic ids."""

    request: OffsetCommitRequest
    absent_error: ErrorCode = ErrorCode.GROUP_ID_NOT_FOUND  # for a generation of a group that is not there

    @classmethod
    def of(cls, request: OffsetCommitRequest, version: int) -> Commit:
        """Before v9 clients know ILLEGAL_GENERATION only."""
        return cls(request, ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION)


@dataclass(slots=True)
class TxnCommit:
    """A TxnOffsetCommit request; unknown topics are taken out, and the producer may write for this group."""

    request: TxnOffsetCommitRequest


@dataclass(slots=True)
class EndTransaction:
    """The marker of a producer's transaction has been written to the group's partition."""

    producer_id: int
    committed: bool


@dataclass(slots=True)
class TimedOut:
    """A timer that a step asked for has passed its deadline."""

    key: TimerKey


@dataclass(slots=True)
class Delete:
    """The group is to be deleted (DeleteGroups); `reply` is its DeletableGroupResult."""


@dataclass(slots=True)
class Expire:
    """Time to look for offsets older than the retention (KIP-211), and for a group that nobody needs any more."""

    retention_ms: int


@dataclass(slots=True)
class TopicDeleted:
    """A topic is gone; its offsets go too, unless they were committed for another topic of that name."""

    topic: str
    topic_id: bytes


@dataclass(slots=True)
class Unload:
    """This coordinator stops serving the group: whatever is parked is answered with `error`. Nothing is logged."""

    error: ErrorCode = ErrorCode.NOT_COORDINATOR


Event = Join | Sync | Leave | Commit | TxnCommit | EndTransaction | TimedOut | Delete | Expire | TopicDeleted | Unload
"""Beside HeartbeatRequest and OffsetDeleteRequest."""

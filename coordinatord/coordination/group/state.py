"""A group: its members, its committed offsets, its limits.

A group with `consumer` set uses the consumer protocol (KIP-848): consumer/state.py; one with `share` is a share group
(KIP-932): share/state.py. Then `state` is Empty and all
fields of classic members are at their defaults; offsets, transactions and `version` are as in a classic group.

**Durable** state (`offsets`, `pending`, `metadata`, `consumer`, `share`) is written by `replay` alone and equals the
content of the log. All other state is **volatile**: written by steps, never logged, rebuilt by `restore`.

`Group.version` increases with every change that the response to a heartbeat or a commit depends on: the state, the
generation, the members, their instance ids, open transactions, and every record but a plain commit. If the version has
not changed since the response to a member's request, an equal request gets an equal response. Plain commits and session
deadlines do not change the version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from coordinatord.coordination.group.consumer.state import ConsumerGroup, GroupEnvironment
from coordinatord.coordination.group.offsets.pending import PendingOffsets
from coordinatord.coordination.group.result import Result, Schedule, Transition
from coordinatord.coordination.group.share.state import ShareGroup
from coordinatord.coordination.group.states import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    NEXT_STATES,
    PREPARING_REBALANCE,
    STABLE,
    GroupState,
)
from kafka_wire.api.heartbeat import HeartbeatResponse
from kafka_wire.errors import ErrorCode
from kafka_wire.records.offsets import GroupMetadataValue, OffsetCommitValue

NEVER: Final = 1 << 62
"""A deadline in milliseconds that is never reached: no timer is set."""

NO_TIMESTAMP: Final = -1

MAX_ID_CHARACTERS: Final = 8_000
"""Maximum characters of an id or name. Ids and names may have 32,767 bytes in requests, in the log and in responses. A
member id consists of a client id and more; a longer id would make every write and response that contains it fail, for
all members of the group.
"""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Limits, under Kafka's names where Kafka has them. Units as in the name."""

    min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms
    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    max_size: int = 2_147_483_647  # group.max.size
    new_member_join_timeout_ms: int = 300_000  # a constant in Kafka
    offset_metadata_max_bytes: int = 4_096  # offset.metadata.max.bytes; counted in UTF-16 units as Kafka does
    # Kafka has no such limit, so any client can fill its memory with ids that are requested and never used. Ten
    # thousand consumers that start within one session timeout are more than a classic group can hold.
    max_pending_members: int = 10_000

    def allow_session(self, timeout_ms: int) -> bool:
        """Return whether a member may request this session timeout."""
        return self.min_session_timeout_ms <= timeout_ms <= self.max_session_timeout_ms


@dataclass(slots=True, eq=False)
class Member:
    """A member of a classic group. Deadlines are milliseconds since the Unix epoch."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]  # (name, metadata) in the member's order of preference
    assignment: bytes = b""
    join_reply_to: Any = None  # its parked JoinGroup: the member has (re)joined
    sync_reply_to: Any = None  # its parked SyncGroup
    is_new: bool = False  # no join of the member has got a response yet: its parked join expires
    heard_ms: int = NEVER  # when the session was last extended; many members share this object
    patience_ms: int = 0  # length of the session from then on
    timer_ms: int = NEVER  # deadline of the session timer; may be earlier than the session deadline, never later

    def keep_alive(self, now_ms: int) -> None:
        """Handle a request that equals the member's last one, if `Group.version` has not changed since. The member's
        timer stays unchanged: it fires before the last deadline.
        """
        self.heard_ms = now_ms
        self.patience_ms = self.session_timeout_ms

    @property
    def session_deadline_ms(self) -> int:
        """Time at which the member expires. Computed, because a stored integer takes 48 bytes per member."""
        return self.heard_ms + self.patience_ms

    def metadata(self, protocol_name: str) -> bytes:
        """Return the member's metadata for a protocol that the member must support."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise AssertionError(f"member {self.member_id} does not support protocol {protocol_name}")


@dataclass(slots=True, eq=False)
class Group:
    """One group. `new_id` generates the random part of a member id; `surroundings` is None on a node without the
    consumer protocol.
    """

    group_id: str
    settings: GroupSettings
    new_id: Callable[[], str]
    surroundings: GroupEnvironment | None = None

    # durable: `replay` alone writes these
    offsets: dict[str, dict[int, OffsetCommitValue]] = field(default_factory=dict)  # by topic and partition
    pending: PendingOffsets | None = None  # None: no transaction is open
    metadata: GroupMetadataValue | None = None  # includes the members only from a load until `restore`
    consumer: ConsumerGroup | None = None
    share: ShareGroup | None = None
    exists: bool = False  # False: not created yet, or deleted; then the shell drops the group after the step

    # volatile
    version: int = 0  # see the module's docstring
    state: GroupState = EMPTY
    previous_state: GroupState = DEAD
    current_state_timestamp_ms: int = NO_TIMESTAMP
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)  # group_instance_id -> member_id
    pending_members: dict[str, Schedule] = field(default_factory=dict)  # ids sent to clients (KIP-394) -> timers
    pending_sync_members: dict[str, None] = field(default_factory=dict)  # an ordered set
    supported_protocols: dict[str, int] = field(default_factory=dict)  # protocol name -> supporting members
    awaiting_join_count: int = 0
    subscribed_topics: frozenset[str] | None = None  # None: unknown
    new_member_added: bool = False  # since the initial delay was last extended
    initial_delay_ms: int = 0
    initial_remaining_ms: int = NEVER  # NEVER: this is not the first rebalance out of Empty
    join_deadline_ms: int = NEVER
    sync_deadline_ms: int = NEVER
    heartbeat_result: Result = field(default_factory=lambda: HEARTBEAT_RESULTS[EMPTY])

    def new_member_id(self) -> str:
        """Return a new id for a member of the consumer protocol whose client does not generate one."""
        return self.new_id()

    def transition_to(self, state: GroupState, reason: str, now_ms: int, result: Result) -> None:
        """Change the state; no other function does. A transition missing in the table is a bug of coordinatord."""
        old = self.state
        assert state in NEXT_STATES[old], f"group {self.group_id}: no transition from {old.value} to {state.value}"
        self.version += 1
        self.previous_state = old
        self.state = state
        self.current_state_timestamp_ms = now_ms
        self.heartbeat_result = HEARTBEAT_RESULTS[state]
        result.transitions.append(Transition(self.group_id, old, state, self.generation_id, reason))

    def has_all_members_joined(self) -> bool:
        """Return whether no member and no pending id is missing."""
        return self.awaiting_join_count == len(self.members) and not self.pending_members

    def rebalance_timeout_ms(self) -> int:
        """Return the longest rebalance timeout of any member; 0 without members."""
        return max([member.rebalance_timeout_ms for member in self.members.values()], default=0)

    def all_metadata(self) -> list[bytes]:
        """Return the metadata of each member for the group's protocol, in the order of `members`."""
        name, found = self.protocol_name, []
        protocols: tuple[tuple[str, bytes], ...] = ()
        metadata = b""
        for member in self.members.values():
            if member.protocols is not protocols:  # most members share them: classic/interned_metadata.py
                assert name is not None
                protocols = member.protocols
                metadata = member.metadata(name)
            found.append(metadata)
        return found

    def uses_consumer_protocol(self) -> bool:
        """Return whether the members are consumers, whose metadata contains the topics that they subscribe to."""
        return self.protocol_type == "consumer"

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member is subscribed to the topic; True, too, if the topics of the consumers are unknown."""
        if self.consumer is not None:
            return topic in self.consumer.subscribed_topics()
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol()
        return topic in self.subscribed_topics


def heartbeat_error(error: ErrorCode) -> Result:
    """Return a result that responds to a heartbeat with `error`; callers share it."""
    return Result(reply=HeartbeatResponse(error_code=error))


HEARTBEAT_OK: Final = heartbeat_error(ErrorCode.NONE)

HEARTBEAT_RESULTS: Final[dict[GroupState, Result]] = {
    EMPTY: heartbeat_error(ErrorCode.UNKNOWN_MEMBER_ID),
    PREPARING_REBALANCE: heartbeat_error(ErrorCode.REBALANCE_IN_PROGRESS),
    # Clients send heartbeats as soon as they have their JoinGroup response, before any member has synced.
    COMPLETING_REBALANCE: HEARTBEAT_OK,
    STABLE: HEARTBEAT_OK,
    DEAD: heartbeat_error(ErrorCode.COORDINATOR_NOT_AVAILABLE),
}
"""The response to a valid member's heartbeat, by state. Prebuilt: a heartbeat allocates nothing."""

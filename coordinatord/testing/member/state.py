"""A member: its settings, the state of its membership, its metadata about the cluster, its partitions.

| state               | waits for                                  | heartbeats |
|---------------------|--------------------------------------------|------------|
| UNJOINED            | the application to poll                    | no         |
| PREPARING_REBALANCE | the response to its JoinGroup              | no         |
| COMPLETING_REBALANCE| the response to its SyncGroup              | yes        |
| STABLE              | nothing: it owns its partitions            | yes        |

This is the classic protocol. A member of the consumer protocol (KIP-848) has a `membership`, whose states are in
consumer/state.py; its `state` stays UNJOINED, and its `generation` is its member id and member epoch, or -1 without a
group.

All state is volatile. Times are milliseconds of one clock that never decreases.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from coordinatord.testing.member.assignors import ASSIGNORS
from coordinatord.testing.member.assignors.base import Assignor
from coordinatord.testing.member.assignors.java_hash import TopicPartition
from coordinatord.testing.member.cluster import Cluster
from coordinatord.testing.member.consumer.state import SILENT, Membership, new_member_id
from coordinatord.testing.member.events import Close, Commit
from coordinatord.testing.member.fetched import Fetched
from coordinatord.testing.member.metrics import Metrics
from coordinatord.testing.member.result import Result, Transition
from coordinatord.testing.member.send import NO_GENERATION, Generation, Send
from coordinatord.testing.member.timer import NEVER, Backoff, Heartbeat
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupResponse
from kafka_wire.errors import ErrorCode

DISCONNECTED: Final = ErrorCode.NETWORK_EXCEPTION
"""Error for "no response": the connection broke, or the timeout has passed."""

RETRIABLE: Final = frozenset(
    {
        DISCONNECTED,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
"""Errors that a retry may solve: Kafka's RetriableException, those that occur in groups."""


class MemberState(Enum):
    """Kafka's MemberState of the classic protocol."""

    UNJOINED = "UNJOINED"
    PREPARING_REBALANCE = "PREPARING_REBALANCE"
    COMPLETING_REBALANCE = "COMPLETING_REBALANCE"
    STABLE = "STABLE"


UNJOINED = MemberState.UNJOINED
PREPARING_REBALANCE = MemberState.PREPARING_REBALANCE
COMPLETING_REBALANCE = MemberState.COMPLETING_REBALANCE
STABLE = MemberState.STABLE

NEXT_STATES: Final[dict[MemberState, frozenset[MemberState]]] = {
    UNJOINED: frozenset({UNJOINED, PREPARING_REBALANCE}),
    PREPARING_REBALANCE: frozenset({PREPARING_REBALANCE, COMPLETING_REBALANCE, UNJOINED}),
    COMPLETING_REBALANCE: frozenset({STABLE, PREPARING_REBALANCE, UNJOINED}),
    STABLE: frozenset({PREPARING_REBALANCE, UNJOINED}),
}
"""All transitions. A failed join is followed by the next one without a state between them."""


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """Kafka's consumer settings under their names (dots as underscores), with the defaults of the Java client 4.3."""

    group_id: str
    group_instance_id: str | None = None
    group_protocol: str = "classic"  # or consumer: then the coordinator controls sessions, heartbeats, assignments
    group_remote_assignor: str | None = None
    client_rack: str = ""
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    max_poll_records: int = 500
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 30_000
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    auto_offset_reset: str = "latest"  # earliest, latest or none
    partition_assignment_strategy: tuple[str, ...] = ("range", "cooperative-sticky")
    metadata_max_age_ms: int = 300_000
    metadata_recovery_strategy: str = "rebootstrap"  # or none
    metadata_recovery_rebootstrap_trigger_ms: int = 300_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    socket_connection_setup_timeout_ms: int = 10_000
    allow_auto_create_topics: bool = True
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = 1_048_576
    # Not in Kafka. False: never fetch; a test that needs the group only saves positions and records.
    fetches: bool = True
    # Not in Kafka. The consumer before KIP-62: heartbeats are tasks in the queue of a client that runs in poll only.
    single_threaded: bool = False

    def __post_init__(self) -> None:
        if self.group_protocol not in ("classic", "consumer"):
            raise ValueError(f"group.protocol is {self.group_protocol!r}: use classic or consumer")
        if self.group_protocol == "consumer" and self.single_threaded:
            raise ValueError("a consumer without a heartbeat thread has the classic protocol only")
        unknown = [name for name in self.partition_assignment_strategy if name not in ASSIGNORS]
        if unknown or not self.partition_assignment_strategy:
            what = f"partition.assignment.strategy {unknown or 'is empty'}"
            raise ValueError(f"{what}: use one or more of {', '.join(ASSIGNORS)}, or register it first")
        if len(set(self.partition_assignment_strategy)) < len(self.partition_assignment_strategy):
            raise ValueError(f"partition.assignment.strategy {self.partition_assignment_strategy}: name each once")
        if self.metadata_recovery_strategy not in ("rebootstrap", "none"):
            raise ValueError(
                f"metadata.recovery.strategy is {self.metadata_recovery_strategy!r}: use rebootstrap or none"
            )
        if self.auto_offset_reset not in ("earliest", "latest", "none"):
            raise ValueError(f"auto.offset.reset is {self.auto_offset_reset!r}: use earliest, latest or none")


@dataclass(slots=True, eq=False)
class PartitionState:
    """State of one assigned partition. Offsets are None while they are unknown."""

    position: int | None = None  # the next offset to return
    high_watermark: int | None = None  # at the last fetch
    committed: int | None = None  # at the last OffsetFetch, or the last commit of this member
    reset: str | None = None  # the policy of the lookup in progress
    retry_at_ms: int = 0  # no retry before this time
    paused: bool = False
    pending_revocation: bool = False
    leader_epoch: int = -1  # of the last record consumed

    @property
    def is_fetchable(self) -> bool:
        """True if its records may be fetched and returned."""
        return self.position is not None and not self.paused and not self.pending_revocation

    @property
    def lag(self) -> int | None:
        """Number of records from the position to the high watermark; None if either is unknown
        (Kafka's partitionLag).
        """
        if self.position is None or self.high_watermark is None:
            return None
        return self.high_watermark - self.position


@dataclass(slots=True, eq=False)
class SyncCommit:
    """A synchronous commit, for which the application or a close waits."""

    event: Commit | None
    offsets: dict[TopicPartition, int]
    deadline_ms: int
    attempts: int = 0
    again_at_ms: int = 0
    send: Send | None = None


class Join:
    """The current join, from JoinGroup to the assignment: Kafka's joinFuture."""

    __slots__ = ("assignment", "error", "fatal", "what")

    def __init__(self) -> None:
        self.error: ErrorCode | None = None
        self.fatal = False  # the application's poll raises it, whatever the error is
        self.what = "JoinGroup"  # text for the application beside the error
        self.assignment: bytes | None = None


@dataclass(slots=True, eq=False)
class Member:
    """State of one consumer. `random` returns a number from 0 to below 1 (for back-off)."""

    settings: MemberSettings
    random: Callable[[], float]
    heartbeat: Heartbeat = field(init=False)
    backoff: Backoff = field(init=False)
    assignors: dict[str, Assignor] = field(init=False)
    cooperative: bool = field(init=False)  # all its assignors are (KIP-429), or it uses the consumer protocol
    membership: Membership | None = field(init=False)  # of the consumer protocol; None: it uses the classic one

    # the coordinator
    coordinator: int | None = None
    coordinator_address: tuple[str, int] = ("", 0)
    finding: Send | None = None
    find_again_ms: int = 0
    find_attempts: int = 0
    waiting_commits: list[tuple[Commit | None, dict[TopicPartition, int]]] = field(default_factory=list)
    in_flight: dict[Send, None] = field(default_factory=dict)  # to the coordinator

    # the membership
    state: MemberState = UNJOINED
    generation: Generation = NO_GENERATION
    rejoin_needed: bool = True
    rejoin_reason: str = ""
    needs_join_prepare: bool = True
    prepare_deadline_ms: int = NEVER
    prepare_commit: Send | None = None  # the auto-commit before a rejoin
    prepare_commit_error: ErrorCode | None = None
    join: Join | None = None
    join_again_ms: int = 0
    election: JoinGroupResponse | None = None  # the leader needs metadata before it can assign
    is_leader: bool = False
    joined_subscription: frozenset[str] | None = None
    assignment_snapshot: dict[str, Any] | None = None  # the topics that the leader's assignment was based on
    failure: tuple[ErrorCode, str] | None = None  # for the next poll to raise

    # heartbeats
    heartbeats: bool = False  # enabled
    heartbeat_request: HeartbeatRequest | None = None  # of this generation
    task_ms: int = NEVER  # single-threaded: time of the delayed task

    # the application
    in_poll: bool = False
    poll_until_ms: int = 0
    poll_overdue: bool = False  # its timeout has passed, but it continues
    wake_ms: int = NEVER  # within a call: time to continue
    sync_commit: SyncCommit | None = None
    closing: Close | None = None
    close_deadline_ms: int = NEVER
    closed: bool = False
    inbox: deque[tuple[Send, Any]] = field(default_factory=deque)  # responses while no call read the network
    auto_commit_ms: int = NEVER

    # the cluster
    cluster: Cluster = field(default_factory=Cluster)
    subscription: frozenset[str] = frozenset()
    group_subscription: frozenset[str] = frozenset()
    metadata_send: Send | None = None
    metadata_wanted: bool = True
    metadata_again_ms: int = 0
    metadata_attempts: int = 0
    metadata_expires_ms: int = 0
    metadata_snapshot: dict[str, Any] = field(default_factory=dict)

    # the data
    partitions: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    offset_fetch: Send | None = None
    offset_fetch_attempts: int = 0
    offset_fetch_again_ms: int = 0
    fetching: dict[int, Send] = field(default_factory=dict)  # by node
    fetched: deque[Fetched] = field(default_factory=deque)

    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        settings = self.settings
        self.backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, self.random)
        self.heartbeat = Heartbeat(
            settings.session_timeout_ms, settings.heartbeat_interval_ms, settings.max_poll_interval_ms, self.backoff
        )
        self.assignors = {name: ASSIGNORS[name]() for name in settings.partition_assignment_strategy}
        is_classic = settings.group_protocol == "classic"
        self.membership = None if is_classic else Membership(new_member_id(self.random))
        self.cooperative = not is_classic or all(assignor.cooperative for assignor in self.assignors.values())

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The owned partitions."""
        return tuple(self.partitions)

    def partition_lag(self, partition: TopicPartition) -> int | None:
        """Return the lag of a partition (see `PartitionState.lag`). Raises `ValueError` if the member does not own the
        partition.
        """
        return self.owned(partition).lag

    def owned(self, partition: TopicPartition) -> PartitionState:
        """Return the state of an owned partition. Raises `ValueError` if the member does not own the partition."""
        state = self.partitions.get(partition)
        if state is None:
            raise ValueError(f"{partition[0]}-{partition[1]} is not assigned to this consumer")
        return state

    @property
    def next_deadline_ms(self) -> int:
        """Time at which `Woken` is due; NEVER if nothing is due. An earlier wake-up does no harm."""
        settings = self.settings
        if self.in_poll or self.sync_commit is not None or self.closing is not None:
            deadline_ms = min(self.wake_ms, self.poll_until_ms) if self.in_poll else self.wake_ms
            if settings.single_threaded and self.task_ms < deadline_ms:
                return self.task_ms
        else:
            deadline_ms = NEVER
        if self.heartbeats and not settings.single_threaded:
            heartbeat = self.heartbeat
            if self.coordinator is None:
                return deadline_ms if self.finding is not None else min(deadline_ms, self.find_again_ms)
            deadline_ms = min(deadline_ms, heartbeat.heartbeat.deadline_ms, heartbeat.session.deadline_ms)
            if not self.in_poll:
                deadline_ms = min(deadline_ms, heartbeat.poll.deadline_ms)
        if self.membership is not None:
            deadline_ms = min(deadline_ms, self.next_background_ms)
        return deadline_ms

    @property
    def next_background_ms(self) -> int:
        """Time of the next action of the consumer protocol's background thread; NEVER without that protocol."""
        membership = self.membership
        if membership is None or membership.state in SILENT or self.closed:
            return NEVER
        if self.coordinator is None:
            return NEVER if self.finding is not None else self.find_again_ms
        due_ms = NEVER if self.in_poll else self.heartbeat.poll.deadline_ms
        if membership.in_flight is None:
            due_ms = min(due_ms, max(membership.due_ms, membership.retry_ms))
        return due_ms

    @property
    def is_subscribed(self) -> bool:
        """True if the member subscribes to topics, or to a regular expression."""
        return bool(self.subscription) or (self.membership is not None and self.membership.pattern is not None)

    @property
    def is_settled(self) -> bool:
        """True if the member is in its group and owns its assigned partitions."""
        if self.membership is not None:
            return self.membership.is_settled
        return self.state is STABLE and not self.rejoin_needed and self.join is None

    @property
    def pending_requests(self) -> int:
        """Number of requests to the coordinator without a response: Kafka's pendingRequestCount(coordinator)."""
        return len(self.in_flight)

    @property
    def is_reading(self) -> bool:
        """True if the network is read: by a call of the application, or by the heartbeat thread."""
        if self.in_poll or self.sync_commit is not None or self.closing is not None or self.membership is not None:
            return True
        return self.heartbeats and not self.settings.single_threaded

    def transition_to(self, state: MemberState, result: Result) -> None:
        """Change the state; all changes go through this method. Heartbeats continue while the generation is known."""
        old = self.state
        assert state in NEXT_STATES[old], f"no transition from {old.value} to {state.value}"
        self.state = state
        if state is UNJOINED or state is PREPARING_REBALANCE:
            self.heartbeats = False
        if state is not old:
            result.transitions.append(Transition(old.value, state.value, self.generation, self.rejoin_reason))

    def wake_at(self, deadline_ms: int) -> None:
        """Continue the current call at this time."""
        if deadline_ms < self.wake_ms:
            self.wake_ms = deadline_ms

    def request_rejoin(self, reason: str) -> None:
        """Rejoin at the next poll; the coordinator receives the reason (KIP-800)."""
        self.rejoin_reason = reason[:255]
        self.rejoin_needed = True

    def reset_generation(self, reason: str, keep_member_id: bool, result: Result) -> None:
        """Drop the generation: the member is out of the group and rejoins. Its partitions are lost at the next poll."""
        # After ILLEGAL_GENERATION the member id stays valid; a member that keeps it need not expire from the group.
        self.generation = Generation(-1, self.generation.member_id) if keep_member_id else NO_GENERATION
        self.transition_to(UNJOINED, result)
        self.request_rejoin(reason)
        self.needs_join_prepare = True

    def send_to_coordinator(self, request: Any, result: Result, timeout_ms: int = 0, context: Any = None) -> Send:
        """Send a request to the coordinator, which must be known. `timeout_ms` 0: request.timeout.ms."""
        assert self.coordinator is not None
        timeout_ms = timeout_ms or self.settings.request_timeout_ms
        send = Send(self.coordinator, True, request, timeout_ms, self.generation, context)
        self.in_flight[send] = None
        result.sends.append(send)
        return send

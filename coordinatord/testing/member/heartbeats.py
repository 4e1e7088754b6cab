"""Heartbeats, in two policies: in their own thread (since KIP-62), or as a task of a client that runs within poll only.

The thread acts whenever one of its deadlines passes:

| condition                  | action                                                                 |
|----------------------------|------------------------------------------------------------------------|
| not joined                 | none: it is disabled until the next JoinGroup succeeds                 |
| coordinator unknown        | find the coordinator; back off                                         |
| no response for a session  | treat the coordinator as failed                                        |
| no poll for max.poll       | leave the group; a static member just stops (KIP-345)                  |
| a heartbeat is due         | send it; the next is due an interval later, with or without a response |

Responses have these effects:

| error                                         | session timer | and                                                  |
|-----------------------------------------------|---------------|------------------------------------------------------|
| NONE                                          | restarts      |                                                      |
| REBALANCE_IN_PROGRESS                         | restarts      | when Stable: rejoin at the next poll                 |
| COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR    | continues     | coordinator unknown; again after the back-off        |
| ILLEGAL_GENERATION                            | continues     | generation dropped, member id kept; rejoin           |
| UNKNOWN_MEMBER_ID                             | continues     | both dropped; rejoin                                 |
| FENCED_INSTANCE_ID                            | continues     | both dropped; the next poll fails                    |
| the last three, for an earlier generation     | restarts      | nothing                                              |
| any other error, or no response               | continues     | again after the back-off                             |

Without a thread, all of this happens within poll only, so that the coordinator removes a member whose application takes
longer than a session between two polls. In this policy REBALANCE_IN_PROGRESS is a failure like others, and there is no
poll timer.

Kafka's thread checks every `retry.backoff.ms` while the application does not poll; this one wakes at the deadline.
"""

from __future__ import annotations

from typing import Final

from coordinatord.testing.member.finding import ensure_coordinator
from coordinatord.testing.member.leaving import leave_group
from coordinatord.testing.member.network import coordinator_failed
from coordinatord.testing.member.result import Result
from coordinatord.testing.member.send import Send
from coordinatord.testing.member.state import STABLE, Member
from coordinatord.testing.member.timer import NEVER
from kafka_wire.api.heartbeat import HeartbeatResponse
from kafka_wire.errors import ErrorCode, error_of

POLL_TIMEOUT_EXPIRED: Final = "consumer poll timeout has expired."
"""First sentence of Kafka's reason for leaving."""


def tick(member: Member, now_ms: int, result: Result) -> None:
    """Run the heartbeat thread once, and again while an action changes its state."""
    heartbeat = member.heartbeat
    while member.heartbeats:
        if member.coordinator is None:
            if not ensure_coordinator(member, now_ms, result):
                member.find_again_ms = max(member.find_again_ms, now_ms + member.settings.retry_backoff_ms)
            return
        if heartbeat.session.is_expired(now_ms):
            coordinator_failed(member, now_ms, result)
        elif not member.in_poll and heartbeat.poll.is_expired(now_ms):
            _poll_timeout_expired(member, result)
        else:
            if heartbeat.heartbeat.is_expired(now_ms):
                heartbeat.sent(now_ms)
                member.send_to_coordinator(member.heartbeat_request, result)
            return


def _poll_timeout_expired(member: Member, result: Result) -> None:
    """Leave, and give the remedy in the log and in the reason, which operators of the coordinator can read.

    Kafka 4.3 has the remedy in the log alone; its reason ends after "consumer poll timeout has expired."
    """
    settings = member.settings
    result.warnings.append(
        f"{POLL_TIMEOUT_EXPIRED} This means the time between subsequent calls to poll() was longer than the configured "
        f"max.poll.interval.ms ({settings.max_poll_interval_ms}), which typically implies that the poll loop is "
        "spending too much time processing messages. You can address this either by increasing max.poll.interval.ms or "
        "by reducing the maximum size of batches returned in poll() with max.poll.records "
        f"({settings.max_poll_records})."
    )
    remedy = (
        f"increase max.poll.interval.ms ({settings.max_poll_interval_ms}) or reduce max.poll.records "
        f"({settings.max_poll_records})"
    )
    leave_group(member, None, f"{POLL_TIMEOUT_EXPIRED} The member's poll loop is slow: {remedy}.", result)


def run_task(member: Member, now_ms: int, result: Result) -> None:
    """Run the delayed task of the client without a thread. The task runs again only when it is scheduled again."""
    heartbeat = member.heartbeat
    member.task_ms = NEVER
    if member.generation.generation_id < 0 or member.rejoin_needed or member.coordinator is None:
        return
    if heartbeat.session.is_expired(now_ms):
        coordinator_failed(member, now_ms, result)
    elif not heartbeat.heartbeat.is_expired(now_ms):
        member.task_ms = heartbeat.heartbeat.deadline_ms
    else:
        heartbeat.sent(now_ms)
        member.send_to_coordinator(member.heartbeat_request, result)


def schedule_task(member: Member, now_ms: int) -> None:
    """Restart the task after a join, unless the response to an earlier heartbeat will do so."""
    member.heartbeat.reset_session_timeout(now_ms)
    member.task_ms = NEVER if member.heartbeat.in_flight else now_ms


def answered(member: Member, send: Send, response: HeartbeatResponse, now_ms: int, result: Result) -> None:
    """Handle a response as in the second table."""
    member.metrics.heartbeat_latency.record(now_ms - send.sent_ms)
    if response.error_code == ErrorCode.NONE:
        _received(member, now_ms)
        return
    error = error_of(response.error_code)
    if error is ErrorCode.REBALANCE_IN_PROGRESS:
        if member.state is STABLE:
            member.request_rejoin("group is already rebalancing")
        if member.settings.single_threaded:
            _failed(member, now_ms)
        else:
            _received(member, now_ms)
    elif error in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
        if send.generation != member.generation:
            _received(member, now_ms)
            return
        keep_member_id = error is ErrorCode.ILLEGAL_GENERATION
        member.reset_generation(f"encountered {error.name} from HEARTBEAT response", keep_member_id, result)
        if error is ErrorCode.FENCED_INSTANCE_ID:
            member.failure = (error, "Heartbeat")
        _failed(member, now_ms)
    else:
        if error in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
            coordinator_failed(member, now_ms, result)
        _failed(member, now_ms)


def unanswered(member: Member, now_ms: int) -> None:
    """Handle a heartbeat without a response: the connection broke."""
    _failed(member, now_ms)


def _received(member: Member, now_ms: int) -> None:
    member.heartbeat.received(now_ms)
    if member.settings.single_threaded:
        member.task_ms = member.heartbeat.heartbeat.deadline_ms


def _failed(member: Member, now_ms: int) -> None:
    if member.settings.single_threaded:
        member.heartbeat.in_flight = False
        member.task_ms = now_ms + member.settings.retry_backoff_ms
    else:
        member.heartbeat.failed(now_ms)

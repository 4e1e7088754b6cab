"""Entry point `step(member, event, now_ms)`: makes all decisions, changes the member, returns requests to send.

It uses no clock, no randomness and no I/O: `now_ms` is passed in and never decreases, random numbers come from
`member.random`. After each step, `member.next_deadline_ms` is the time to wake the member if no other event occurs. A
step's cost does not depend on the number of members or on the time since the last step.

A consumer is two threads that share one network client: the application's, which runs only during a call (poll,
commitSync, close), and the heartbeat thread, which runs while the member has a generation. Either of them reads the
network. While neither does, responses wait in `member.inbox`, as they would wait in the socket.

Nearly all steps are heartbeats: when one is due, the step returns it, and its response moves a deadline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from coordinatord.testing.member import (
    committing,
    events,
    fetching,
    finding,
    heartbeats,
    joining,
    metadata,
    network,
    positions,
)
from coordinatord.testing.member.calls import acquire
from coordinatord.testing.member.consumer import heartbeats as consumer_heartbeats
from coordinatord.testing.member.consumer.state import RECONCILING
from coordinatord.testing.member.polling import begin_close, continue_poll, unsubscribe, wake_up
from coordinatord.testing.member.result import Result
from coordinatord.testing.member.send import Send
from coordinatord.testing.member.state import Member
from coordinatord.testing.member.timer import check_timeout
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.api.fetch import FetchRequest
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.leave_group import LeaveGroupRequest
from kafka_wire.api.list_offsets import ListOffsetsRequest
from kafka_wire.api.metadata import MetadataRequest
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.api.offset_fetch import OffsetFetchRequest
from kafka_wire.api.sync_group import SyncGroupRequest
from kafka_wire.errors import ErrorCode

IN_BACKGROUND: Final = frozenset(
    {events.Woken, events.Received, events.Failed, events.Unsupported, events.Poll, events.Close}
)
"""Events after which a member of the consumer protocol sends the heartbeat that is due. After other events, which only
change its state, its next deadline is due at once.
"""

NOTHING = Result()
"""Result of an event without requests and results. Shared, so it must not be changed."""


def step(member: Member, event: Any, now_ms: int) -> Result:
    """Handle one event of events.py. Raises the exceptions of the application's call, such as ValueError."""
    result = HANDLERS[type(event)](member, event, now_ms)
    if member.membership is not None and type(event) in IN_BACKGROUND:
        result = _take_part(member, now_ms, result)
    for send in result.sends:
        send.sent_ms = now_ms
    return result


def _take_part(member: Member, now_ms: int, result: Result) -> Result:
    """Run the background thread of the consumer protocol: send the heartbeat that is due."""
    if now_ms < member.next_background_ms:
        return result
    if result is NOTHING:
        result = Result()
    consumer_heartbeats.tick(member, now_ms, result)
    assert member.membership is not None
    if member.membership.state is RECONCILING and member.in_poll:
        continue_poll(member, now_ms, result)  # the next assignment arrived before the last one was acknowledged
    return result


def woken(member: Member, event: events.Woken, now_ms: int) -> Result:
    """Handle a deadline that has passed; a call that is too early does no harm."""
    result = Result()
    in_call = member.in_poll or member.sync_commit is not None or member.closing is not None
    if member.heartbeats and not member.settings.single_threaded:
        state, coordinator = member.state, member.coordinator
        heartbeats.tick(member, now_ms, result)
        if in_call and (member.state is not state or member.coordinator != coordinator):
            continue_poll(member, now_ms, result)
            return result
    if in_call and now_ms >= min(member.wake_ms, member.task_ms, member.poll_until_ms if member.in_poll else 1 << 62):
        continue_poll(member, now_ms, result)
    return result


def received(member: Member, event: events.Received, now_ms: int) -> Result:
    """Handle a response."""
    return _arrived(member, event.send, event.response, now_ms)


def failed(member: Member, event: events.Failed, now_ms: int) -> Result:
    """Handle a request that will get no response."""
    return _arrived(member, event.send, None, now_ms)


def unsupported(member: Member, event: events.Unsupported, now_ms: int) -> Result:
    """Report UNSUPPORTED_VERSION to the call that waits for the response: the commit, or else the poll."""
    send = event.send
    if send.abandoned:
        return NOTHING
    result = Result()
    member.in_flight.pop(send, None)
    if type(send.request) is OffsetCommitRequest:
        committing.unsupported(member, send, now_ms, result)
    elif type(send.request) is ConsumerGroupHeartbeatRequest:
        consumer_heartbeats.unsupported(member, send, event.what, now_ms, result)
    elif type(send.request) in (JoinGroupRequest, SyncGroupRequest):
        joining.unsupported(member, event.what)
    else:
        member.failure = (ErrorCode.UNSUPPORTED_VERSION, event.what)
        network.fail(member, send, now_ms, result)
    continue_poll(member, now_ms, result)
    return result


def _arrived(member: Member, send: Send, response: Any, now_ms: int) -> Result:
    if send.abandoned:
        return NOTHING
    if not member.is_reading:
        member.inbox.append((send, response))
        return NOTHING
    if type(response) is HeartbeatResponse and not response.error_code and not member.rejoin_needed:
        member.in_flight.pop(send, None)
        heartbeats.answered(member, send, response, now_ms, NOTHING)
        return NOTHING
    result = Result()
    network.deliver(member, send, response, now_ms, result)
    continue_poll(member, now_ms, result)
    return result


def _read_inbox(member: Member, now_ms: int, result: Result) -> None:
    while member.inbox:
        send, response = member.inbox.popleft()
        network.deliver(member, send, response, now_ms, result)


def poll(member: Member, event: events.Poll, now_ms: int) -> Result:
    """Begin a poll of the application."""
    acquire(member, "poll")
    check_timeout(event.timeout_ms)
    result = Result()
    if not member.is_subscribed:
        raise ValueError("subscribe to at least one topic before you poll")
    member.in_poll = True
    member.poll_until_ms = now_ms + event.timeout_ms
    member.find_attempts = 0
    _read_inbox(member, now_ms, result)
    if member.heartbeats and not member.settings.single_threaded:
        heartbeats.tick(member, now_ms, result)
    continue_poll(member, now_ms, result)
    return result


def wakeup(member: Member, event: events.Wakeup, now_ms: int) -> Result:
    """End the current poll, at the request of the application."""
    result = Result()
    wake_up(member, now_ms, result)
    return result


def subscribe(member: Member, event: events.Subscribe, now_ms: int) -> Result:
    """Replace the subscription from the next poll on; without topics the member leaves at once."""
    topics = frozenset(event.topics)
    if event.pattern is not None and (member.membership is None or topics):
        raise ValueError("a regular expression needs group.protocol=consumer, and no topics beside it")
    member.subscription = topics
    if member.membership is not None:
        member.membership.pattern = event.pattern or None
        member.membership.wants_in = member.is_subscribed
    if member.is_subscribed:
        return NOTHING
    result = Result()
    unsubscribe(member, None, "the consumer unsubscribed from all topics", now_ms, result)
    return result


def rejoin(member: Member, event: events.Rejoin, now_ms: int) -> Result:
    """Request a rejoin at the next poll."""
    member.request_rejoin(event.reason)
    return NOTHING


def commit(member: Member, event: events.Commit, now_ms: int) -> Result:
    """Begin a commit; see committing.py."""
    if event.timeout_ms is not None:
        acquire(member, "commit")
        check_timeout(event.timeout_ms)
    result = Result()
    committing.commit(member, event, now_ms, result)
    if member.sync_commit is not None:
        _read_inbox(member, now_ms, result)
        continue_poll(member, now_ms, result)
    return result


def seek(member: Member, event: events.Seek, now_ms: int) -> Result:
    """Set the position. Kept records of another offset will be dropped. Raises ValueError for a negative offset."""
    state = member.owned(event.partition)
    if isinstance(event.offset, str):
        positions.reset(member, event.partition, event.offset)
    else:
        if event.offset < 0:
            raise ValueError(f"an offset must not be negative: {event.offset}")
        state.position, state.reset, state.retry_at_ms, state.leader_epoch = event.offset, None, 0, -1
    return NOTHING


def pause(member: Member, event: events.Pause, now_ms: int) -> Result:
    """Pause partitions until `Resume`, or until they are given up."""
    for partition in event.partitions:
        member.owned(partition).paused = True
    return NOTHING


def resume(member: Member, event: events.Resume, now_ms: int) -> Result:
    """Resume partitions; the next poll fetches them again."""
    for partition in event.partitions:
        member.owned(partition).paused = False
    return NOTHING


def close(member: Member, event: events.Close, now_ms: int) -> Result:
    """Commit, leave, stop."""
    result = Result()
    if member.closed or member.closing is not None:
        acquire(member, "close")
    check_timeout(event.timeout_ms)
    member.closing = event
    _read_inbox(member, now_ms, result)
    begin_close(member, now_ms, result)
    continue_poll(member, now_ms, result)
    return result


def _heartbeat_unanswered(member: Member, send: Send, now_ms: int, result: Result) -> None:
    heartbeats.unanswered(member, now_ms)


def _found(member: Member, send: Send, response: Any, now_ms: int, result: Result) -> None:
    finding.found(member, send, response, now_ms, result)
    if member.settings.single_threaded and member.coordinator is not None and member.generation.generation_id >= 0:
        heartbeats.schedule_task(member, now_ms)
    committing.send_waiting(member, now_ms, result)


def _not_found(member: Member, send: Send, now_ms: int, result: Result) -> None:
    finding.not_found(member, send, now_ms, result)
    committing.send_waiting(member, now_ms, result)


def _metadata_received(member: Member, send: Send, response: Any, now_ms: int, result: Result) -> None:
    if metadata.received(member, send, response, now_ms, result):
        joining.go_on_leading(member, result)


def _left(member: Member, send: Send, response: Any, now_ms: int, result: Result) -> None:
    """Do nothing: the response is ignored; a close waits for it."""


def _not_left(member: Member, send: Send, now_ms: int, result: Result) -> None:
    """Do nothing: LeaveGroup is not repeated."""


network.HANDLERS.update(
    {
        HeartbeatRequest: (heartbeats.answered, _heartbeat_unanswered),
        ConsumerGroupHeartbeatRequest: (consumer_heartbeats.answered, consumer_heartbeats.unanswered),
        FindCoordinatorRequest: (_found, _not_found),
        JoinGroupRequest: (joining.joined, joining.unanswered),
        SyncGroupRequest: (joining.synced, joining.unanswered),
        LeaveGroupRequest: (_left, _not_left),
        OffsetCommitRequest: (committing.answered, committing.unanswered),
        OffsetFetchRequest: (positions.committed, positions.committed_unanswered),
        ListOffsetsRequest: (positions.looked_up, positions.not_looked_up),
        FetchRequest: (fetching.fetched, fetching.not_fetched),
        MetadataRequest: (_metadata_received, metadata.failed),
    }
)

HANDLERS: dict[type[Any], Callable[[Member, Any, int], Result]] = {
    events.Woken: woken,
    events.Received: received,
    events.Failed: failed,
    events.Unsupported: unsupported,
    events.Poll: poll,
    events.Wakeup: wakeup,
    events.Subscribe: subscribe,
    events.Rejoin: rejoin,
    events.Commit: commit,
    events.Seek: seek,
    events.Pause: pause,
    events.Resume: resume,
    events.Close: close,
}

"""Search for the group's coordinator: from any node, valid until the coordinator fails; repeated after a back-off."""

from __future__ import annotations

from collections.abc import Callable

from coordinatord.testing.member.result import Result
from coordinatord.testing.member.send import ANY_NODE, Send
from coordinatord.testing.member.state import RETRIABLE, Member
from kafka_wire.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_wire.errors import error_of

GROUP_KEY_TYPE = 0


def ensure_coordinator(member: Member, now_ms: int, result: Result) -> bool:
    """Return whether the coordinator is known; if not, ensure that a search is in progress or scheduled."""
    if member.coordinator is not None:
        return True
    if member.finding is None:
        if now_ms < member.find_again_ms:
            member.wake_at(member.find_again_ms)
        else:
            _ask(member, result)
    return False


def found(member: Member, send: Send, response: FindCoordinatorResponse, now_ms: int, result: Result) -> None:
    """Handle the response. Before v4 the coordinator is in its top-level fields."""
    member.finding = None
    answer = response.coordinators[0] if response.coordinators else response
    if answer.error_code:
        error = error_of(answer.error_code)
        if error not in RETRIABLE:
            member.failure = (error, "FindCoordinator")
        _try_again(member, now_ms)
        return
    member.coordinator = answer.node_id
    member.coordinator_address = (answer.host, answer.port)
    member.find_attempts = 0
    member.heartbeat.reset_session_timeout(now_ms)


def not_found(member: Member, send: Send, now_ms: int, result: Result) -> None:
    """Handle a search without a response."""
    member.finding = None
    _try_again(member, now_ms)


def mark_coordinator_unknown(
    member: Member, now_ms: int, result: Result, fail: Callable[[Member, Send, int, Result], None]
) -> None:
    """Drop a coordinator that has failed or moved, and abandon the requests sent to it."""
    if member.coordinator is None:
        return
    member.coordinator = None
    member.find_again_ms = now_ms
    result.disconnect = True
    sends, member.in_flight = list(member.in_flight), {}
    for send in sends:
        send.abandoned = True
        fail(member, send, now_ms, result)


def _ask(member: Member, result: Result) -> None:
    group_id = member.settings.group_id
    request = FindCoordinatorRequest(key=group_id, key_type=GROUP_KEY_TYPE, coordinator_keys=[group_id])
    member.finding = Send(ANY_NODE, False, request, member.settings.request_timeout_ms)
    result.sends.append(member.finding)


def _try_again(member: Member, now_ms: int) -> None:
    member.find_again_ms = now_ms + member.backoff.after_ms(member.find_attempts)
    member.find_attempts += 1
    member.metadata_wanted = True

"""Dispatch of a response, or of its absence, to its handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinatord.testing.member.finding import mark_coordinator_unknown
from coordinatord.testing.member.result import Result
from coordinatord.testing.member.send import Send
from coordinatord.testing.member.state import Member

OnAnswer = Callable[[Member, Send, Any, int, Result], None]
OnFailure = Callable[[Member, Send, int, Result], None]

HANDLERS: dict[type[Any], tuple[OnAnswer, OnFailure]] = {}
"""Handlers by request type; step.py fills it."""


def coordinator_failed(member: Member, now_ms: int, result: Result) -> None:
    """Drop the coordinator. The requests sent to it get no response."""
    mark_coordinator_unknown(member, now_ms, result, fail)


def deliver(member: Member, send: Send, response: Any, now_ms: int, result: Result) -> None:
    """Handle a response; None if no response will arrive."""
    if send.abandoned:
        return
    if response is None:
        if send.group:
            member.in_flight.pop(send, None)
            coordinator_failed(member, now_ms, result)
        fail(member, send, now_ms, result)
        return
    if send.group:
        member.in_flight.pop(send, None)
    HANDLERS[type(send.request)][0](member, send, response, now_ms, result)


def fail(member: Member, send: Send, now_ms: int, result: Result) -> None:
    """Handle the failure of a request: no response will come."""
    HANDLERS[type(send.request)][1](member, send, now_ms, result)

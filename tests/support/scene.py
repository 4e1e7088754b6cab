"""A router and its connections in memory, with a handler of each kind."""

from __future__ import annotations

from typing import Any

from coordinatord.transport.net.request import RequestContext
from kafka_wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.sync_group import SyncGroupResponse
from kafka_wire.errors import ErrorCode
from tests.support.shell import Gate, Turns, Wire, make_door

HEARTBEAT = HeartbeatRequest("g", 1, "m")
JOIN = JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", [])


class Scene:
    """A router with three handlers: heartbeats answer at once, joins park, syncs wait for the log."""

    def __init__(self, **limits: Any) -> None:
        self.turns = Turns()
        self.gate = Gate()
        self.parked: list[RequestContext] = []
        self.epoch = 0
        self.door = make_door({12: self.heartbeat, 11: self.join, 14: self.sync}, self.turns, self.gate, **limits)
        self.seen: list[str] = []

    def wire(self) -> Wire:
        return Wire(self.door, self.turns)

    def heartbeat(self, context: RequestContext, request: Any) -> HeartbeatResponse:
        self.seen.append("heartbeat")
        return HeartbeatResponse()

    def join(self, context: RequestContext, request: Any) -> None:
        self.seen.append("join")
        self.parked.append(context)

    def sync(self, context: RequestContext, request: Any) -> None:
        self.seen.append("sync")
        self.epoch += 1
        failed = SyncGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        response = SyncGroupResponse(assignment=b"yours")
        context.answer_at(self.epoch, response, lambda: failed, is_patient=request.group_id == "patient")


def answer_kinds(wire: Wire) -> list[tuple[int, str]]:
    return [(correlation_id, type(answer).__name__) for correlation_id, answer in wire.answers]

"""Heartbeat: keep a member's session alive; the response shows when the member must rejoin for a rebalance.

v1 throttle time · v3 group_instance_id · v4 flexible
"""

from __future__ import annotations

from kafka_wire.schema import int16, int32, message, string


@message(versions="0-4", flexible="4+", api_key=12)
class HeartbeatRequest:
    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


@message(versions="0-4", flexible="4+", api_key=12)
class HeartbeatResponse:
    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0+")

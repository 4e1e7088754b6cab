"""ListGroups: the groups that a broker coordinates.

v1 throttle time · v3 flexible · v4 states filter (KIP-518) · v5 types filter (KIP-848)
"""

from __future__ import annotations

from kafka_wire.schema import array, int16, int32, message, string


@message(versions="0-5", flexible="3+", api_key=16)
class ListGroupsRequest:
    states_filter: list[str] = array(string, "4+")
    types_filter: list[str] = array(string, "5+")


@message()
class ListedGroup:
    group_id: str = string("0+")
    protocol_type: str = string("0+")
    group_state: str = string("4+")
    group_type: str = string("5+")


@message(versions="0-5", flexible="3+", api_key=16)
class ListGroupsResponse:
    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0+")
    groups: list[ListedGroup] = array(ListedGroup, "0+")

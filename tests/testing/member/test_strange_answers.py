"""Answers that no broker gives: whatever a well-formed message says, the member goes on or tells the application."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from coordinatord.testing.member.events import Received
from coordinatord.testing.member.subscription import encode_assignment, encode_subscription
from kafka_wire.api.fetch import FetchRequest, FetchResponse
from kafka_wire.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_wire.api.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafka_wire.api.metadata import MetadataRequest, MetadataResponse
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_wire.errors import ErrorCode
from kafka_wire.registry import versions_of
from kafka_wire.schema import schema_of
from tests.protocol.arbitrary import messages
from tests.testing.member.lab import GENERATION, MEMBER_ID, NODE, Lab

RESPONSES: dict[type[Any], type[Any]] = {
    FindCoordinatorRequest: FindCoordinatorResponse,
    MetadataRequest: MetadataResponse,
    JoinGroupRequest: JoinGroupResponse,
    SyncGroupRequest: SyncGroupResponse,
    HeartbeatRequest: HeartbeatResponse,
    OffsetFetchRequest: OffsetFetchResponse,
    ListOffsetsRequest: ListOffsetsResponse,
    OffsetCommitRequest: OffsetCommitResponse,
    FetchRequest: FetchResponse,
}
TURNS = 6


def _any(request: type[Any]) -> st.SearchStrategy[Any]:
    response = RESPONSES[request]
    served = versions_of(schema_of(request).api_key or 0)
    return st.integers(served.first, served.last).flatmap(lambda version: messages(response, version))


def plausible(message: Any, draw: Any) -> Any:
    """Half of the time, in each place, what a broker might say: else nearly all answers would be unheard-of errors."""
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        if isinstance(value, list):
            for each in value:
                if dataclasses.is_dataclass(each):
                    plausible(each, draw)
        elif field.name in LIKELY and draw(st.booleans()):
            setattr(message, field.name, draw(st.sampled_from(LIKELY[field.name])))
    return message


LIKELY: dict[str, list[Any]] = {
    "error_code": [0, 0, 0, *(int(each) for each in ErrorCode)],
    "name": ["t"],
    "topic": ["t"],
    "partition_index": [0, 1, 2],
    "member_id": [MEMBER_ID],
    "leader": [MEMBER_ID],
    "generation_id": [GENERATION, GENERATION + 1],
    "protocol_type": ["consumer", None],
    "protocol_name": ["range", "cooperative-sticky"],
    "node_id": [NODE],
    "leader_id": [NODE, -1],
    "assignment": [encode_assignment([("t", 0)]), encode_assignment([("t", 7), ("u", 0)])],
    "metadata": [encode_subscription(frozenset("t"), None, (), GENERATION, None), b""],
    "offset": [0, 5, -1],
    "committed_offset": [0, 5, -1],
}


def begin(kind: type[Any]) -> Lab:
    """A member that waits for the answer to such a request."""
    if kind in (FindCoordinatorRequest, MetadataRequest):
        lab = Lab(metadata_max_age_ms=1_000)
        lab.poll(10**6)
        return lab
    lab = Lab(enable_auto_commit=True, auto_commit_interval_ms=1_000)
    if kind is JoinGroupRequest:
        lab.preparing()
        lab.poll(10**6)
        return lab
    lab.completing(leads=True)
    if kind is SyncGroupRequest:
        return lab
    lab.sync(("t", 0), ("t", 1))
    if kind is OffsetFetchRequest:
        return lab
    lab.committed_offsets(-1 if kind is ListOffsetsRequest else 10)
    if kind in (HeartbeatRequest, OffsetCommitRequest):
        lab.advance(3_000)
    return lab


@pytest.mark.parametrize("kind", RESPONSES, ids=lambda kind: kind.__name__)
@settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(data=st.data())
def test_it_goes_on_or_tells_the_application(kind: type[Any], data: st.DataObject) -> None:
    lab = begin(kind)
    assert lab.waiting(kind)
    for _ in range(TURNS):
        waiting = [send for send in lab.sent if type(send.request) in RESPONSES]
        if waiting:
            send = data.draw(st.sampled_from(waiting))
            lab.sent.remove(send)
            lab.tell(Received(send, plausible(data.draw(_any(type(send.request))), data.draw)))
        lab.advance(2_000)
        if not lab.member.in_poll and lab.member.sync_commit is None:
            lab.poll(1_000_000)
    assert all(isinstance(each.error, ErrorCode | None) for each in lab.polled)


def test_an_error_that_is_newer_than_we_are_is_the_applications() -> None:
    lab = Lab().preparing()
    lab.poll(10_000)
    lab.answer(JoinGroupRequest, JoinGroupResponse(error_code=9_999))
    assert lab.polled[-1].error is ErrorCode.UNKNOWN_SERVER_ERROR

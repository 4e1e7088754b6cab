"""Requests as bytes, made by our own encoders before the clock runs: the same ones go to every server.

All frames carry the same correlation id, so that answers can be compared as whole bytes; no server minds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.client import codec_of, request_frame
from kafka_wire.codecs import encode_message
from kafka_wire.records.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition

CLIENT_ID = "bench"
CORRELATION_ID = 1

# Of today's clients; every server here serves them.
VERSIONS: dict[type[Any], int] = {
    FindCoordinatorRequest: 4,
    JoinGroupRequest: 9,
    SyncGroupRequest: 5,
    HeartbeatRequest: 4,
    ConsumerGroupHeartbeatRequest: 1,
    OffsetCommitRequest: 8,
    OffsetFetchRequest: 8,
}

TOPIC = "bench"
PARTITIONS = 4
PROTOCOL_TYPE, PROTOCOL = "consumer", "range"
SESSION_TIMEOUT_MS = 1_800_000  # the longest that Kafka allows: no group may end while another server is measured


class Versioned(NamedTuple):
    """A request in another version than that of `VERSIONS`."""

    request: Any
    version: int | None


def frame(request: object, version: int | None = None) -> bytes:
    """A request with its size and header."""
    return request_frame(request, VERSIONS[type(request)] if version is None else version, CORRELATION_ID, CLIENT_ID)


def response(request: object, answer: bytes, version: int | None = None) -> Any:
    """The decoded answer to a request; `answer` is a whole frame."""
    used = codec_of(request, VERSIONS[type(request)] if version is None else version)
    assert int.from_bytes(answer[4:8], "big") == CORRELATION_ID, "an answer out of turn"
    return used.decode_response(answer, 9 if used.response_header_flexible else 8, len(answer))


def _versioned(message: object, version: int) -> bytes:
    return version.to_bytes(2, "big") + encode_message(message, version)


def subscription(user_data: bytes = b"") -> bytes:
    """What a member of the benchmark's groups says of itself; `user_data` makes it another's."""
    return _versioned(ConsumerProtocolSubscription([TOPIC], user_data), 1)


ASSIGNMENT = _versioned(ConsumerProtocolAssignment([TopicPartition(TOPIC, list(range(PARTITIONS)))], b""), 1)


def join(group: str, member_id: str = "", metadata: bytes | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=SESSION_TIMEOUT_MS,
        member_id=member_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[JoinGroupRequestProtocol(PROTOCOL, metadata or subscription())],
        reason="" if member_id else "bench",
    )


def sync(group: str, generation: int, member_id: str, assigned: list[str]) -> SyncGroupRequest:
    """`assigned`: the members that a leader has something for."""
    return SyncGroupRequest(
        group,
        generation,
        member_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=PROTOCOL,
        assignments=[SyncGroupRequestAssignment(each, ASSIGNMENT) for each in assigned],
    )


def commit(group: str, generation: int, member_id: str, offset: int, partitions: int = PARTITIONS) -> Any:
    """A commit of one offset for the first partitions of the topic."""
    each = [OffsetCommitRequestPartition(index, offset, -1, "") for index in range(partitions)]
    return OffsetCommitRequest(group, generation, member_id, topics=[OffsetCommitRequestTopic(TOPIC, partitions=each)])


FETCH_GROUPS_FROM = 8


def offset_fetch_in(version: int, group: str, partitions: int = PARTITIONS) -> Versioned:
    """The same question in any version."""
    if version >= FETCH_GROUPS_FROM:
        return Versioned(offset_fetch(group, partitions), version)
    topics = [OffsetFetchRequestTopic(TOPIC, list(range(partitions)))]
    return Versioned(OffsetFetchRequest(group, topics), version)


def offset_fetch(group: str, partitions: int = PARTITIONS) -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics(TOPIC, partition_indexes=list(range(partitions)))]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)])

"""A coordinator in a thread, and members that are nothing but frames."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from coordinatord.testing import Kafka
from coordinatord.testing.member.subscription import encode_assignment, encode_subscription
from coordinatord.testing.wire import Wire
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.client import request_frame

GROUP = "g"
TOPIC = "t"
SESSION_MS = 60_000
JOIN_VERSION = 9


class Client:
    """A client id with a connection."""

    def __init__(self, kafka: Kafka, client_id: str) -> None:
        host, _colon, port = kafka.bootstrap_servers.rpartition(":")
        self.wire = Wire(lambda: (host, int(port)), client_id)
        self.client_id = client_id
        self.member_id = ""
        self.generation = -1

    def join(self, group: str = GROUP) -> Client:
        """Join a group as its only member, which assigns the topic's first partition to itself."""
        for _ in range(2):
            joined = self.wire.ask(self.join_request(group), JOIN_VERSION)
            self.member_id = joined.member_id
        self.generation = joined.generation_id
        assignment = SyncGroupRequestAssignment(self.member_id, encode_assignment([(TOPIC, 0)]))
        asked_sync = SyncGroupRequest(group, self.generation, self.member_id, None, "consumer", "range", [assignment])
        assert self.wire.ask(asked_sync, 5).error_code == 0
        return self

    def join_request(self, group: str = GROUP) -> JoinGroupRequest:
        """A request to join, as the member that it is."""
        protocol = JoinGroupRequestProtocol("range", encode_subscription([TOPIC], None, [], -1, None))
        return JoinGroupRequest(group, SESSION_MS, SESSION_MS, self.member_id, None, "consumer", [protocol])

    def heartbeat(self, group: str = GROUP) -> int:
        """The error code of a heartbeat."""
        request = HeartbeatRequest(group, self.generation, self.member_id)
        error_code: int = self.wire.ask(request, 4).error_code
        return error_code

    def heartbeat_frame(self, group: str = GROUP) -> bytes:
        """A heartbeat as it is sent."""
        return self.frame(HeartbeatRequest(group, self.generation, self.member_id), 4)

    def frame(self, request: Any, version: int) -> bytes:
        """A request as it is sent."""
        return request_frame(request, version, 1, self.client_id)

    def socket(self) -> socket.socket:
        """The socket of its connection."""
        (connection,) = self.wire._connections.values()
        return connection.socket

    def commit(self, offset: int, group: str = GROUP) -> int:
        """The error code of a commit."""
        topic = OffsetCommitRequestTopic(TOPIC, partitions=[OffsetCommitRequestPartition(0, offset, -1, "")])
        request = OffsetCommitRequest(group, self.generation, self.member_id, None, topics=[topic])
        error_code: int = self.wire.ask(request, 9).topics[0].partitions[0].error_code
        return error_code


@contextmanager
def coordinator(**arguments: Any) -> Iterator[Kafka]:
    """A coordinator with the topic."""
    with Kafka(topics={TOPIC: 1}, **arguments) as kafka:
        yield kafka

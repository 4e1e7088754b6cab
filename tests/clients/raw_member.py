"""The consumer's half of the group protocol on a bare connection, in the versions and with the manners of kafka-python.

member = RawMember(line, "group", {"topic": 6})
await member.join()                     # JoinGroup and SyncGroup, as often as it takes
await member.heartbeat()                # an ErrorCode
await member.commit({("topic", 0): 17})
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TypeAlias

from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.codecs import decode_message, encode_message
from kafka_wire.errors import ErrorCode
from kafka_wire.records.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition
from tests.clients.raw import Line

JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION, COMMIT_VERSION = 7, 5, 4, 5, 8  # kafka-python 3.0.12's
PROTOCOL = "range"
RETRY_S = 0.05

Partition: TypeAlias = tuple[str, int]

RETRIABLE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
}


class Refused(Exception):
    """The coordinator answered with an error that a member cannot do anything about."""


def versioned(message: object, version: int) -> bytes:
    """What the consumer protocol puts in front of its messages: their version."""
    return version.to_bytes(2, "big") + encode_message(message, version)


class RawMember:
    """One member. It can be given another `line` when its connection is lost, and is the same member then."""

    def __init__(
        self,
        line: Line | None,
        group: str,
        topics: Mapping[str, int],
        *,
        session_timeout_ms: int = 45_000,
        rebalance_timeout_ms: int = 300_000,
    ) -> None:
        self.line = line
        self.group = group
        self.topics = topics  # name -> how many partitions it has, for when we are the leader
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = ""
        self.generation = -1
        self.assignment: list[Partition] = []
        self.joins = 0

    async def join(self) -> None:
        """Until the group is stable and this member is in it."""
        assert self.line is not None
        subscription = versioned(ConsumerProtocolSubscription(sorted(self.topics)), 1)
        while True:
            joined: JoinGroupResponse = await self.line.ask(
                JoinGroupRequest(
                    group_id=self.group,
                    session_timeout_ms=self.session_timeout_ms,
                    rebalance_timeout_ms=self.rebalance_timeout_ms,
                    member_id=self.member_id,
                    protocol_type="consumer",
                    protocols=[JoinGroupRequestProtocol(PROTOCOL, subscription)],
                ),
                JOIN_VERSION,
            )
            if joined.error_code == ErrorCode.NONE:
                self.member_id, self.generation = joined.member_id, joined.generation_id
                if await self._sync(joined):
                    self.joins += 1
                    return
            elif joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = joined.member_id
            else:
                await self._put_up_with(joined.error_code)

    async def _sync(self, joined: JoinGroupResponse) -> bool:
        assert self.line is not None
        request = SyncGroupRequest(
            self.group, self.generation, self.member_id, protocol_type="consumer", protocol_name=PROTOCOL
        )
        if joined.leader == self.member_id:
            members = sorted(each.member_id for each in joined.members)
            partitions = [(topic, number) for topic, count in sorted(self.topics.items()) for number in range(count)]
            request.assignments = [
                SyncGroupRequestAssignment(member_id, _assignment(partitions[index :: len(members)]))
                for index, member_id in enumerate(members)
            ]
        synced = await self.line.ask(request, SYNC_VERSION)
        if synced.error_code != ErrorCode.NONE:
            await self._put_up_with(synced.error_code)
            return False
        assigned = decode_message(ConsumerProtocolAssignment, 1, synced.assignment[2:])
        self.assignment = [(each.topic, number) for each in assigned.assigned_partitions for number in each.partitions]
        return True

    async def _put_up_with(self, error_code: int) -> None:
        if error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id, self.generation = "", -1
        elif error_code in RETRIABLE:
            await asyncio.sleep(RETRY_S)
        else:
            raise Refused(ErrorCode(error_code).name)

    async def heartbeat(self) -> ErrorCode:
        assert self.line is not None
        request = HeartbeatRequest(self.group, self.generation, self.member_id)
        return ErrorCode((await self.line.ask(request, HEARTBEAT_VERSION)).error_code)

    async def commit(self, offsets: Mapping[Partition, int]) -> dict[Partition, ErrorCode]:
        assert self.line is not None
        request = commit_request(self.group, offsets, self.generation, self.member_id)
        return commit_errors(await self.line.ask(request, COMMIT_VERSION))

    async def leave(self) -> None:
        assert self.line is not None
        await self.line.ask(LeaveGroupRequest(self.group, members=[MemberIdentity(self.member_id)]), LEAVE_VERSION)
        self.member_id, self.generation, self.assignment = "", -1, []


def _assignment(partitions: list[Partition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return versioned(ConsumerProtocolAssignment([TopicPartition(*each) for each in by_topic.items()], b""), 1)


def commit_request(
    group: str, offsets: Mapping[Partition, int], generation: int = -1, member_id: str = ""
) -> OffsetCommitRequest:
    """OffsetCommit with each offset as its metadata too, so that a reader can tell a record that is not whole."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, number), offset in offsets.items():
        by_topic.setdefault(topic, []).append(OffsetCommitRequestPartition(number, offset, -1, str(offset)))
    topics = [OffsetCommitRequestTopic(name=topic, partitions=each) for topic, each in by_topic.items()]
    return OffsetCommitRequest(group, generation, member_id, topics=topics)


def commit_errors(response: object) -> dict[Partition, ErrorCode]:
    return {
        (topic.name, each.partition_index): ErrorCode(each.error_code)
        for topic in response.topics  # type: ignore[attr-defined]
        for each in topic.partitions
    }

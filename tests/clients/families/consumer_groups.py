"""Groups of the consumer protocol (KIP-848), as frames of our own see them, and what makes them for admin clients."""

from __future__ import annotations

import asyncio
import uuid

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from kafka_wire.api.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from kafka_wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.errors import ErrorCode
from tests.clients.raw import Line
from tests.support.waiting import PATIENCE_S

NOT_YET = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
RETRY_S = 0.05


def set_session_timeout(bootstrap: str, group: str, timeout_ms: int) -> None:
    """Have the group's members expelled after this time of silence: the group's own setting."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    settings = {"consumer.session.timeout.ms": str(timeout_ms)}
    altered = admin.alter_configs([ConfigResource(ConfigResourceType.GROUP, group, settings)], raise_on_unknown=False)
    admin.close()
    assert all(answer == "OK" for names in altered.values() for answer in names.values()), altered


def described(bootstrap: str, group: str) -> DescribedGroup:
    """ConsumerGroupDescribe, as the group's coordinator answers it."""

    async def ask() -> DescribedGroup:
        line = await coordinator(bootstrap, group)
        answer = await line.ask(ConsumerGroupDescribeRequest([group]), 1)
        line.close()
        (found,) = answer.groups
        return found

    found = asyncio.run(ask())
    assert found.error_code == ErrorCode.NONE, (ErrorCode(found.error_code).name, found.error_message)
    return found


async def coordinator(bootstrap: str, group: str) -> Line:
    """A connection to the group's coordinator."""
    host, port = bootstrap.split(":")
    line = await Line.connect(host, int(port), client_id="test")
    deadline_s = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        (found,) = (await line.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4)).coordinators
        if found.error_code == ErrorCode.NONE:
            break
        assert asyncio.get_running_loop().time() < deadline_s, ErrorCode(found.error_code).name
        await asyncio.sleep(RETRY_S)
    line.close()
    return await Line.connect(found.host, found.port, client_id="test")


def join_members(bootstrap: str, group: str, topic: str, members: int) -> list[str]:
    """Members that join, take what they are assigned until nothing is to be done, and are silent then; their ids."""
    return asyncio.run(_join(bootstrap, group, topic, members))


async def _join(bootstrap: str, group: str, topic: str, members: int) -> list[str]:
    line = await coordinator(bootstrap, group)
    epochs = {str(uuid.uuid4()): 0 for _ in range(members)}
    owned: dict[str, list[TopicPartitions]] = {member_id: [] for member_id in epochs}
    deadline_s = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        for member_id, epoch in epochs.items():
            request = ConsumerGroupHeartbeatRequest(
                group_id=group,
                member_id=member_id,
                member_epoch=epoch,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=[topic],
                topic_partitions=owned[member_id],
            )
            answer = await beat(line, request)
            epochs[member_id] = answer.member_epoch
            if answer.assignment is not None:
                owned[member_id] = answer.assignment.topic_partitions
        (group_now,) = (await line.ask(ConsumerGroupDescribeRequest([group]), 1)).groups
        if group_now.group_state == "Stable" and all(owned.values()):
            line.close()
            return list(epochs)
        assert asyncio.get_running_loop().time() < deadline_s, group_now


async def beat(line: Line, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    """A heartbeat, until the coordinator is there."""
    deadline_s = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        answer: ConsumerGroupHeartbeatResponse = await line.ask(request, 1)
        if answer.error_code == ErrorCode.NONE:
            return answer
        assert answer.error_code in NOT_YET, (ErrorCode(answer.error_code).name, answer.error_message)
        assert asyncio.get_running_loop().time() < deadline_s, answer
        await asyncio.sleep(RETRY_S)


def leave(bootstrap: str, group: str, member_ids: list[str]) -> None:
    """Have these members leave."""

    async def run() -> None:
        line = await coordinator(bootstrap, group)
        for member_id in member_ids:
            await beat(line, ConsumerGroupHeartbeatRequest(group, member_id, -1))
        line.close()

    asyncio.run(run())

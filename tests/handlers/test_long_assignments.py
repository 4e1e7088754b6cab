"""While a large consumer group's partitions are assigned, other groups are served."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from coordinatord.base import budget
from coordinatord.coordination.group.consumer.sessions import ASSIGNMENT
from coordinatord.coordination.group.events import TimedOut
from coordinatord.testing.conform.raw_client import RawClient
from kafka_wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.errors import ErrorCode
from tests.reference.in_process import InProcess, run, running_in_process

MEMBERS, PARTITIONS = 60, 1_000


async def heartbeat(client: RawClient, group_id: str, member_id: str, epoch: int) -> Any:
    """Join with epoch 0."""
    request = ConsumerGroupHeartbeatRequest(group_id, member_id, epoch)
    if epoch == 0:
        request.rebalance_timeout_ms = 60_000
        request.subscribed_topic_names = ["large" if group_id == "large" else "small"]
        request.topic_partitions = []
    answer = await client.ask(request, 1)
    assert answer.error_code == ErrorCode.NONE, answer
    return answer


async def grown(ours: InProcess) -> tuple[RawClient, RawClient]:
    """A large group whose partitions are about to be assigned to all its members, and a small one."""
    large, small = await ours.connect("large"), await ours.connect("small")
    topics = [CreatableTopic("large", PARTITIONS, 1), CreatableTopic("small", 1, 1)]
    await large.ask(CreateTopicsRequest(topics, 60_000), 4)
    for number in range(MEMBERS):
        await heartbeat(large, "large", f"m{number}", 0)
    await asyncio.sleep(1.5)  # more than the assignment interval
    return large, small


def test_another_group_is_served_between_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "SLICE_WORK", 100)
    told: list[str] = []

    async def main() -> None:
        async with running_in_process(tmp_path, {}) as ours:
            large, small = await grown(ours)
            joined = await heartbeat(small, "small", "s", 0)
            step = ours.daemon.coordinator.step

            def counted(state: Any, event: Any, now_ms: int) -> Any:
                if isinstance(event, TimedOut) and event.key.kind == ASSIGNMENT:
                    told.append("slice")
                return step(state, event, now_ms)

            ours.daemon.coordinator.step = counted
            waiting = asyncio.create_task(heartbeat(large, "large", "m1", 2))
            while not waiting.done():
                await heartbeat(small, "small", "s", joined.member_epoch)
                told.append("heartbeat")
                await asyncio.sleep(0.005)
            answer = await waiting
            assert answer.member_epoch == MEMBERS + 1
            described = await small.ask(ConsumerGroupDescribeRequest(["large"]), 1)
            targets = [
                len(part.partitions)
                for member in described.groups[0].members
                for part in member.target_assignment.topic_partitions
            ]
            assert sum(targets) == PARTITIONS
            assert max(targets) - min(targets) <= 1

    run(main())
    assert told.count("slice") > 10
    assert "slice slice slice slice" not in " ".join(told)


def test_who_waits_is_answered_when_the_daemon_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a daemon that is started on the same log assigns."""
    monkeypatch.setattr(budget, "SLICE_WORK", 100)

    async def main() -> None:
        async with running_in_process(tmp_path, {}) as ours:
            large, _ = await grown(ours)
            large.send(ConsumerGroupHeartbeatRequest("large", "m1", 2), 1)
            await asyncio.sleep(0.001)
            assert ours.daemon.coordinator.actors["large"].group.consumer.assigning is not None
        answer = await large.receive()
        assert answer is None or answer.message.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        async with running_in_process(tmp_path, {}) as ours:
            again = await ours.connect("large")
            answer = await heartbeat(again, "large", "m1", 2)
            assert answer.member_epoch == MEMBERS + 1

    run(main())

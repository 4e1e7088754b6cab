"""Clients of a daemon of several processes, on bare connections: one to each worker, groups placed where a test wants
them."""

from __future__ import annotations

import asyncio
import os
import signal

from coordinatord.broker.topics.names import OFFSETS_TOPIC
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.cluster.partitioner import partition_for
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_wire.errors import ErrorCode
from tests.clients.raw import Line
from tests.clients.raw_member import Partition, RawMember
from tests.daemon import HOST, Daemon, is_running
from tests.support.waiting import PATIENCE_S, wait_until

OFFSETS_PARTITIONS = 50
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


def worker_of_group(group: str, workers: int) -> int:
    return Nodes(0, workers=workers).worker_of(OFFSETS_TOPIC, partition_for(group, OFFSETS_PARTITIONS))


def group_of(worker: int, workers: int, word: str = "group") -> str:
    """A group that this worker coordinates."""
    return next(name for number in range(1000) if worker_of_group(name := f"{word}-{number}", workers) == worker)


async def connect(daemon: Daemon, worker: int) -> Line:
    return await Line.connect(HOST, daemon.port + worker, "test")


async def make_topic(daemon: Daemon, name: str, partitions: int, worker: int = 0) -> None:
    line = await connect(daemon, worker)
    response = await line.ask(CreateTopicsRequest([CreatableTopic(name, partitions, 1)], 10_000), 7)
    assert response.topics[0].error_code == 0, response.topics[0].error_message
    line.close()


async def joined(daemon: Daemon, group: str, topics: dict[str, int]) -> RawMember:
    """A member of a group, at its coordinator."""
    member = RawMember(await connect(daemon, worker_of_group(group, daemon.workers)), group, topics)
    await asyncio.wait_for(member.join(), PATIENCE_S)
    return member


async def come_back(daemon: Daemon, member: RawMember) -> ErrorCode:
    """The same member on another connection: what its heartbeat hears once its groups are loaded. Before that it would
    hear nothing bad whoever it is.
    """
    member.line = await connect(daemon, worker_of_group(member.group, daemon.workers))
    await asyncio.wait_for(offsets_of(member.line, member.group), PATIENCE_S)
    return await asyncio.wait_for(member.heartbeat(), PATIENCE_S)


async def offsets_of(line: Line, group: str) -> dict[Partition, int]:
    """What is committed."""
    while True:
        response = await line.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)]), 8)
        [found] = response.groups
        if found.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            assert found.error_code == 0
            break
        await asyncio.sleep(0.02)
    return {
        (topic.name, each.partition_index): each.committed_offset for topic in found.topics for each in topic.partitions
    }


def kill_worker(daemon: Daemon, worker: int) -> int:
    """SIGKILL, when it has been started again after the last one; its process id. It is dead when this returns, and the
    supervisor is about to hear of it.
    """
    wait_until(lambda: is_running(daemon.worker_pid(worker)))
    pid = daemon.worker_pid(worker)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_running(pid))
    return pid

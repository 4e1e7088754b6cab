"""Two nodes, one database: who leads, who answers, and what a node says that was stopped or has lost its database."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinatord.server.postgresql.store import GAVE_UP
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_wire.api.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import build_batch
from tests.clients.raw import Line
from tests.clients.raw_member import RawMember
from tests.daemon import HOST, Daemon
from tests.server.postgresql.server import Server
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.full, pytest.mark.postgresql, pytest.mark.timeout(600)]

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}
LEASE_MS = 6_000
"""A busy machine may hold a node up for seconds: it must not lose its lease for that."""


class Node(Daemon):
    """A daemon; `mutation` is run in its process before the program."""

    mutation = ""

    def command(self) -> list[str]:
        command = super().command()
        if self.mutation:
            program = f"{self.mutation}; from coordinatord.cli import main; main()"
            command[1:3] = ["-c", program]
        return command


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Makes nodes; kills those that are left."""
    made: list[Node] = []

    def make(url: str, node_id: int, lease_ms: int = LEASE_MS, mutation: str = "", **settings: str) -> Node:
        own = {name.replace("_", "."): value for name, value in settings.items()}
        path = tmp_path / f"node-{node_id}"
        node = Node(
            path, {**SETTINGS, "storage": url, "storage.lease.ms": str(lease_ms), "node.id": str(node_id), **own}
        )
        node.mutation = mutation
        made.append(node)
        return node

    yield make
    for node in made:
        if node.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(node.pid, signal.SIGCONT)
                node.kill()


async def until(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited {PATIENCE_S:g} s for {what}"
        await asyncio.sleep(0.01)


async def reached(node: Daemon) -> Line:
    """A connection to a node that waits: it listens a moment after it has said that it waits."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(OSError):
            return await Line.connect(HOST, node.port, "test")
        assert time.monotonic() < deadline_s, node.log_tail()
        await asyncio.sleep(0.01)


async def connected(node: Daemon) -> Line:
    """A connection, when the node leads: one that waits listens, too, and says that it coordinates nothing."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(OSError):
            line = await Line.connect(HOST, node.port, "test")
            if await committed(line, "nobody") != ErrorCode.NOT_COORDINATOR:
                return line
            line.close()
        assert time.monotonic() < deadline_s, node.log_tail()
        await asyncio.sleep(0.01)


async def commit(line: Line, offset: int, group: str = "group") -> ErrorCode:
    partition = OffsetCommitRequestPartition(0, offset)
    request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("topic", partitions=[partition])])
    answer = await line.ask(request, 8)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def committed(line: Line, group: str = "group") -> int | ErrorCode:
    """The committed offset, -1 if there is none, or the error."""
    answer = await line.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)]), 8)
    [found] = answer.groups
    if found.error_code:
        return ErrorCode(found.error_code)
    return found.topics[0].partitions[0].committed_offset if found.topics else -1


LATER = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)


async def settled(ask: Callable[[], Awaitable[Any]]) -> Any:
    """The first answer that is not "later"."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        answer = await ask()
        if answer not in LATER:
            return answer
        assert time.monotonic() < deadline_s, answer
        await asyncio.sleep(0.02)


MADE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


async def with_topic(node: Daemon) -> Line:
    """A connection, and a topic. A node gives up after a second if the database does not answer: then once more."""
    line = await connected(node)
    request = CreateTopicsRequest([CreatableTopic("topic", 1, 1)])
    deadline_s = time.monotonic() + PATIENCE_S
    while (found := (await line.ask(request, 7)).topics[0].error_code) not in MADE:
        assert time.monotonic() < deadline_s, ErrorCode(found)
        await asyncio.sleep(0.1)
    assert await settled(lambda: commit(line, 1)) == ErrorCode.NONE
    return line


def leads(node: Daemon, term: int) -> bool:
    return bool(node.log_file.exists() and node.events("this node leads", term=term))


def waits(node: Daemon) -> bool:
    return bool(node.log_file.exists() and node.events("another node leads; waiting"))


def test_one_node_leads_and_the_other_takes_over(nodes: Callable[..., Node], database: str) -> None:
    async def play() -> None:
        first, second = nodes(database, 1), nodes(database, 2)
        first.start()
        line = await with_topic(first)
        second.launch()
        await until(lambda: waits(second), "the second to wait")
        assert await commit(line, 2) == ErrorCode.NONE
        early = await reached(second)
        assert await committed(early) == ErrorCode.NOT_COORDINATOR
        first.kill()
        killed_s = time.monotonic()
        line = await connected(second)
        assert await settled(lambda: committed(line)) == 2
        print(f"\nSIGKILL to first answer {time.monotonic() - killed_s:.2f} s, with a lease of {LEASE_MS / 1000:g} s")
        assert await commit(line, 3) == ErrorCode.NONE
        # A planned stop gives the lead back: nobody waits for the lease.
        first.launch()
        await until(lambda: len(first.events("another node leads; waiting")) > 0, "the first to wait")
        assert await asyncio.to_thread(second.stop) == 0
        stopped_s = time.monotonic()
        line = await connected(first)
        assert await settled(lambda: committed(line)) == 3
        print(f"after a planned stop {time.monotonic() - stopped_s:.2f} s")
        assert await asyncio.to_thread(first.stop) == 0
        assert [event["term"] for event in first.events("this node leads")] == [1, 3]

    asyncio.run(play())


def test_a_node_that_waits_stops_when_it_is_told_to(nodes: Callable[..., Node], database: str) -> None:
    """Also as the first process of a container, for which SIGTERM does nothing without a handler."""
    first, second = nodes(database, 1), nodes(database, 2)
    first.start()
    second.launch()
    asyncio.run(until(lambda: waits(second), "the second to wait"))
    assert second.stop() == 128 + signal.SIGTERM
    assert second.events("stopped before it served")
    assert not second.events(level="error")


async def wake_up_after_another(make: Callable[..., Node], url: str, mutation: str = "") -> None:
    """The first node is stopped (SIGSTOP) until the second leads and has taken a commit; it wakes up with requests in
    its sockets. Nothing that it says then may be old or untrue.
    """
    first, second = make(url, 1, mutation=mutation), make(url, 2)
    first.start()
    line = await with_topic(first)
    other = await connected(first)
    assert await settled(lambda: committed(other)) == 1
    second.launch()
    await until(lambda: waits(second), "the second to wait")
    os.kill(first.pid, signal.SIGSTOP)
    try:
        new = await connected(second)
        assert await settled(lambda: commit(new, 2)) == ErrorCode.NONE
        fetching = asyncio.ensure_future(committed(other))
        committing = asyncio.ensure_future(commit(line, 3))
        await asyncio.sleep(0.1)
    finally:
        os.kill(first.pid, signal.SIGCONT)
    process = first.process
    assert process is not None
    fetched, said = await asyncio.wait_for(asyncio.gather(fetching, committing, return_exceptions=True), PATIENCE_S)
    assert fetched != 1, "an old offset was told as if it were true"
    assert said != ErrorCode.NONE, "a commit was acknowledged that was not made"
    assert isinstance(fetched, ConnectionError) or fetched in REFUSED
    assert isinstance(said, ConnectionError) or said in REFUSED
    assert await committed(new) == 2
    await until(lambda: process.poll() is not None, "the former leader to stop")
    assert process.returncode == 1
    first.process = None


REFUSED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def test_a_node_that_was_stopped_says_nothing_untrue(nodes: Callable[..., Node], database: str) -> None:
    asyncio.run(wake_up_after_another(nodes, database))


def test_a_node_that_does_not_look_at_its_lease_is_noticed(nodes: Callable[..., Node], database: str) -> None:
    mutation = "from coordinatord.server.postgresql.lease import Lease; Lease.holds = property(lambda self: True)"
    with pytest.raises(AssertionError, match="an old offset"):
        asyncio.run(wake_up_after_another(nodes, database, mutation))


async def until_refused_at_once(line: Line, timeout_s: float) -> None:
    """Until commits of any group are refused without a wait: by the store's own clock, too, it has waited for long."""
    deadline_s = time.monotonic() + PATIENCE_S
    for number in itertools.count():
        began_s = time.monotonic()
        assert await commit(line, 1, f"probe {number}") == ErrorCode.COORDINATOR_NOT_AVAILABLE
        if time.monotonic() - began_s < timeout_s / 2:
            return
        assert began_s < deadline_s, "each waits anew"


def test_a_node_whose_database_is_away(nodes: Callable[..., Node], victim: Server) -> None:
    """Heartbeats are answered while the lease lasts, commits are refused after a while and never untrue, and when the
    database is back the node goes on without a restart.
    """

    async def play() -> None:
        node = nodes(victim.make_database("away"), 1, lease_ms=30_000, offsets_commit_timeout_ms="500")
        node.start()
        line = await with_topic(node)
        member_line, other = await connected(node), await connected(node)
        member = RawMember(member_line, "members", {"topic": 1})
        await member.join()
        victim.kill()
        assert await member.heartbeat() == ErrorCode.NONE
        began_s = time.monotonic()
        assert await commit(line, 2) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert time.monotonic() - began_s >= 0.5, "it waits as long as it may"
        await until_refused_at_once(other, 0.5)
        assert await commit(other, 3, "another") == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await member.heartbeat() == ErrorCode.NONE
        # Another group's offsets are as they were; this group's may be more than the database has.
        joined = await other.ask(JoinGroupRequest("new", 10_000), 1)
        assert joined.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        deadline_s = time.monotonic() + PATIENCE_S
        while (said := await member.heartbeat()) == ErrorCode.NONE:
            assert time.monotonic() < deadline_s
            await asyncio.sleep(0.05)
        assert said == ErrorCode.NOT_COORDINATOR, "its lease is over"
        assert await committed(other) == ErrorCode.NOT_COORDINATOR
        await asyncio.to_thread(victim.start)
        while (said := await member.heartbeat()) != ErrorCode.NONE:
            assert said == ErrorCode.NOT_COORDINATOR
            assert time.monotonic() < deadline_s + PATIENCE_S
            await asyncio.sleep(0.05)
        assert await settled(lambda: commit(line, 4)) == ErrorCode.NONE
        assert await settled(lambda: committed(line)) == 4
        assert await committed(line, "another") == -1, "it was refused before anything was written"
        assert await asyncio.to_thread(node.stop) == 0
        assert not node.events(level="error")

    asyncio.run(play())


async def produce(line: Line) -> PartitionProduceResponse:
    batch = build_batch([(None, b"x")], 1_750_000_000_000)
    data = TopicProduceData("topic", partition_data=[PartitionProduceData(0, batch)])
    answer = await line.ask(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), 9)
    found: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return found


def test_a_produce_waits_for_a_slow_database_until_the_lease_is_over(
    nodes: Callable[..., Node], victim: Server
) -> None:
    """It is appended once: a producer without an id would append it again after an error."""

    async def play() -> None:
        node = nodes(victim.make_database("slow"), 1, lease_ms=30_000, offsets_commit_timeout_ms="200")
        node.start()
        line, other = await with_topic(node), await connected(node)
        assert (await produce(line)).base_offset == 0
        victim.signal(signal.SIGSTOP)
        try:
            producing = asyncio.ensure_future(produce(line))
            assert await commit(other, 2) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert not producing.done()
        finally:
            victim.signal(signal.SIGCONT)
        found = await producing
        assert (found.error_code, found.base_offset) == (ErrorCode.NONE, 1)
        victim.kill()
        assert (await produce(line)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert await committed(other) == ErrorCode.NOT_COORDINATOR, "the lease is over"
        await asyncio.to_thread(victim.start)

    asyncio.run(play())


def test_a_stop_does_not_wait_for_a_database_that_is_away(nodes: Callable[..., Node], victim: Server) -> None:
    async def play() -> None:
        node = nodes(victim.make_database("stop"), 1, lease_ms=30_000, shutdown_timeout_ms="1000")
        node.start()
        line = await with_topic(node)
        victim.kill()
        waiting = asyncio.ensure_future(commit(line, 2))
        await asyncio.sleep(0.2)
        assert await asyncio.to_thread(node.stop) == 1, "something that it had in memory is not stored"
        said = (await asyncio.gather(waiting, return_exceptions=True))[0]
        assert said != ErrorCode.NONE
        [error] = node.events(level="error")
        assert error["error"] == GAVE_UP
        victim.start()

    asyncio.run(play())


@pytest.mark.skipif(sys.platform != "linux", reason="the signal's number")
def test_two_processes_do_not_share_a_copy(nodes: Callable[..., Node], database: str) -> None:
    first = nodes(database, 1)
    first.start()
    second = nodes(database, 1)
    process = second.launch()
    assert process.wait(PATIENCE_S) == 1
    second.process = None
    assert "in use by another process" in second.log_tail()

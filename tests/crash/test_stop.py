"""SIGTERM: what is parked is answered, what is written is flushed, and after a restart the group goes on as it was."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.errors import ErrorCode
from tests.clients.members import Member, wait_for_assignment, wait_for_values
from tests.clients.raw import Line
from tests.daemon import HOST, Daemon, logged_at_s, running
from tests.support.waiting import wait_until

STOP_LIMIT_S = 15.0
"""What is parked would wait for 25 s and more."""
PARTITIONS = 4


@pytest.fixture
def quick_daemon(tmp_path: Any) -> Iterator[Daemon]:
    with running(tmp_path, {"group.initial.rebalance.delay.ms": "150"}) as daemon:
        yield daemon


def seconds_to_stop(daemon: Daemon) -> float:
    """As the daemon itself saw it."""
    return logged_at_s(daemon.events("stopped")[-1]) - logged_at_s(daemon.events("stopping")[-1])


async def park_and_stop(daemon: Daemon) -> tuple[int, ErrorCode, ErrorCode]:
    """A join that waits for more members and a fetch that waits for records; then SIGTERM."""
    line, other = [await Line.connect(HOST, daemon.port, f"client-{number}") for number in range(2)]
    await line.ask(CreateTopicsRequest([CreatableTopic("topic", 1, 1)]), 7)
    request = JoinGroupRequest(
        "group", 30_000, 30_000, "", protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range", b"")]
    )
    request.member_id = (await line.ask(request, 7)).member_id
    join = line.ask(request, 7)
    partition = FetchPartition(0, partition_max_bytes=1_000)
    fetch = other.ask(FetchRequest(max_wait_ms=25_000, min_bytes=1, topics=[FetchTopic("topic", b"", [partition])]), 12)
    rebalancing = functools.partial(daemon.events, "group transition", new="PreparingRebalance")
    await asyncio.to_thread(wait_until, rebalancing, "the join to be parked")
    assert not join.done()
    assert not fetch.done()
    code = await asyncio.to_thread(daemon.stop)
    return code, ErrorCode((await join).error_code), ErrorCode((await fetch).error_code)


def test_a_stop_answers_what_is_parked(tmp_path: Any) -> None:
    """Kafka's clients look for the coordinator again when it says so, and fetch again after an empty answer."""
    daemon = Daemon(tmp_path, {"group.initial.rebalance.delay.ms": "30000"})
    daemon.start()
    try:
        code, join, fetch = asyncio.run(park_and_stop(daemon))
    finally:
        if daemon.process is not None:
            daemon.kill()
    assert code == 0
    assert join in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
    assert fetch == ErrorCode.NONE
    assert seconds_to_stop(daemon) < STOP_LIMIT_S


@pytest.mark.parametrize("end", [Daemon.stop, Daemon.kill], ids=["SIGTERM", "SIGKILL"])
def test_members_go_on_after_a_restart(quick_daemon: Daemon, end: Callable[[Daemon], object]) -> None:
    """The same members in the same generation: a restart of the daemon is no reason to rebalance."""
    daemon = quick_daemon
    admin = KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
    admin.create_topics({"topic": {"num_partitions": PARTITIONS, "replication_factor": 1}})
    admin.close()
    settings = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 300, "reconnect_backoff_max_ms": 300}
    members = [Member(daemon.bootstrap, "group", "topic", **settings) for _ in range(2)]
    producer = KafkaProducer(bootstrap_servers=daemon.bootstrap, reconnect_backoff_max_ms=300)

    def produce(word: str) -> list[bytes]:
        values = [b"%s %d" % (word.encode(), number) for number in range(100)]
        sent = [producer.send("topic", value, partition=n % PARTITIONS) for n, value in enumerate(values)]
        for future in sent:
            future.get(timeout=30)
        return values

    wait_for_assignment(members, PARTITIONS)
    values = produce("before")
    wait_for_values(members, values)
    before = [(each.member_id, each.generation, each.assignment) for each in members]
    rebalances = daemon.events("group transition", group="group", new="Stable")
    end(daemon)
    daemon.start()
    values += produce("after")
    wait_for_values(members, values)
    assert [(each.member_id, each.generation, each.assignment) for each in members] == before
    # Now, before the first that leaves has the other one rebalance.
    assert daemon.events("group transition", group="group", new="Stable") == rebalances
    for each in members:
        each.close()
    admin = KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
    committed = admin.list_group_offsets(["group"])["group"]
    assert {tp.partition: each.offset for tp, each in committed.items()} == dict.fromkeys(range(PARTITIONS), 50)
    assert sorted(value for each in members for value in each.values) == sorted(values)
    admin.close()
    producer.close(timeout=10)

"""A process that may open few files refuses clients before its log gets none."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinatord.transport.net import descriptors
from coordinatord.transport.net.descriptors import FEWEST, RESERVED, connections_allowed
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.schema import ZERO_UUID
from tests.broker.topics.world import batch
from tests.clients.raw import Line
from tests.daemon import HOST, Daemon, StartFailed

PARTITIONS = 100
SOFT, LIMIT = 250, RESERVED + FEWEST + 40


class Limited(Daemon):
    """A daemon whose soft and hard limit of open files are these."""

    limits = (0, 0)

    def command(self) -> list[str]:
        soft, hard = self.limits
        return ["sh", "-c", f'ulimit -Sn {soft}; ulimit -Hn {hard}; exec "$@"', "sh", *super().command()]


@contextlib.contextmanager
def limited(directory: Path, soft: int, hard: int) -> Iterator[Limited]:
    daemon = Limited(directory)
    daemon.limits = soft, hard
    daemon.start()
    try:
        yield daemon
    finally:
        if daemon.process is not None:
            daemon.kill()


@pytest.mark.parametrize(
    ("asked", "limit", "allowed"),
    [(20_000, 1 << 20, 20_000), (20_000, 1024, 1024 - RESERVED), (10, RESERVED + 10, 10), (100, RESERVED + 100, 100)],
)
def test_connections_leave_the_log_its_descriptors(asked: int, limit: int, allowed: int) -> None:
    assert connections_allowed(asked, limit) == allowed


def test_a_limit_that_leaves_none_is_refused() -> None:
    with pytest.raises(OSError, match=f"{RESERVED + FEWEST} are needed") as caught:
        connections_allowed(20_000, RESERVED + FEWEST - 1)
    assert caught.value.errno == errno.EMFILE


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    before = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1_000), hard))
        raised = descriptors.raise_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard
        assert raised == hard or hard == resource.RLIM_INFINITY
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def produce_everywhere(daemon: Daemon, enough: list[socket.socket]) -> list[int]:
    """Produce to each partition of a new topic while idle connections use up what they get; the error codes."""
    line = await Line.connect(HOST, daemon.port, "first")
    topic = CreatableTopic("t", PARTITIONS, -1, [], [])
    created = await line.ask(CreateTopicsRequest([topic]), 7)
    assert created.topics[0].error_code == 0
    for _ in range(LIMIT):
        enough.append(socket.create_connection((HOST, daemon.port)))
    value = batch(b"v", timestamp_ms=int(time.time() * 1000))
    data = [PartitionProduceData(index, value) for index in range(PARTITIONS)]
    answer = await line.ask(ProduceRequest(None, -1, 1000, [TopicProduceData("t", ZERO_UUID, data)]), 9)
    line.close()
    return [partition.error_code for topic in answer.responses for partition in topic.partition_responses]


def is_closed(client: socket.socket) -> bool:
    client.settimeout(1)
    try:
        return client.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@pytest.mark.slow
def test_idle_connections_take_no_descriptor_from_the_log(tmp_path: Path) -> None:
    """The soft limit is raised; what it leaves goes to clients, the log opens its files, and one line tells of it."""
    idle: list[socket.socket] = []
    with limited(tmp_path, SOFT, LIMIT) as daemon:
        try:
            assert asyncio.run(produce_everywhere(daemon, idle)) == [0] * PARTITIONS
            assert is_closed(idle[-1])
            assert not is_closed(idle[0])
        finally:
            for each in idle:
                each.close()
        assert len(daemon.events("new connections are refused")) == 1
        assert daemon.events("new connections are refused")[0]["max_connections"] == LIMIT - RESERVED
        assert daemon.stop() == 0


def test_a_daemon_that_may_open_too_few_files_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="ulimit -n"), limited(tmp_path, 300, 300):
        pass

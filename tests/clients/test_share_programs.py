"""Share consumers of Java and franz-go, in both modes of acknowledgement, and a coordinatord that is killed.

A record whose acknowledgement was confirmed does not come again; every other one comes again until it is acknowledged.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from coordinatord.testing.conform.raw_client import RawClient
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kafka_wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.clients.families import toolchains
from tests.clients.families.program import Command, Program, run_program, wait_for
from tests.daemon import HOST, Daemon, running
from tests.server.workers.processes import worker_of_group
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]

COUNT = 2_000
PARTITIONS = 4
TOPIC, GROUP = "orders", "pickers"
SETTINGS = {
    "group.coordinator.rebalance.protocols": "classic,consumer,share",
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.heartbeat.interval.ms": "100",
}
GROUP_RESOURCE, SET = 32, 0


def java() -> Command:
    libs = toolchains.jars("org.apache.kafka:kafka-clients:4.4.0")
    return Command(toolchains.java("ShareProgram", libs, Path(__file__).parent / "share"))


def franz_go() -> Command:
    return Command([toolchains.go("franzshare")])


@pytest.fixture(params=[java, franz_go])
def command(request: pytest.FixtureRequest) -> Command:
    try:
        made: Command = request.param()
    except toolchains.ToolMissing as missing:
        pytest.skip(f"skipped: {missing}")
    return made


def ask(daemon: Daemon, request: Any, version: int) -> Any:
    async def asking() -> Any:
        client = await RawClient.connect(HOST, daemon.port + worker_of_group(GROUP, daemon.workers))
        try:
            return await client.ask(request, version)
        finally:
            client.close()

    return asyncio.run(asking())


@pytest.fixture(params=[1, 2], ids=["one process", "two workers"])
def daemon(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Daemon]:
    """A daemon with COUNT records, which are numbers, and a share group that begins at the first."""
    with running(tmp_path, SETTINGS, workers=request.param) as made:
        ask(made, CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, 1)]), 7)
        own = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "10"}
        configs = [AlterableConfig(name, SET, value) for name, value in own.items()]
        changed = ask(made, IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, GROUP, configs)]), 1)
        assert [each.error_code for each in changed.responses] == [0]
        producer = KafkaProducer(bootstrap_servers=made.bootstrap, batch_size=500)
        for number in range(COUNT):
            producer.send(TOPIC, str(number).encode(), partition=number % PARTITIONS)
        producer.close()
        yield made


def lag(daemon: Daemon) -> int:
    """Return the records of the group that are not acknowledged."""
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(GROUP, None)])
    [group] = ask(daemon, request, 1).groups
    partitions = [each for topic in group.topics for each in topic.partitions]
    assert all(each.error_code == 0 for each in partitions)
    return sum(COUNT // PARTITIONS if each.lag < 0 else each.lag for each in partitions)


def numbers(rest: str) -> list[int]:
    return [int(each) for each in rest.split(",") if each]


class Seen:
    """What the programs have said so far, in the order of its arrival."""

    def __init__(self, programs: list[Program]) -> None:
        #: deliveries of each record
        self.deliveries: Counter[int] = Counter()
        #: records whose acknowledgement was confirmed; those that were delivered again afterwards
        self.done: set[int] = set()
        self.again: set[int] = set()
        #: records whose acknowledgement was sent
        self.sent: set[int] = set()
        self.renewed: set[int] = set()
        for line in sorted((line for each in programs for line in list(each.lines)), key=lambda line: line.at_s):
            if line.kind == "RECORD":
                number = int(line.rest.rpartition(" ")[2])
                self.deliveries[number] += 1
                if number in self.done:
                    self.again.add(number)
            elif line.kind == "RENEWED":
                self.renewed.add(int(line.rest))
            elif line.kind == "SENT":
                self.sent |= set(numbers(line.rest))
            elif line.kind == "DONE":
                self.done |= set(numbers(line.rest))


@pytest.fixture
def start(command: Command, daemon: Daemon) -> Iterator[Callable[[str], Program]]:
    started: list[Program] = []

    def run(acknowledge: str) -> Program:
        started.append(
            run_program(command, bootstrap=daemon.bootstrap, group=GROUP, topic=TOPIC, acknowledge=acknowledge)
        )
        return started[-1]

    yield run
    for program in started:
        program.kill()


def test_each_record_is_delivered_as_often_as_it_is_released(start: Callable[[str], Program], daemon: Daemon) -> None:
    programs = [start("explicit"), start("explicit")]

    def all_done() -> bool:
        # What has failed is never confirmed, nor delivered again if only its confirmation was lost.
        assert not [line for each in programs for line in each.of_kind("FAILED")]
        return len(Seen(programs).done) == COUNT

    wait_for(programs, all_done, f"{COUNT} records", timeout_s=2 * PATIENCE_S)
    for program in programs:
        program.close()
    seen = Seen(programs)
    assert seen.deliveries == {number: 2 if number % 5 == 0 else 1 for number in range(COUNT)}
    assert seen.renewed == {number for number in range(0, COUNT, 11) if number % 7}
    assert lag(daemon) == 0


@pytest.mark.parametrize("acknowledge", ["implicit", "explicit"])
def test_a_kill_loses_no_record_and_repeats_none_that_was_acknowledged(
    start: Callable[[str], Program], daemon: Daemon, acknowledge: str
) -> None:
    programs = [start(acknowledge), start(acknowledge)]
    for share in (4, 2):
        wait_for(programs, lambda: len(Seen(programs).done) >= COUNT // share, "a part", timeout_s=2 * PATIENCE_S)  # noqa: B023
        daemon.kill()
        daemon.start()

    def all_ended() -> bool:
        seen = Seen(programs)
        # An acknowledgement may be durable although the daemon was killed before it confirmed it.
        return seen.done | seen.sent == set(range(COUNT)) and lag(daemon) == 0

    wait_for(programs, all_ended, f"{COUNT} records", timeout_s=3 * PATIENCE_S)
    for program in programs:
        program.close()
    seen = Seen(programs)
    assert seen.again == set(), "acknowledged records were delivered again"
    assert seen.deliveries.keys() == set(range(COUNT)), "records were lost"

"""A rolling restart takes a group from the classic protocol to the consumer protocol under load, and back (KIP-848).

Members of librdkafka and of Java commit now and then, not when they stop, and tell what is acknowledged. So it is known
of each sighting of a record whether it was committed: what was is never seen again, and what was not may be.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from tests.clients.brokers import QUICK_CONSUMER_SETTINGS, QUICK_SETTINGS, Broker, running_choice
from tests.clients.families.clients import CLASSIC, CONSUMER, CONSUMER_CLIENTS, Client
from tests.clients.families.conftest import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS
from tests.clients.families.consumer_groups import described
from tests.clients.families.program import (
    Command,
    Program,
    parsed_numbers,
    parsed_pairs,
    wait_for,
    wait_for_assignment,
)
from tests.conftest import KAFKA
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1800)]

PARTITIONS = 6
FAMILIES = ("confluent-kafka", "Java client 4", "confluent-kafka", "Java client 4")
ASSIGNOR = {CLASSIC: "range", CONSUMER: "uniform"}
PAUSE_S = 0.004
COMMIT_EVERY_MS = 300
TOPIC, GROUP = "orders", "billing"


class Load(threading.Thread):
    """Writes numbered records to all partitions in turn, until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.producer = KafkaProducer(bootstrap_servers=bootstrap)
        self.values: list[bytes] = []
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(PAUSE_S):
            value = b"value-%06d" % len(self.values)
            self.producer.send(TOPIC, value, partition=len(self.values) % PARTITIONS)
            self.values.append(value)

    def stop(self) -> list[bytes]:
        """All that was written, acknowledged."""
        self._stopping.set()
        self.join(10)
        self.producer.flush(timeout=30)
        self.producer.close(timeout=10)
        return self.values


@dataclass
class Sightings:
    """Of records, by partition and offset: those that their reader has committed, and those that it has not."""

    committed: Counter[tuple[int, int]] = field(default_factory=Counter)
    uncommitted: Counter[tuple[int, int]] = field(default_factory=Counter)

    def add(self, program: Program) -> None:
        """What a program that has ended has seen, and whether it has committed that before it gave the partition up."""
        seen: dict[int, list[int]] = {}
        for line in program.lines:
            if line.kind == "RECORD":
                partition, offset, _ = line.rest.split(" ", 2)
                seen.setdefault(int(partition), []).append(int(offset))
            elif line.kind == "COMMITTED":
                for number, end in parsed_pairs(line.rest).items():
                    offsets = seen.get(number, [])
                    self.committed.update((number, each) for each in offsets if each < end)
                    seen[number] = [each for each in offsets if each >= end]
            elif line.kind == "REVOKED":
                for number in parsed_numbers(line.rest):
                    self.uncommitted.update((number, each) for each in seen.pop(number, []))
        for number, offsets in seen.items():
            self.uncommitted.update((number, each) for each in offsets)


class Group:
    """The members, by the order of their first start, and what an admin client knows of them."""

    def __init__(self, bootstrap: str, commands: Callable[[Client], Command]) -> None:
        self.bootstrap = bootstrap
        self.commands = commands
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        self.clients = [client for name in FAMILIES for client in CONSUMER_CLIENTS if client.name.startswith(name)]
        self.members: list[Program] = []
        self.ended: list[Program] = []
        self.protocols: list[str] = []
        self.committed: dict[int, int] = {}

    def start(self, number: int, protocol: str) -> Program:
        arguments = {
            "mode": "consume",
            "bootstrap": self.bootstrap,
            "group": GROUP,
            "topic": TOPIC,
            "protocol": protocol,
            "assignor": ASSIGNOR[protocol],
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
            "commit_every_ms": COMMIT_EVERY_MS,
        }
        client = self.clients[number]
        program = client.start(self.commands(client), **arguments)
        assert isinstance(program, Program)
        return program

    def begin(self, protocol: str) -> None:
        self.members = [self.start(number, protocol) for number in range(len(self.clients))]
        self.protocols = [protocol] * len(self.clients)
        wait_for_assignment(self.members, PARTITIONS)

    def restart(self, number: int, protocol: str) -> None:
        """One leaves in order and comes back by the other protocol; the group is of the type that it is to be."""
        self.members[number].close()
        self.ended.append(self.members[number])
        others = self.protocols[:number] + self.protocols[number + 1 :]
        self.see(CONSUMER if CONSUMER in others else CLASSIC)
        self.members[number] = self.start(number, protocol)
        self.protocols[number] = protocol
        wait_for_assignment(self.members, PARTITIONS)
        self.see(CONSUMER if CONSUMER in self.protocols else CLASSIC)
        if CONSUMER in self.protocols:
            types = sorted(each.member_type for each in described(self.bootstrap, GROUP).members)
            assert types == sorted(int(each == CONSUMER) for each in self.protocols)

    def see(self, group_type: str) -> None:
        """The type of the group, and that no committed offset has gone back."""
        (listed,) = (each for each in self.admin.list_groups() if each["group_id"] == GROUP)
        assert listed["group_type"].lower() == group_type, listed
        before, self.committed = self.committed, self.offsets()
        back = {number: (at, self.committed.get(number)) for number, at in before.items()
                if self.committed.get(number, -1) < at}  # fmt: skip
        assert not back, f"committed before and now: {back}"

    def offsets(self) -> dict[int, int]:
        return {tp.partition: each.offset for tp, each in self.admin.list_group_offsets([GROUP])[GROUP].items()}

    def end(self) -> Sightings:
        for each in self.members:
            each.close()
        self.ended += self.members
        self.members = []
        sightings = Sightings()
        for each in self.ended:
            sightings.add(each)
        return sightings

    def kill(self) -> None:
        for each in self.members:
            if each.process.poll() is None:
                each.kill()
        self.admin.close()


@pytest.fixture(
    params=[pytest.param(None, id="here"), pytest.param(KAFKA, marks=[pytest.mark.reference, pytest.mark.full])]
)
def migrating(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    settings = {**QUICK_SETTINGS, **QUICK_CONSUMER_SETTINGS, "group.consumer.migration.policy": "bidirectional"}
    with running_choice(request.config, tmp_path, settings, request.param) as broker:
        yield broker


@pytest.fixture
def group(migrating: Broker, commands: Callable[[Client], Command]) -> Iterator[Group]:
    it = Group(migrating.bootstrap, commands)
    it.admin.create_topics({TOPIC: {"num_partitions": PARTITIONS, "replication_factor": 1}})
    it.admin.wait_for_topics([TOPIC])
    yield it
    it.kill()


def test_a_rolling_restart_to_the_consumer_protocol_and_back(group: Group) -> None:
    began_s = time.monotonic()
    group.begin(CLASSIC)
    load = Load(group.bootstrap)
    load.start()
    wait_until(group.offsets, "the first commit")
    group.see(CLASSIC)
    for protocol in (CONSUMER, CLASSIC):
        for number in range(len(group.members)):
            group.restart(number, protocol)
        assert set(group.protocols) == {protocol}
    values = load.stop()
    written = ends(group.bootstrap)
    wait_for(group.members, lambda: group.offsets() == written, "commits of all that was written")
    group.see(CLASSIC)
    sightings = group.end()
    seen = Counter(value for program in group.ended for value in program.values)
    missing = {value.decode() for value in values} - seen.keys()
    assert not missing, f"{len(missing)} of {len(values)} were never seen, {sorted(missing)[:10]}"
    again = [place for place, count in sightings.committed.items() if count > 1]
    assert not again, f"committed, and then seen and committed again: {again[:10]}"
    twice = sum(seen.values()) - len(seen)
    assert 0 < twice <= sightings.uncommitted.total(), "more were seen twice than were not committed"
    assert group.offsets() == written
    print(
        f"\n{2 * len(group.clients)} restarts: {len(values)} records, {sightings.uncommitted.total()} not committed "
        f"by a reader that stopped or gave them up, {twice} seen twice; {time.monotonic() - began_s:.1f} s"
    )


def ends(bootstrap: str) -> dict[int, int]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    try:
        found = consumer.end_offsets([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
        return {partition.partition: offset for partition, offset in found.items()}
    finally:
        consumer.close()

"""The daemon gets SIGKILL at random moments under load; everything that it has acknowledged is there afterwards.

The seed of the moments is the same in every run; COORDINATORD_CRASH_SEED is another one. What happens between the
moments depends on the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from kafka_wire.api.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import iterate_batches, records
from tests.clients.members import ConsumerProcess
from tests.clients.raw import Line
from tests.crash.ledger import CommitLedger, Place, ProduceLedger, TableLedger
from tests.crash.load import Client, Committer, Gate, GroupClient, Producer, TableWriter
from tests.daemon import HOST, Daemon
from tests.support.waiting import PATIENCE_S

SETTINGS = {
    "group.initial.rebalance.delay.ms": "20",
    "group.min.session.timeout.ms": "500",
    # Segments roll during the test and are compacted all the time, so that crashes fall on that too.
    "offsets.topic.segment.bytes": str(16 * 1024),
    "log.segment.bytes": str(256 * 1024),
    "offsets.topic.num.partitions": "4",
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.min.cleanable.ratio": "0",
    "log.cleaner.delete.retention.ms": "1000",
}
READ_TOPIC, READ_PARTITIONS = "records", 4
COMMIT_TOPIC, COMMIT_PARTITIONS = "commits", 6
TABLE_TOPIC, TABLE_PARTITIONS = "table", 2
TABLE_CONFIGS = {"cleanup.policy": "compact", "internal.segment.bytes": "8192"}
REAL_GROUP = "kafka-python"
CRASH_WHILE_STARTING = 0.2  # of the rounds


class Crashes:
    """One daemon, its clients, and what they know. `real`: kafka-python's group is one of them."""

    def __init__(self, daemon: Daemon, seed: int, *, real: bool) -> None:
        self.daemon = daemon
        self.has_real = real
        self.tables = TableLedger()
        self.chance = random.Random(seed)
        self.gate = Gate()
        self.commits = CommitLedger()
        self.produced = ProduceLedger()
        self.address = (HOST, daemon.port)
        self.clients: list[Client] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.consumers: list[ConsumerProcess] = []
        self.looked_at: dict[int, int] = {}  # events of a consumer that have been looked at
        self.real: dict[int, int] = {}
        self.seen: set[str] = set()  # by kafka-python's group
        self.start_seconds: list[float] = []
        self.recovery_seconds: list[float] = []  # until every raw client had an answer again
        self.real_recovery_seconds: list[float] = []  # until kafka-python's group had committed again
        self.starts_cut_short = 0

    async def create_topics(self) -> None:
        line = await Line.connect(*self.address, client_id="set-up")
        wanted = [
            CreatableTopic(READ_TOPIC, READ_PARTITIONS, 1),
            CreatableTopic(COMMIT_TOPIC, COMMIT_PARTITIONS, 1),
            CreatableTopic(
                TABLE_TOPIC,
                TABLE_PARTITIONS,
                1,
                configs=[CreatableTopicConfig(name, value) for name, value in TABLE_CONFIGS.items()],
            ),
        ]
        done = {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}
        for _ in range(20):  # a node gives up after a second if its database does not answer
            made = await line.ask(CreateTopicsRequest(wanted), 7)
            if {each.error_code for each in made.topics} <= done:
                break
            await asyncio.sleep(0.5)
        else:
            raise AssertionError(made)
        line.close()

    def begin(self) -> None:
        address, gate, commits = self.address, self.gate, self.commits
        four = [(COMMIT_TOPIC, number) for number in range(4)]
        self.clients += [Committer(f"committer-{number}", address, gate, commits, four) for number in range(4)]
        for group in range(5):
            for number in range(2):
                chance = random.Random(self.chance.random())
                topics = {COMMIT_TOPIC: COMMIT_PARTITIONS}
                name = f"group-{group}"
                self.clients.append(GroupClient(f"{name}-{number}", address, gate, commits, name, topics, chance))
        for number in range(READ_PARTITIONS):
            self.clients.append(
                Producer(
                    f"producer-{number}",
                    address,
                    gate,
                    self.produced,
                    (READ_TOPIC, number),
                    idempotent=number % 2 == 0,
                )
            )
        for number in range(TABLE_PARTITIONS):
            place = TABLE_TOPIC, number
            self.clients.append(TableWriter(f"table-{number}", address, gate, self.tables, place, self.chance.random()))
        self.tasks = [asyncio.create_task(client.run()) for client in self.clients]
        for number in range(2 if self.has_real else 0):
            self.consumers.append(
                ConsumerProcess(
                    self.daemon.bootstrap,
                    REAL_GROUP,
                    READ_TOPIC,
                    client_id=f"real-{number}",
                    session_timeout_ms=6_000,
                    heartbeat_interval_ms=500,
                    reconnect_backoff_max_ms=200,
                )
            )

    async def until(self, condition: Callable[[], object], what: Callable[[], str]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not condition():
            for task in self.tasks:
                if task.done():
                    task.result()  # raises what ended it
            assert time.monotonic() < deadline_s, f"waited {PATIENCE_S:g} s for {what()}"
            await asyncio.sleep(0.005)

    async def work_until_all_go_on(self) -> None:
        """Open the gate; every client gets answers again, and kafka-python's group commits again."""
        for client in self.clients:
            client.progress = 0
        before, began_s = self.real_commits(), time.monotonic()
        self.gate.open()
        await self.until(
            lambda: all(client.progress for client in self.clients),
            lambda: f"answers to {[client.name for client in self.clients if not client.progress]}",
        )
        self.recovery_seconds.append(time.monotonic() - began_s)
        if not self.has_real:
            return
        await self.until(lambda: self.real_commits() > before, lambda: "a commit of kafka-python's group")
        self.real_recovery_seconds.append(time.monotonic() - began_s)

    def real_commits(self) -> int:
        return sum(consumer.counts["committed"] for consumer in self.consumers)

    async def crash(self) -> None:
        self.gate.close()
        self.daemon.kill()
        await self.until(lambda: self.gate.waiting == len(self.clients), lambda: "the clients to notice the crash")
        real = self.real_acknowledged()
        if self.chance.random() < CRASH_WHILE_STARTING:
            self.daemon.launch()
            await asyncio.sleep(self.chance.uniform(0, 0.6))
            self.daemon.kill()
            self.starts_cut_short += 1
        self.start_seconds.append(await asyncio.to_thread(self.daemon.start))
        await self.verify(real)

    def real_acknowledged(self) -> dict[int, int]:
        """The last offset per partition that kafka-python's group has an acknowledged commit of."""
        for consumer in self.consumers:
            known = self.looked_at.get(id(consumer), 0)
            self.looked_at[id(consumer)] = len(consumer.events)
            for event in consumer.events[known : self.looked_at[id(consumer)]]:
                if event["kind"] == "committed":
                    for partition, offset in event["offsets"].items():
                        self.real[int(partition)] = max(offset, self.real.get(int(partition), -1))
                elif event["kind"] == "records":
                    self.seen.update(event["values"])
        return dict(self.real)

    async def verify(self, real: dict[int, int]) -> None:
        line = await Line.connect(*self.address, client_id="verifier")
        groups = sorted({group for group, _, _ in self.commits.sent})
        fetched = await self.fetch_offsets(line, [*groups, REAL_GROUP])
        theirs = {number: fetched.pop((group, topic, number))[0] for group, topic, number in list(fetched)
                  if group == REAL_GROUP}  # fmt: skip
        problems = self.commits.problems(fetched)
        problems += [
            f"{REAL_GROUP}: {theirs.get(number)} is committed for partition {number}, {offset} was acknowledged"
            for number, offset in real.items()
            if theirs.get(number, -1) < offset
        ]
        for number in range(READ_PARTITIONS):
            await self.read_on(line, number)
        for number in range(TABLE_PARTITIONS):
            problems += self.tables.problems((TABLE_TOPIC, number), await self.read_table(line, number))
        line.close()
        problems += self.produced.problems()
        assert not problems, "\n".join(problems)

    async def fetch_offsets(self, line: Line, groups: list[str]) -> dict[Place, tuple[int, str | None]]:
        """What is committed, of all groups, once the coordinator has loaded them."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            asked = [OffsetFetchRequestGroup(group, topics=None) for group in groups]
            answer = await line.ask(OffsetFetchRequest(groups=asked, require_stable=True), 8)
            errors = {each.error_code for each in answer.groups}
            if errors != {ErrorCode.NONE}:
                assert errors <= {ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}, errors
                assert time.monotonic() < deadline_s, "the groups do not get loaded"
                await asyncio.sleep(0.01)
                continue
            return {
                (group.group_id, topic.name, each.partition_index): (each.committed_offset, each.metadata)
                for group in answer.groups
                for topic in group.topics
                for each in topic.partitions
            }

    async def read_on(self, line: Line, number: int) -> None:
        """Read what is new in a partition, to its end."""
        values = self.produced.read.setdefault((READ_TOPIC, number), [])
        while True:
            partition = FetchPartition(number, fetch_offset=len(values), partition_max_bytes=1 << 20)
            request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(READ_TOPIC, partitions=[partition])])
            answer = (await line.ask(request, 12)).responses[0].partitions[0]
            assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
            for pos, header in iterate_batches(answer.records or b"", partial=True):
                for record in records(answer.records, pos, header):
                    if record.offset >= len(values):
                        assert record.offset == len(values), f"a gap before {record.offset} of partition {number}"
                        values.append(record.value or b"")
            if len(values) >= answer.high_watermark:
                return

    async def read_table(self, line: Line, number: int) -> dict[bytes, bytes | None]:
        """A compacted partition from its first record to its last."""
        table: dict[bytes, bytes | None] = {}
        offset = 0
        while True:
            partition = FetchPartition(number, fetch_offset=offset, partition_max_bytes=1 << 20)
            request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(TABLE_TOPIC, partitions=[partition])])
            answer = (await line.ask(request, 12)).responses[0].partitions[0]
            assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
            for pos, header in iterate_batches(answer.records or b"", partial=True):
                assert header.last_offset >= offset, f"offset {header.base_offset} after {offset}"
                for record in records(answer.records, pos, header):
                    assert record.key is not None
                    table[record.key] = record.value
                offset = header.next_offset
            if offset >= answer.high_watermark:
                return table

    async def end(self) -> None:
        """Stop the clients, and look once more at what they were told."""
        self.gate.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks.clear()
        read = self.produced.read
        self.produced.read = {}  # everything again, from the first record on
        await self.verify(self.real_acknowledged())
        problems = self.produced.problems_of_all()
        for partition, values in read.items():
            if self.produced.read[partition][: len(values)] != values:
                problems.append(f"{partition}: what was read earlier is not there any more")
        assert not problems, "\n".join(problems)
        if not self.has_real:
            return
        # What kafka-python's group has not read yet, it reads now: nothing is missing, however often it was read.
        everything = {value.decode() for values in self.produced.read.values() for value in values}
        await self.until(
            lambda: self.real_acknowledged() and len(self.seen) >= len(everything) and everything <= self.seen,
            lambda: f"{len(everything - self.seen)} of {len(everything)} records with kafka-python's group",
        )

    def summary(self, kills: int) -> str:
        members = [client for client in self.clients if isinstance(client, GroupClient)]
        records_read = sum(map(len, self.produced.read.values()))
        return (
            f"{kills} kills ({self.starts_cut_short} starts cut short as well): "
            f"{self.commits.acknowledgements:,} acknowledged commits, {records_read:,} records and "
            f"{self.tables.acknowledgements:,} changes of tables, none lost\n"
            f"{self.cleanings()}\n"
            f"members went on in their generation {sum(each.went_on for each in members)} times and had to join again "
            f"{sum(each.rejoined for each in members)} times\n"
            f"restart to first answer {spread(self.start_seconds)}; after that all {len(self.clients)} clients were "
            f"served within {spread(self.recovery_seconds)}"
            + (f", kafka-python's group within {spread(self.real_recovery_seconds)}" if self.has_real else "")
        )

    def cleanings(self) -> str:
        """What the cleaner got done in between."""
        events = self.daemon.events("log cleaned")
        before, after = (sum(int(str(each[name])) for each in events) for name in ("records_before", "records_after"))
        return f"{len(events)} cleanings read {before:,} records and kept {after:,}"


def spread(seconds: list[float]) -> str:
    return f"{sum(seconds) / len(seconds):.2f} s (at most {max(seconds):.2f} s)"


async def survive(daemon: Daemon, seed: int, kills: int, *, real: bool) -> str:
    crashes = Crashes(daemon, seed, real=real)
    await crashes.create_topics()
    try:
        crashes.begin()
        for _ in range(kills):
            await crashes.work_until_all_go_on()
            await asyncio.sleep(crashes.chance.uniform(0, 0.5 if real else 0.25))
            await crashes.crash()
        await crashes.work_until_all_go_on()
        await crashes.until(lambda: daemon.events("log cleaned"), lambda: "the cleaner to be done with something")
        await crashes.end()
        members = [client for client in crashes.clients if isinstance(client, GroupClient)]
        assert sum(each.went_on for each in members) > 0, "no member ever went on without joining again"
    finally:
        for task in crashes.tasks:
            task.cancel()
        for consumer in crashes.consumers:
            consumer.kill()
    return crashes.summary(kills)


def outlived(daemon: Daemon, story: Coroutine[Any, Any, str]) -> str:
    """Run a story of crashes on a daemon, and stop it in order. No error is logged. Returns the story's summary."""
    daemon.start()
    try:
        summary = asyncio.run(story)
        assert daemon.stop() == 0
    finally:
        if daemon.process is not None:
            with contextlib.suppress(ProcessLookupError):
                daemon.kill()
    assert not daemon.events(level="error"), daemon.events(level="error")
    return summary


@pytest.fixture
def seed() -> int:
    return int(os.environ.get("COORDINATORD_CRASH_SEED") or 1)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("kills", "flush", "real"),
    [
        (3, "always", False),
        pytest.param(20, "always", True, marks=[pytest.mark.full, pytest.mark.clients]),
        # Many, without clients that take their time to come back.
        pytest.param(200, "always", False, marks=pytest.mark.full),
        # What was handed to the kernel outlives the process, flushed or not.
        pytest.param(10, "never", True, marks=[pytest.mark.full, pytest.mark.clients]),
    ],
)
def test_what_was_acknowledged_survives_sigkill(tmp_path: Path, seed: int, kills: int, flush: str, real: bool) -> None:
    daemon = Daemon(tmp_path, {**SETTINGS, "log.flush": flush})
    summary = outlived(daemon, survive(daemon, seed, kills, real=real))
    assert not daemon.events(level="warning", logger="coordinatord.broker.log.cleaner")
    print(summary)

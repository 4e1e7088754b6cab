"""200 groups of one kafka-python-like member each, and 1,000 connections, for a minute: no member expires by mistake.

A member expired by mistake if it was never silent for a session: members record when each heartbeat was sent and
answered, and the coordinator saw it in between. Members whose own process was late with a heartbeat do not count.

A member does what kafka-python 3.0.12 does with its defaults: it finds its coordinator, joins, sends a heartbeat every
3 s on one connection and commits every 5 s, and keeps a fetch waiting on another. The other connections request
metadata now and then. The test asserts that no group rebalances, and prints delays and memory.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kafka_wire.api.api_versions import ApiVersionsRequest
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.join_group import JoinGroupResponse
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.errors import ErrorCode
from tests.clients.raw import Line
from tests.clients.raw_member import RawMember
from tests.daemon import HOST, Daemon, running

GROUPS = 200
CONNECTIONS = 1_000
TOPIC, PARTITIONS = "topic", 6
HEARTBEAT_INTERVAL_S = 3.0
AUTO_COMMIT_INTERVAL_S = 5.0
FETCH_MAX_WAIT_MS = 500
METADATA_INTERVAL_S = 20.0
# kafka-python's default; every tenth member has the shortest session that Kafka allows.
SESSION_TIMEOUT_MS, SHORT_SESSION_TIMEOUT_MS = 45_000, 6_000
CONNECTING_AT_A_TIME = 50
SPARE_FILES = 200


@dataclass(slots=True)
class Seen:
    """The members' responses after their groups became stable."""

    heartbeats: Counter[str] = field(default_factory=Counter)
    punctual: Counter[str] = field(default_factory=Counter)  # those of members that were not silent for a session
    commits: Counter[str] = field(default_factory=Counter)
    delays_s: list[float] = field(default_factory=list)
    fetches: int = 0
    metadata: int = 0


class Witness(RawMember):
    """A member that knows when the coordinator last received a request of it."""

    heard_s = 0.0

    async def _sync(self, joined: JoinGroupResponse) -> bool:
        self.heard_s = asyncio.get_running_loop().time()
        return await super()._sync(joined)


class Crowd:
    """All clients, in one event loop."""

    def __init__(self, daemon: Daemon) -> None:
        self.port = daemon.port
        self.seen = Seen()
        self.resident_bytes = 0  # of the daemon, with all connections open
        self.members: list[Witness] = []
        self.lines: list[Line] = []
        self.silent: set[str] = set()  # groups whose member may have been expelled for a reason
        self._connecting = asyncio.Semaphore(CONNECTING_AT_A_TIME)

    async def line(self, client_id: str) -> Line:
        async with self._connecting:
            line = await Line.connect(HOST, self.port, client_id)
            versions = await line.ask(ApiVersionsRequest("kafka-python", "3.0.12"), 4)
            assert versions.error_code == ErrorCode.NONE
        self.lines.append(line)
        return line

    async def make_topic(self) -> None:
        line = await self.line("set-up")
        made = await line.ask(CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, 1)]), 7)
        assert made.topics[0].error_code == ErrorCode.NONE

    async def join(self, number: int) -> Witness:
        line = await self.line(f"member-{number}")
        group = f"group-{number}"
        found = await line.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 6)
        assert found.coordinators[0].error_code == ErrorCode.NONE
        session_timeout_ms = SHORT_SESSION_TIMEOUT_MS if number % 10 == 0 else SESSION_TIMEOUT_MS
        member = Witness(line, group, {TOPIC: PARTITIONS}, session_timeout_ms=session_timeout_ms)
        await member.join()
        assert (member.joins, member.generation, len(member.assignment)) == (1, 1, PARTITIONS)
        self.members.append(member)
        return member

    async def heartbeats(self, member: Witness) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_INTERVAL_S)
            await self.heartbeat(member)

    async def heartbeat(self, member: Witness) -> None:
        loop = asyncio.get_running_loop()
        sent_s = loop.time()
        answer = await member.heartbeat()
        answered_s = loop.time()
        self.seen.heartbeats[answer.name] += 1
        self.seen.delays_s.append(answered_s - sent_s)
        if answered_s - member.heard_s >= member.session_timeout_ms / 1000:
            self.silent.add(member.group)
        if member.group not in self.silent:
            self.seen.punctual[answer.name] += 1
        member.heard_s = sent_s

    async def commits(self, member: RawMember) -> None:
        offset = 0
        while True:
            await asyncio.sleep(AUTO_COMMIT_INTERVAL_S)
            offset += 1
            errors = await member.commit(dict.fromkeys(member.assignment, offset))
            self.seen.commits.update(error.name for error in errors.values())

    async def fetches(self, line: Line) -> None:
        """Fetch from an empty topic: each fetch waits for its maximum time."""
        partitions = [FetchPartition(number, partition_max_bytes=1 << 20) for number in range(PARTITIONS)]
        request = FetchRequest(
            max_wait_ms=FETCH_MAX_WAIT_MS, min_bytes=1, topics=[FetchTopic(TOPIC, partitions=partitions)]
        )
        while True:
            answer = await line.ask(request, 12)
            assert answer.error_code == ErrorCode.NONE
            self.seen.fetches += 1

    async def asks_for_metadata(self, line: Line) -> None:
        while True:
            answer = await line.ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), 13)
            assert answer.topics[0].error_code == ErrorCode.NONE
            self.seen.metadata += 1
            await asyncio.sleep(METADATA_INTERVAL_S)


async def crowd_for(daemon: Daemon, seconds: float) -> Crowd:
    crowd = Crowd(daemon)
    await crowd.make_topic()
    fetching = await asyncio.gather(*(crowd.line(f"fetch-{number}") for number in range(GROUPS)))
    others = CONNECTIONS - GROUPS - len(crowd.lines)
    idling = await asyncio.gather(*(crowd.line(f"other-{number}") for number in range(others)))
    await asyncio.gather(*(crowd.join(number) for number in range(GROUPS)))
    assert len(crowd.lines) == CONNECTIONS

    work: list[Awaitable[None]] = []
    steps: list[tuple[Callable[..., Awaitable[None]], list[object]]] = [
        (crowd.heartbeats, list(crowd.members)),
        (crowd.commits, list(crowd.members)),
        (crowd.fetches, list(fetching)),
        (crowd.asks_for_metadata, list(idling)),
    ]
    for step, whom in steps:
        work += [step(each) for each in whom]
    tasks = [asyncio.ensure_future(each) for each in work]
    # Any of them ending is a failure, which gather raises at once.
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.gather(*tasks), seconds)
    for member in crowd.members:
        await crowd.heartbeat(member)
    crowd.resident_bytes = daemon.resident_bytes()
    return crowd


@pytest.mark.full
@pytest.mark.timeout(240)
def test_a_minute_of_heartbeats_at_1000_connections(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < CONNECTIONS + SPARE_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, CONNECTIONS + SPARE_FILES), hard))
    with running(tmp_path) as daemon:
        before = daemon.resident_bytes()
        crowd = asyncio.run(crowd_for(daemon, seconds=60))
        seen, delays_s = crowd.seen, sorted(crowd.seen.delays_s)
        print(
            f"\n{CONNECTIONS:,} connections, {GROUPS} groups, one minute: "
            f"{sum(seen.heartbeats.values()):,} heartbeats (median {delays_s[len(delays_s) // 2] * 1000:.1f} ms, "
            f"99 % within {delays_s[len(delays_s) * 99 // 100] * 1000:.1f} ms, slowest {delays_s[-1] * 1000:.1f} ms), "
            f"{sum(seen.commits.values()):,} offsets committed, {seen.fetches:,} fetches, {seen.metadata:,} metadata; "
            f"resident {crowd.resident_bytes / 2**20:.1f} MiB, {before / 2**20:.1f} MiB at the start"
        )
        assert set(seen.punctual) == {"NONE"}
        assert crowd.silent or set(seen.commits) == {"NONE"}
        assert len(crowd.silent) <= GROUPS // 10, "this process had no time for members with long sessions either"
        assert GROUPS * 2 <= sum(seen.heartbeats.values()) <= GROUPS * (60 // HEARTBEAT_INTERVAL_S + 1)
        # One way from Empty to Stable per group, and no other transition while the clients were there.
        witnesses = Counter(member.group for member in crowd.members if member.group not in crowd.silent)
        stable = [each for each in daemon.events("group transition", new="Stable") if each["group"] in witnesses]
        assert Counter(event["group"] for event in stable) == witnesses
        assert {event["generation"] for event in stable} == {1}

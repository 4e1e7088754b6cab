"""The daemon gets SIGKILL under the load of consumer groups (KIP-848): all members are what they were told they are.

After each kill, before any client says a word, the groups are described: each member has the epoch, the subscription
and the assignment that it was answered last, or those that it had asked for and has no answer of. Then everybody goes
on as if nothing had happened. None is fenced or forgotten, nobody is given what somebody else owns, and all converge.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from kafka_wire.api.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.errors import ErrorCode
from tests.clients.families.program import Command, Program
from tests.clients.families.program import Line as Said
from tests.clients.families.toolchains import PROGRAMS
from tests.clients.raw import Line
from tests.crash.consumer_load import ConsumerClient, Owners, Weather, assignment_of
from tests.crash.load import BUSY, BUSY_S, Producer
from tests.crash.test_sigkill import (
    COMMIT_PARTITIONS,
    COMMIT_TOPIC,
    READ_PARTITIONS,
    READ_TOPIC,
    SETTINGS,
    Crashes,
    outlived,
    seed,
    spread,
)
from tests.daemon import Daemon
from tests.support.waiting import PATIENCE_S

__all__ = ["seed"]  # the fixture

GROUPS, MEMBERS = 4, 4
PARTITIONS = {COMMIT_TOPIC: COMMIT_PARTITIONS, READ_TOPIC: READ_PARTITIONS}
REAL_GROUP, REAL_MEMBERS = "librdkafka", 2
STORM = 400  # at most so many answers do members get while they leave and change subscriptions, before the next kill
CONSUMER_SETTINGS = {
    **SETTINGS,
    # Nobody's session ends while the daemon is down, however busy the machine is.
    "group.consumer.session.timeout.ms": "60000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}


class ConsumerCrashes(Crashes):
    """Groups of raw members, and librdkafka's of two consumers who read what producers write."""

    def __init__(self, daemon: Daemon, seed: int, *, real: bool) -> None:
        super().__init__(daemon, seed, real=False)
        self.owners, self.weather = Owners(), Weather()
        self.topic_ids: dict[str, bytes] = {}
        self.members: dict[str, list[ConsumerClient]] = {}
        self.programs: list[Program] = []
        self.has_programs = real
        self.moves: list[list[Said]] = []  # of the programs: what they were given, and what they gave up
        self.states: Counter[str] = Counter()  # in which the kills found the groups
        self.under_way = 0  # requests, at kills
        self.epochs: dict[str, int] = {}  # of the groups, the highest that was described

    async def create_topics(self) -> None:
        await super().create_topics()
        line = await Line.connect(*self.address, client_id="set-up")
        answer = await line.ask(MetadataRequest([MetadataRequestTopic(name=topic) for topic in PARTITIONS]), 12)
        line.close()
        self.topic_ids = {str(each.name): each.topic_id for each in answer.topics}

    def begin(self) -> None:
        for number in range(GROUPS):
            group = f"group-{number}"
            self.members[group] = [
                ConsumerClient(
                    f"{group}-{member}",
                    self.address,
                    self.gate,
                    self.commits,
                    group,
                    self.topic_ids,
                    self.owners,
                    self.weather,
                    random.Random(self.chance.random()),
                    static=member == 0,
                )
                for member in range(MEMBERS)
            ]
            self.clients += self.members[group]
        for number in range(READ_PARTITIONS if self.has_programs else 0):
            place = READ_TOPIC, number
            self.clients.append(
                Producer(f"producer-{number}", self.address, self.gate, self.produced, place, idempotent=True)
            )
        self.tasks = [asyncio.create_task(client.run()) for client in self.clients]
        for _ in range(REAL_MEMBERS if self.has_programs else 0):
            words = {"mode": "consume", "protocol": "consumer", "assignor": "uniform", "topic": READ_TOPIC}
            words |= {"bootstrap": self.daemon.bootstrap, "group": REAL_GROUP}
            program = [sys.executable, str(PROGRAMS / "python" / "confluent_kafka_program.py")]
            self.programs.append(Program(Command(program), *(f"{name}={value}" for name, value in words.items())))

    async def work_until_all_go_on(self) -> None:
        """Open the gate in calm weather: all converge. Then it may storm."""
        commits = [len(each.of_kind("COMMITTED")) for each in self.programs]
        for client in self.clients:
            client.progress = 0
        self.weather.is_calm = True
        began_s = time.monotonic()
        self.gate.open()
        await self.until(
            lambda: all(client.progress for client in self.clients) and all(map(self.has_converged, self.members)),
            lambda: (
                f"{[group for group in self.members if not self.has_converged(group)]} to converge, and "
                f"answers to {[client.name for client in self.clients if not client.progress]}"
            ),
        )
        self.recovery_seconds.append(time.monotonic() - began_s)
        await self.verify_convergence()
        if self.programs:
            await self.until(
                lambda: all(len(each.of_kind("COMMITTED")) > before
                            for each, before in zip(self.programs, commits, strict=True)),
                lambda: "\n".join(each.story() for each in self.programs),
            )  # fmt: skip
            self.real_recovery_seconds.append(time.monotonic() - began_s)
            owned = [each.owned for each in self.programs]
            assert sorted(number for each in owned for number in each) == list(range(READ_PARTITIONS)), owned
            moves = [each.of_kind("ASSIGNED") + each.of_kind("REVOKED") for each in self.programs]
            self.moves = self.moves or moves
            assert moves == self.moves, "nothing has happened that moves a partition of librdkafka's"
        self.weather.is_calm = False

    async def storm(self) -> None:
        """Members come and go, as much on a busy machine as on a quiet one."""
        members = [each for group in self.members.values() for each in group]
        enough = sum(each.progress for each in members) + self.chance.randrange(STORM)
        await self.until(lambda: sum(each.progress for each in members) >= enough, lambda: "answers")

    def has_converged(self, group: str) -> bool:
        """All are members of one epoch, and own everything that they subscribe to. (Nobody owns what another does.)"""
        members = self.members[group]
        known = [each.acknowledged for each in members]
        if not all(each.is_member for each in members) or len({each.epoch for each in known if each}) > 1:
            return False
        topics = frozenset().union(*(each.topics for each in known if each))
        owned = [place for each in members for place in each.owned]
        return sorted(owned) == sorted((topic, number) for topic in topics for number in range(PARTITIONS[topic]))

    async def verify_convergence(self) -> None:
        """The coordinator sees the same. A member's last word may be under way."""
        for group in self.members:
            line = await Line.connect(*self.address, client_id="verifier")
            deadline_s = time.monotonic() + PATIENCE_S
            while (described := await self.describe(line, group)).group_state != "Stable":
                assert time.monotonic() < deadline_s, described
                await asyncio.sleep(BUSY_S)
            line.close()
            assert described.group_epoch == described.assignment_epoch
            assert {each.member_epoch for each in described.members} == {described.group_epoch}
            owned = {each.member_id: assignment_of(each) for each in described.members}
            assert owned == {each.acknowledged.member_id: each.owned for each in self.members[group]
                             if each.acknowledged is not None}  # fmt: skip

    async def describe(self, line: Line, group: str) -> DescribedGroup:
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            found: DescribedGroup = (await line.ask(ConsumerGroupDescribeRequest([group]), 1)).groups[0]
            if found.error_code == ErrorCode.NONE:
                return found
            assert found.error_code in BUSY, (group, ErrorCode(found.error_code).name)
            assert time.monotonic() < deadline_s, f"{group} does not get loaded"
            await asyncio.sleep(BUSY_S)

    def real_acknowledged(self) -> dict[int, int]:
        """The last offset per partition that librdkafka's group has an acknowledged commit of."""
        for program in self.programs:
            for line in program.of_kind("COMMITTED"):
                for partition, offset in (pair.split(":") for pair in line.rest.split(",")):
                    self.real[int(partition)] = max(int(offset), self.real.get(int(partition), -1))
        return dict(self.real)

    async def verify(self, real: dict[int, int]) -> None:
        """While all clients wait: what the coordinator has read from its log is what it had acknowledged."""
        line = await Line.connect(*self.address, client_id="verifier")
        problems: list[str] = []
        for group in self.members:
            problems += self.problems_of(await self.describe(line, group))
        fetched = await self.fetch_offsets(line, [*self.members, *([REAL_GROUP] if self.programs else [])])
        theirs = {number: fetched.pop((group, topic, number))[0] for group, topic, number in list(fetched)
                  if group == REAL_GROUP}  # fmt: skip
        problems += self.commits.problems(fetched)
        problems += [
            f"{REAL_GROUP}: {theirs.get(number)} is committed for partition {number}, {offset} was acknowledged"
            for number, offset in real.items()
            if theirs.get(number, -1) < offset
        ]
        for number in range(READ_PARTITIONS if self.programs else 0):
            await self.read_on(line, number)
        problems += self.produced.problems()
        line.close()
        assert not problems, "\n".join(problems)

    def problems_of(self, described: DescribedGroup) -> list[str]:
        """What is wrong with a group as the coordinator describes it."""
        group, members = described.group_id, self.members[described.group_id]
        self.states[described.group_state] += 1
        self.under_way += sum(each.is_under_way for each in members)
        there = {each.member_id: each for each in described.members}
        found = [
            f"{each.name}: acknowledged {each.acknowledged}, "
            + (f"asked {each.asked}, " if each.is_under_way else "")
            + f"and there is {[there[one] for one in each.ids() if one in there]}"
            for each in members
            if not each.may_be(there)
        ]
        known = {one for each in members for one in each.ids()}
        found += [f"{group}: nobody is member {one}" for one in there.keys() - known]
        owned = Counter(place for each in described.members for place in assignment_of(each))
        found += [f"{group}: {count} members own {place}" for place, count in owned.items() if count > 1]
        told = [each.acknowledged.epoch for each in members if each.acknowledged is not None]
        least = max([self.epochs.get(group, 0), *told])
        self.epochs[group] = described.group_epoch
        if described.group_epoch < least or described.assignment_epoch > described.group_epoch:
            found.append(f"{group}: epoch {described.group_epoch} and {described.assignment_epoch} after {least}")
        return found

    async def end(self) -> None:
        """Nothing that was written is missing from what librdkafka's members have seen; none of them lost anything."""
        self.gate.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks.clear()
        await self.verify(self.real_acknowledged())
        everything = {value.decode() for values in self.produced.read.values() for value in values}
        await self.until(
            lambda: everything <= {value for each in self.programs for value in each.values} or not self.programs,
            lambda: "what was written to be read",
        )

    def summary(self, kills: int) -> str:
        members = [each for group in self.members.values() for each in group]
        groups = sum(self.states.values())
        return (
            f"{kills} kills ({self.starts_cut_short} starts cut short as well) found {groups} groups "
            f"{dict(self.states)}, with {self.under_way} heartbeats under way: {self.commits.acknowledgements:,} "
            f"acknowledged commits, {sum(map(len, self.produced.read.values())):,} records, none lost\n"
            f"{self.cleanings()}\n"
            f"{sum(each.joins for each in members)} joins, {sum(each.rebalances for each in members)} assignments; "
            f"members went on in their epoch {sum(each.went_on for each in members)} times, none was fenced\n"
            f"restart to first answer {spread(self.start_seconds)}; after that all groups had converged within "
            f"{spread(self.recovery_seconds)}"
            + (f", librdkafka's had committed within {spread(self.real_recovery_seconds)}" if self.programs else "")
        )


async def survive(daemon: Daemon, seed: int, kills: int, *, real: bool) -> str:
    crashes = ConsumerCrashes(daemon, seed, real=real)
    await crashes.create_topics()
    try:
        crashes.begin()
        for _ in range(kills):
            await crashes.work_until_all_go_on()
            await crashes.storm()
            await crashes.crash()
        await crashes.work_until_all_go_on()
        await crashes.end()
    finally:
        for task in crashes.tasks:
            task.cancel()
        for program in crashes.programs:
            if program.process.poll() is None:
                program.kill()
    return crashes.summary(kills)


def has_confluent_kafka() -> bool:
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        assert os.environ.get("CI") != "true", "pip install '.[clients]'"
        return False
    return True


@pytest.mark.full
@pytest.mark.clients
@pytest.mark.timeout(1800)
def test_consumer_groups_survive_sigkill(tmp_path: Path, seed: int) -> None:
    """Raw members, and librdkafka's where confluent-kafka is installed."""
    daemon = Daemon(tmp_path, {**CONSUMER_SETTINGS, "log.flush": "always"})
    summary = outlived(daemon, survive(daemon, seed, 50, real=has_confluent_kafka()))
    assert daemon.events("log cleaned"), "the cleaner was never done with anything"
    print(summary)

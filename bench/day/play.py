"""Groups of stand-ins on a server, the records that come to them, their deployment, and what it costs the server.

As recorded: a group reads one topic, each of its members has two partitions, and to each partition a record comes each
second, those of a topic evenly spread over it. Unlike there a topic is read by a group of each family, and a group has
five members.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from bench.day import templates
from bench.day.member import Member
from bench.day.templates import Script
from bench.day.world import Topic, Wire, World, decoded, frame_of
from bench.generator import WrongAnswer
from bench.groups import require, wait_until_loaded
from bench.servers import Server
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import build_batch
from tests.clients import recorded

MEMBERS_OF_A_GROUP = 5
PARTITIONS = 2 * MEMBERS_OF_A_GROUP
VALUE = b"x" * 100
PRODUCE, PRODUCE_VERSION = 0, 9
NOT_READY = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
READY_TRIES = 300
SETTLED_S = 120.0
LOOK_S = 0.1
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time: what the server used, what it was asked, by api key, and what members read."""

    wall_s: float
    clients_s: float  # what that is for the members, at their pace
    cpu_s: float
    own_cpu_s: float
    asked: Counter[int]
    records: int
    produced: int
    latencies_s: list[float]
    late_s: float

    @property
    def requests(self) -> int:
        return self.asked.total()


class Group:
    """Members of one family."""

    def __init__(self, play: Play, script: Script, topic: Topic, name: str) -> None:
        self.play, self.script, self.topic, self.name = play, script, topic, name
        self.members: list[Member] = []

    async def add(self) -> Member:
        """One more member, which has joined when this returns."""
        member = Member(self.play.world, self.script, self, next(self.play.numbers))
        self.members.append(member)
        await member.start()
        return member

    async def start(self, later_s: float) -> None:
        """All members, one after the other, as a deployment's pods come up."""
        await self.play.world.sleep(later_s)
        for _ in range(MEMBERS_OF_A_GROUP):
            starting = asyncio.create_task(self.add())
            await self.play.world.sleep(0.2)
            self.play.watch(starting)
        await self.settled()

    async def settled(self) -> None:
        """Until all partitions are somebody's, and nobody knows of another generation."""
        until_s = time.monotonic() + SETTLED_S
        while not self.is_settled():
            if time.monotonic() > until_s:
                told = ", ".join(f"{each.client_id}: {each.generation} {each.owned}" for each in self.members)
                raise WrongAnswer(f"{self.name} has not settled in {SETTLED_S:g} s: {told}")
            await asyncio.sleep(LOOK_S)

    def is_settled(self) -> bool:
        owned = sorted(partition for each in self.members for partition in each.owned)
        return owned == list(range(PARTITIONS)) and len({each.generation for each in self.members}) == 1

    async def deploy(self, later_s: float) -> None:
        """Replace each member by a new one, the next when all have their partitions again."""
        await self.play.world.sleep(later_s)
        for _ in range(len(self.members)):
            await self.members.pop(0).close()
            await self.add()
            await self.settled()

    async def close(self) -> None:
        while self.members:
            await self.members.pop().close()


class Producer:
    """Writes a record to one partition of a topic after the other."""

    def __init__(self, play: Play, topic: Topic) -> None:
        self.play = play
        self.is_stopped = False
        self.frames = []
        for number in range(PARTITIONS):
            batch = bytes(build_batch([(None, VALUE)], int(time.time() * 1000)))
            data = [TopicProduceData(topic.name, topic.topic_id, [PartitionProduceData(number, batch)])]
            request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=data)
            self.frames.append(frame_of(PRODUCE, PRODUCE_VERSION, "producer", request))

    async def begin(self) -> None:
        """The first record of each partition, when the server is ready for it."""
        self.wire = await Wire.open(self.play.server.port)
        for frame in self.frames:
            for _ in range(READY_TRIES):
                error_code = await self._write(frame)
                if error_code not in NOT_READY:
                    break
                await asyncio.sleep(LOOK_S)
            require(error_code, "Produce")

    async def go_on(self, later_s: float) -> None:
        """All others."""
        world = self.play.world
        due_s = time.monotonic() + later_s
        try:
            for frame in itertools.cycle(self.frames):
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
                if self.is_stopped:
                    break
                due_s += 1 / PARTITIONS / world.pace
                world.asked[PRODUCE] += 1
                require(await self._write(frame), "Produce")
                self.play.produced += 1
        finally:
            self.wire.close()

    async def _write(self, frame: bytearray) -> int:
        answer = decoded(PRODUCE, PRODUCE_VERSION, await self.wire.ask(bytearray(frame)))
        error_code: int = answer.responses[0].partition_responses[0].error_code
        return error_code


class Play:
    """All of it on one server."""

    def __init__(self, server: Server, members: int, name: str = "day") -> None:
        """`name` is what its topics and groups begin with."""
        families = recorded.families()
        self.server, self.name = server, name
        self.world = World(server.port)
        self.numbers = itertools.count(1)
        self.groups: list[Group] = []
        self.produced = 0
        self._count = members // (MEMBERS_OF_A_GROUP * len(families))
        self._producers: list[tuple[Producer, asyncio.Task[None]]] = []
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._starting: set[asyncio.Task[Member]] = set()

    def fail(self, why: BaseException) -> None:
        if not self._failed.done():
            self._failed.set_exception(why)

    def ended(self, task: asyncio.Task[None]) -> None:
        """What a member or a producer does goes on until somebody ends it."""
        if not task.cancelled():
            self.fail(task.exception() or WrongAnswer("somebody has stopped"))

    def watch(self, starting: asyncio.Task[Member]) -> None:
        """A member that starts may fail, too."""
        self._starting.add(starting)

        def done(task: asyncio.Task[Member]) -> None:
            self._starting.discard(task)
            if not task.cancelled() and (why := task.exception()) is not None:
                self.fail(why)

        starting.add_done_callback(done)

    async def guarded(self, work: Awaitable[T]) -> T:
        """Do it, unless some member fails meanwhile."""
        doing = asyncio.ensure_future(work)
        await asyncio.wait([doing, self._failed], return_when=asyncio.FIRST_COMPLETED)
        if self._failed.done():
            doing.cancel()
            self._failed.result()
        return doing.result()

    async def start(self, over_s: float) -> None:
        """Topics, their producers, and all members, which come within `over_s`."""
        world, families = self.world, recorded.families()
        await world.read_versions()
        names = [f"{self.name}-{number:03}" for number in range(self._count)]
        await world.make_topics(names, PARTITIONS)
        for name in names:
            topic = world.topics[name]
            self.groups += [Group(self, templates.script(each), topic, f"{name}-{each}") for each in families]
        lines = [self.server.line()]
        wait_until_loaded(lines, [each.name for each in self.groups])
        lines[0].close()
        producers = [Producer(self, world.topics[name]) for name in names]
        await self._all([each.begin() for each in producers])
        for number, producer in enumerate(producers):
            task = asyncio.create_task(producer.go_on(number / len(names) / PARTITIONS))
            task.add_done_callback(self.ended)
            self._producers.append((producer, task))
        step_s = over_s / len(self.groups)
        await self._all([each.start(number * step_s) for number, each in enumerate(self.groups)])

    async def _all(self, work: Iterable[Awaitable[None]]) -> None:
        await self.guarded(asyncio.gather(*work))

    async def window(self, seconds: float) -> Window:
        """Let some time go by, and see what it costs."""
        return await self.during(asyncio.sleep(seconds))

    async def during(self, work: Awaitable[object]) -> Window:
        """What goes on while something is done."""
        world = self.world
        asked, records, produced = Counter(world.asked), world.records, self.produced
        world.latencies_s, world.late_s = [], 0.0
        cpu_s, own_s, began_s = self.server.cpu_s(), time.process_time(), time.monotonic()
        await self.guarded(work)
        wall_s = time.monotonic() - began_s
        return Window(
            wall_s=wall_s,
            clients_s=wall_s * world.pace,
            cpu_s=self.server.cpu_s() - cpu_s,
            own_cpu_s=time.process_time() - own_s,
            asked=world.asked - asked,
            records=world.records - records,
            produced=self.produced - produced,
            latencies_s=world.latencies_s,
            late_s=world.late_s,
        )

    async def deploy(self, over_s: float) -> None:
        """Replace all members, group by group; groups begin within `over_s`."""
        step_s = over_s / len(self.groups)
        await self._all([each.deploy(number * step_s) for number, each in enumerate(self.groups)])

    async def shrink(self, members: int) -> None:
        """Close all but so many members, with the topics that nobody reads then."""
        stay = members // MEMBERS_OF_A_GROUP
        gone, self.groups = self.groups[stay:], self.groups[:stay]
        await self._all([each.close() for each in gone])
        await self.produce(len({each.topic.name for each in self.groups}))

    async def produce(self, topics: int) -> None:
        """Records come to so many topics only from now on."""
        done, self._producers = self._producers[topics:], self._producers[:topics]
        for producer, task in done:
            task.remove_done_callback(self.ended)
            producer.is_stopped = True
        for _, task in done:
            await self.guarded(task)

    async def end(self) -> None:
        """Everything stops, wherever it is."""
        for task in (*(task for _, task in self._producers), *self._starting):
            task.cancel()
        for group in self.groups:
            for member in group.members:
                await member.vanish()
        self.groups = []

"""Consumer groups whose assignments depend on the order of Kafka's hash tables: members come and go, one after another.

A program is made from a seed: 5 to 40 members with ids that the client chooses, one topic, no assignment interval. Each
member does as a consumer does: it gives up what it is told to, and says what it owns. In between the broker is started
again, so that the order comes from the log. What comes out is each answer, and the records of the group as they are in
`__consumer_offsets`, with members and partitions in their order.

`python -m tests.reference.orders` records what Kafka says to the programs of the quick tests.
"""

from __future__ import annotations

import asyncio
import json
import lzma
import random
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from coordinatord.testing.conform.raw_client import RawClient
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import iterate_batches, records
from kafka_wire.records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupTargetAssignmentMemberValue,
)
from kafka_wire.records.keys import CONSUMER_GROUP_KEYS, decode_key, decode_value
from tests.reference.broker import HOST, KafkaBroker, kafka_libs, prepare_broker
from tests.reference.record import SETTINGS, coordinator_ready

RECORDED = Path(__file__).parent / "orders.json.xz"
RECORDED_SEEDS = range(24)
BROKER = {
    **SETTINGS,
    "group.consumer.assignment.interval.ms": "0",
    # Nobody goes while others play.
    "group.consumer.max.session.timeout.ms": "1800000",
    "group.consumer.session.timeout.ms": "1800000",
}
TIMEOUT_MS = 600_000


class Connect(Protocol):
    """Opens a connection to a broker."""

    async def __call__(self, client_id: str) -> RawClient: ...


@dataclass(slots=True)
class _Member:
    """A consumer: what it was told last, and whether it has said so."""

    member_id: str
    instance_id: str | None
    assignor: str | None
    epoch: int = 0
    owned: list[int] = field(default_factory=list)
    says: list[int] | None = None
    is_away: bool = False


class Program:
    """One group, played on one broker. `log` is what is compared; `commands` are the heartbeats as a story has them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.client: RawClient | None = None
        self.group_id = f"orders-{seed}"
        self.topic = f"orders-topic-{seed}"
        self.partitions = self._random.choice([7, 30, 70, 150])
        self._size = self._random.choice([5, 8, 13, 20, 40])
        self._range_too = seed % 6 == 5
        self._topic_id = b""
        self._members: list[_Member] = []
        self._made = 0
        self.answers: list[Any] = []

    async def begin(self) -> None:
        """Members join, leave and come back."""
        for _ in range(2 * self._size):
            await self._act()

    async def end(self) -> None:
        """The same, after the broker has been started again; at last all members own what they are to own."""
        for _ in range(self._size):
            await self._act()
        for _ in range(4):
            for member in self._members:
                if not member.is_away:
                    await self._heartbeat(member)

    async def _act(self) -> None:
        present = [member for member in self._members if not member.is_away]
        chance = self._random.random()
        if self._made < self._size and (len(present) < 2 or chance < 0.4):
            await self._join()
        elif chance < 0.6 and len(present) > 2:
            await self._leave(self._random.choice(present))
        elif chance < 0.7 and (away := [member for member in self._members if member.is_away]):
            await self._return(away[0])
        else:
            await self._heartbeat(self._random.choice(present))

    async def _join(self) -> None:
        self._made += 1
        instance_id = f"instance-{self._made}" if self._random.random() < 0.25 else None
        assignor = self._random.choice([None, "range", "uniform"]) if self._range_too else None
        member = _Member(self._new_id(), instance_id, assignor)
        self._members.append(member)
        await self._say_all(member)

    def _new_id(self) -> str:
        """Like those of real clients, a Uuid in base64; the short ones let members share a slot."""
        alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
        length = self._random.choice([3, 22])
        return f"m{self._made}" + "".join(self._random.choices(alphabet, k=length))

    async def _return(self, member: _Member) -> None:
        """A static member comes back, mostly under another id."""
        member.is_away = False
        if self._random.random() < 0.7:
            member.member_id = self._new_id()
        await self._say_all(member)

    async def _say_all(self, member: _Member) -> None:
        member.owned = []
        await self._send(
            member,
            member_epoch=0,
            rebalance_timeout_ms=TIMEOUT_MS,
            subscribed_topic_names=[self.topic],
            topic_partitions=[],
            instance_id=member.instance_id,
            server_assignor=member.assignor,
        )

    async def _leave(self, member: _Member) -> None:
        if member.instance_id is not None:
            member.is_away = True
            await self._send(member, member_epoch=-2, instance_id=member.instance_id)
        else:
            self._members.remove(member)
            await self._send(member, member_epoch=-1)

    async def _heartbeat(self, member: _Member) -> None:
        says, member.says = member.says, None
        owned = None
        if says is not None:
            owned = [TopicPartitions(self._topic_id, says)] if says else []
        await self._send(member, member_epoch=member.epoch, instance_id=member.instance_id, topic_partitions=owned)

    async def _send(self, member: _Member, **fields: Any) -> None:
        fields = {name: value for name, value in fields.items() if value is not None}
        request = ConsumerGroupHeartbeatRequest(group_id=self.group_id, member_id=member.member_id, **fields)
        assert self.client is not None
        answer = await self.client.ask(request, 1)
        told = None
        if answer.assignment is not None:
            parts = answer.assignment.topic_partitions
            told = sorted(parts[0].partitions) if parts else []
            if parts:
                self._topic_id = parts[0].topic_id
            member.says, member.owned = told, told
        self.answers.append([member.member_id, ErrorCode(answer.error_code).name, answer.member_epoch, told])
        if answer.member_epoch >= 0:
            member.epoch = answer.member_epoch


async def begin(connect: Connect, programs: list[Program]) -> None:
    """Play the beginnings of programs, one after another."""
    client = await connect("orders")
    for program in programs:
        program.client = client
        topic = CreatableTopic(program.topic, program.partitions, 1)
        created = await client.ask(CreateTopicsRequest([topic], 60_000), 4)
        assert [each.error_code for each in created.topics] == [ErrorCode.NONE]
        await _known(client, program)
        await program.begin()
    client.close()


async def _known(client: RawClient, program: Program) -> None:
    """Kafka's coordinator hears of a new topic somewhat later than others do: wait until it assigns its partitions."""
    for _ in range(600):
        request = ConsumerGroupHeartbeatRequest(f"probe-of-{program.group_id}", "probe", 0)
        request.rebalance_timeout_ms = TIMEOUT_MS
        request.subscribed_topic_names = [program.topic]
        request.topic_partitions = []
        answer = await client.ask(request, 1)
        await client.ask(ConsumerGroupHeartbeatRequest(request.group_id, "probe", -1), 1)
        if answer.assignment is not None and answer.assignment.topic_partitions:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{program.topic} is not assigned to anybody")


async def end(connect: Connect, programs: list[Program]) -> list[dict[str, Any]]:
    """Play the ends. Returns what was answered and what was logged."""
    client = await connect("orders")
    found: dict[str, dict[str, Any]] = {}
    for program in programs:
        program.client = client
        await program.end()
        found[program.group_id] = {"answers": program.answers, "log": []}
    for group_id, line in await read_log(client):
        if group_id in found:
            found[group_id]["log"].append(line)
    client.close()
    return list(found.values())


async def read_log(client: RawClient) -> list[tuple[str, list[Any]]]:
    """The records of consumer groups: group id, then the kind, the member, and what it is about in its order."""
    lines: list[tuple[str, list[Any]]] = []
    offset = 0
    while True:
        part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 24)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1 << 26, topics=[FetchTopic("__consumer_offsets", partitions=[part])]
        )
        response = await client.ask(request, 11)
        data = bytes(response.responses[0].partitions[0].records or b"")
        batches = list(iterate_batches(data, partial=True))
        if not batches:
            return lines
        for at, header in batches:
            offset = header.next_offset
            for record in records(data, at, header):
                key: Any = None if record.key is None or header.is_control else decode_key(record.key)
                if type(key) in CONSUMER_GROUP_KEYS:
                    value = None if record.value is None else decode_value(key, record.value)
                    lines.append((key.group_id, _line(key, value)))


def _line(key: Any, value: Any) -> list[Any]:
    kind = type(key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
    line = [kind, getattr(key, "member_id", "")]
    if value is None:
        line.append(None)
    elif isinstance(value, ConsumerGroupTargetAssignmentMemberValue):
        line += [each.partitions for each in value.topic_partitions]
    elif isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
        line += [value.member_epoch, value.previous_member_epoch, value.state]
        line += [[each.partitions, each.assignment_epochs] for each in value.assigned_partitions]
        line += [[each.partitions, each.assignment_epochs] for each in value.partitions_pending_revocation]
    return line


def play_on_kafka(libs: Path, directory: Path, seeds: Iterable[int]) -> list[dict[str, Any]]:
    """What Kafka says to these programs."""
    programs = [Program(seed) for seed in seeds]
    prepared = prepare_broker(libs, directory / "kafka", BROKER)
    prepared.format()

    async def connect(client_id: str) -> RawClient:
        return await RawClient.connect(HOST, prepared.port, client_id)

    async def first(broker: KafkaBroker) -> None:
        await coordinator_ready(broker)
        await begin(connect, programs)

    async def second(broker: KafkaBroker) -> list[dict[str, Any]]:
        await coordinator_ready(broker)
        return await end(connect, programs)

    broker = prepared.start()
    try:
        asyncio.run(first(broker))
        broker.stop()
        broker = prepared.start()
        return asyncio.run(second(broker))
    finally:
        broker.stop()


async def play_in_process(directory: Path, seeds: Iterable[int]) -> list[dict[str, Any]]:
    """What our daemon says; to be run by `in_process.run`."""
    from tests.reference.in_process import running_in_process  # recording Kafka does without our daemon

    programs = [Program(seed) for seed in seeds]
    async with running_in_process(directory, BROKER) as ours:
        await begin(ours.connect, programs)
    async with running_in_process(directory, BROKER) as ours:
        return await end(ours.connect, programs)


def recorded() -> list[dict[str, Any]]:
    """What Kafka said to the programs of `RECORDED_SEEDS`."""
    found: list[dict[str, Any]] = json.loads(lzma.decompress(RECORDED.read_bytes()))
    return found


def main() -> None:
    """Record."""
    with tempfile.TemporaryDirectory() as directory:
        found = play_on_kafka(kafka_libs(), Path(directory), RECORDED_SEEDS)
    RECORDED.write_bytes(lzma.compress(json.dumps(found, separators=(",", ":")).encode(), preset=9))


if __name__ == "__main__":
    main()

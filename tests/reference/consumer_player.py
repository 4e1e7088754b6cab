"""Play a random program of both protocols against a broker, any broker, and tell it as a story.

After each request the player looks at the whole group, by ConsumerGroupDescribe or DescribeGroups, and tells of it when
it has changed. What a broker has chosen freely, it notes as `Choices`. Our daemon is then made to choose the same
(consumer_choices.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from coordinatord.testing.conform.normalized import put_in_order, rendered
from coordinatord.testing.conform.raw_client import Answer
from coordinatord.testing.conform.wait_until_settled import wait_until_settled
from kafka_wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.delete_groups import DeleteGroupsRequest
from kafka_wire.api.delete_topics import DeleteTopicsRequest
from kafka_wire.api.describe_groups import DescribeGroupsRequest
from kafka_wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.offset_fetch import OffsetFetchResponseGroup
from kafka_wire.api_key import ApiKey
from kafka_wire.client import codec_of
from kafka_wire.errors import ErrorCode
from kafka_wire.registry import codec
from tests.reference.consumer_requests import (
    CLASSIC,
    CONSUMER,
    WORDS,
    ConsumerNames,
    ConsumerSeat,
    ConsumerWording,
    full_name,
    learn,
)
from tests.reference.consumer_steps import OWN, SEATS, SHARED
from tests.reference.random_player import (
    ANSWER_TIMEOUT_S,
    LOOK_S,
    PARKABLE,
    Choices,
    Connect,
    Played,
    Told,
    Wire,
    Wires,
    command,
)
from tests.reference.random_steps import Program, Step

PROPAGATION_S = 0.3
"""From Kafka's controller to its group coordinator; the same time is given to expressions and transactions."""
RESOLUTION_S = 0.04
"""Any heartbeat may find that expressions are to be resolved."""
RESOLVING = ("ConsumerGroupHeartbeatRequest", "JoinGroupRequest")
LONGEST_S = 50
"""Sessions end after a minute."""
LONGEST_WITH_EXPRESSIONS_S = 9.5
"""A group resolves its expressions again after ten seconds."""


class ConsumerPlayer(Wires):
    """One run of one program. `name` keeps its groups and topics apart from those of other runs; all names of runs have
    the same length, which is part of what members say.
    """

    def __init__(self, program: Program, connect: Connect, host: str, port: int, name: str) -> None:
        self.program = program
        super().__init__(connect)
        self.names = ConsumerNames(name, host, port)
        self.names.ids["stranger"] = "stranger"
        self.seats = [ConsumerSeat(letter, settings) for letter, settings in zip(SEATS, program.seats, strict=False)]
        self.numbers: dict[str, str] = {}  # by connection: the request that it waits for
        self.counts: dict[str, int] = {**SHARED}
        self.story: list[Told] = []
        self.asked = 0
        self.choices = Choices()
        self.transactions = 0
        self.seen: list[str] = []
        self.has_expressions = False
        self.is_empty = False  # a consumer group without members
        self.is_comparable = True
        self.took_s = 0.0

    async def play(self, topic_ids: dict[str, bytes]) -> Played:
        """Play it, and leave the broker without its groups and topics."""
        self.topic_ids = dict(topic_ids)
        for topic_id in topic_ids.values():
            self.names.id_for("T", topic_id)
        now = asyncio.get_running_loop().time
        began_s = now()
        self.barrier = await self.connect("barrier")
        try:
            for step in self.program.steps:
                await self._play(step)
            self.took_s = now() - began_s
        finally:
            await self._clean_up()
        longest_s = LONGEST_WITH_EXPRESSIONS_S if self.has_expressions else LONGEST_S
        return Played(self.story, self.choices, self.is_comparable and self.took_s < longest_s)

    async def _play(self, step: Step) -> None:
        seat = self.seats[step.get("seat", 0)]
        match step["do"]:
            case "cycle":
                for _ in range(step["times"]):
                    for number in step["seats"]:
                        await self._go_on(self.seats[number])
            case "switch":
                await self._switch(seat, step)
            case "transaction":
                await self._transaction(seat, step)
            case "create" | "grow" | "drop":
                await self._change_topic(step)
            case "configure":
                await self._ask(seat, step)
                await asyncio.sleep(PROPAGATION_S)
                await self._look()
            case _:
                await self._ask(seat, step)

    # Clients

    async def _go_on(self, seat: ConsumerSeat) -> None:
        """What a client does next."""
        if seat.kind == CONSUMER:
            own = {"do": "beat", "id": "own", "version": None, "epoch": "own", "full": False, "ack": "told"}
            await self._ask(seat, own | {"group": "group"})
            return
        if self._is_waiting(seat):
            return
        if seat.member_id and seat.generation >= 0:
            error = await self._ask(seat, {"do": "heartbeat", "version": 4})
            if error == ErrorCode.NONE:
                return
        await self._join(seat)

    async def _join(self, seat: ConsumerSeat) -> None:
        for _ in range(2):
            if await self._ask(seat, {"do": "join"}) != ErrorCode.MEMBER_ID_REQUIRED:
                break
        if not self._is_waiting(seat) and seat.member_id and seat.kind == CLASSIC:
            await self._ask(seat, {"do": "sync"})

    def _is_waiting(self, seat: ConsumerSeat) -> bool:
        wire = self.wires.get(seat.connection)
        return wire is not None and wire.waiting is not None

    async def _switch(self, seat: ConsumerSeat, step: Step) -> None:
        if step["leaves"] and seat.member_id:
            if seat.kind == CONSUMER:
                epoch = -2 if seat.settings["instance"] else -1
                own = {"do": "end", "id": "own", "version": None, "epoch": epoch, "full": False, "ack": "none"}
                await self._ask(seat, own | {"group": "group"})
            else:
                number = self.seats.index(seat)
                await self._ask(seat, {"do": "leave", "version": 5, "others": [], "seat": number})
        await self._close(seat)
        seat.forget()
        seat.drop()
        seat.generation = 0
        seat.kind = CLASSIC if seat.kind == CONSUMER else CONSUMER
        if step["joins"]:
            if seat.kind == CLASSIC:
                await self._join(seat)
            else:
                await self._go_on(seat)

    async def _transaction(self, seat: ConsumerSeat, step: Step) -> None:
        self.transactions += 1
        step = step | {"transaction": self.transactions, "producer_id": -1}
        for what in ("init", "add offsets", "commit in transaction", "end transaction"):
            message = await self._ask_for_answer(seat, step | {"do": what})
            if what == "init" and message is not None:
                step["producer_id"] = message.producer_id
        await asyncio.sleep(PROPAGATION_S)

    # Topics

    async def _change_topic(self, step: Step) -> None:
        name = full_name(step["topic"], self.names.story)
        self.asked += 1
        count = self.counts.get(name, 0)
        request: Any
        if step["do"] == "create":
            wanted = max(count, step["partitions"]) if count else step["partitions"]
            request, version = CreateTopicsRequest([CreatableTopic(name, step["partitions"], 1)], 10_000), 7
        elif step["do"] == "grow":
            wanted = count + max(0, step["by"]) if count else 0
            request, version = (
                CreatePartitionsRequest([CreatePartitionsTopic(name, count + step["by"], None)], 9_999),
                3,
            )
        else:
            wanted = 0
            request, version = DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), 5
        answer = await self.barrier.ask(request, version)
        one = (getattr(answer, "topics", None) or getattr(answer, "results", None) or answer.responses)[0]
        self.story.append(Told(f"{step['do']} {step['topic']} {wanted}", [ErrorCode(one.error_code).name]))
        if one.error_code == ErrorCode.NONE:
            if step["do"] == "create":
                self.choices.topic_ids[str(self.asked)] = one.topic_id.hex()
                self.topic_ids[name] = one.topic_id
                self.names.id_for("T", one.topic_id)
            await self._topic_has(name, wanted)
            await wait_until_settled(self.connect, Answer(codec_of(request, version), request, answer))
        await asyncio.sleep(PROPAGATION_S)
        await self._look()

    async def _topic_has(self, name: str, count: int) -> None:
        """Kafka's controller answers before its broker knows."""
        self.counts[name] = count
        if not count:
            del self.counts[name]
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            while True:
                found = await self.barrier.ask(MetadataRequest([MetadataRequestTopic(name=name)], False), 4)
                if len(found.topics[0].partitions) == count:
                    return
                await asyncio.sleep(0.05)

    # Requests and answers

    async def _ask(self, seat: ConsumerSeat, step: Step) -> int:
        """The error of the answer; -1 if there is none, yet or in the answer as a whole."""
        message = await self._ask_for_answer(seat, step)
        return int(getattr(message, "error_code", -1))

    async def _ask_for_answer(self, seat: ConsumerSeat, step: Step) -> Any:
        wording = ConsumerWording(step, seat, self.seats, self.topic_ids, self.names, self.counts)
        request, version = WORDS[step["do"]](wording)
        kind = type(request).__name__
        if self.is_empty and kind == "JoinGroupRequest" and request.member_id:
            return None  # Kafka then forgets the group but for its log: a listed difference
        wire = await self.free_wire(seat)
        self.asked += 1
        self.numbers[wire.name] = str(self.asked)
        wire.client.send(request, version)
        wire.waiting = step
        if kind not in PARKABLE:
            assert await wire.next(ANSWER_TIMEOUT_S), f"no answer to {request}"
        elif not await wire.next(LOOK_S):
            await self._pass_barrier()
        beginning = f"{wire.name}{':' if wire.inbox else '>'} {kind.removesuffix('Request')} v{version}"
        told = Told(command(self.names, beginning, request))
        self.story.append(told)
        message = None
        if wire.inbox:
            message, told.answer = self._take(wire)
        if isinstance(request, IncrementalAlterConfigsRequest):
            await wait_until_settled(
                self.connect, Answer(codec(ApiKey.INCREMENTAL_ALTER_CONFIGS, version), request, message)
            )
        if getattr(request, "subscribed_topic_regex", None):
            self.has_expressions = True
            await asyncio.sleep(PROPAGATION_S)
        elif self.has_expressions and kind in RESOLVING:
            await asyncio.sleep(RESOLUTION_S)
        if any(other.waiting for other in self.wires.values()):
            await self._pass_barrier()
            self._collect()
        await self._look()
        return message

    async def _pass_barrier(self) -> None:
        """What was asked before is in the log when a commit is, and there is one log for all groups."""
        await asyncio.sleep(LOOK_S)
        topics = [OffsetCommitRequestTopic("random.a", partitions=[OffsetCommitRequestPartition(0, self.asked)])]
        answer = await self.barrier.ask(OffsetCommitRequest(f"barrier-{self.names.story}", topics=topics), 8)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE, answer
        await asyncio.sleep(LOOK_S)

    def _collect(self) -> None:
        """Tell of the answers that have come to parked requests."""
        for name in sorted(self.wires):
            wire = self.wires[name]
            while wire.waiting is not None and wire.inbox:
                _, lines = self._take(wire)
                self.story.append(Told(f"{name}<", lines))

    def _take(self, wire: Wire) -> tuple[Any, list[str]]:
        """An answer, and the answer as lines."""
        _, answer = wire.inbox.pop(0)
        wire.waiting = None
        if answer is None:
            del self.wires[wire.name]
            return None, ["closed"]
        self._note(wire, answer)
        put_in_order(answer.request, answer.message)
        for group in getattr(answer.message, "groups", []):
            if type(group) is OffsetFetchResponseGroup:
                group.topics.sort(key=lambda topic: (topic.name, self.names.ids.get(topic.topic_id, "")))
        lines = rendered(self.names, answer.message, answer.codec.api_version)
        self.names.news.clear()
        seat = next(seat for seat in self.seats if seat.letter == wire.name[0])
        learn(seat, answer.request, answer.message, self.names, self.topic_ids)
        return answer.message, lines

    def _note(self, wire: Wire, answer: Answer) -> None:
        """What the broker has chosen."""
        message = answer.message
        member_id = getattr(message, "member_id", None)
        if member_id and not answer.request.member_id:
            self.choices.ids[self.numbers[wire.name]] = member_id
        if getattr(message, "leader", None):
            self.choices.leaders[str(self.asked)] = message.leader

    def _note_parked(self, members: list[Any]) -> None:
        """The ids of members whose join is parked, and may never be answered."""
        known = set(self.choices.ids.values())
        for member in members:
            wire = self.wires.get(member.client_id)
            if member.member_id not in known and wire is not None and wire.waiting is not None:
                self.choices.ids.setdefault(self.numbers[wire.name], member.member_id)

    async def _look(self) -> None:
        """Tell how the group is now, if it is not as it was."""
        group_id = f"{self.names.story}.group"
        answer: Any = await self.barrier.ask(ConsumerGroupDescribeRequest([group_id]), 1)
        group, version = answer.groups[0], 1
        if group.error_code == ErrorCode.NONE:
            self.choices.targets[str(self.asked)] = {
                member.member_id: {
                    part.topic_name.removeprefix(f"{self.names.story}."): sorted(part.partitions)
                    for part in member.target_assignment.topic_partitions
                }
                for member in group.members
            }
        else:
            answer, version = await self.barrier.ask(DescribeGroupsRequest([group_id]), 6), 6
        self.is_empty = group.group_state == "Empty"
        self._note_parked(answer.groups[0].members)
        lines = rendered(self.names, answer, version)
        self.names.news.clear()
        if lines != self.seen:
            self.story.append(Told("the group", lines))
            self.seen = lines

    async def _close(self, seat: ConsumerSeat) -> None:
        wire = self.wires.pop(seat.connection, None)
        if wire is not None:
            await wire.close()
            await asyncio.sleep(LOOK_S)

    async def _clean_up(self) -> None:
        for wire in self.wires.values():
            await wire.close()
        with contextlib.suppress(ConnectionError):
            group = f"{self.names.story}.group"
            described = await self.barrier.ask(ConsumerGroupDescribeRequest([group]), 1)
            members = [member.member_id for member in described.groups[0].members]
            members += [value for value, name in self.names.ids.items() if name[0] == "M"]
            await self.barrier.ask(LeaveGroupRequest(group, members=[MemberIdentity(each) for each in members]), 5)
            await self.barrier.ask(DeleteGroupsRequest([group, f"{group}2", f"{group}3"]), 2)
            own = [name for each in OWN if (name := full_name(each, self.names.story)) in self.counts]
            if own:
                await self.barrier.ask(DeleteTopicsRequest(topic_names=own, timeout_ms=10_000), 5)
        self.barrier.close()

"""Members of consumer groups (KIP-848) that note what they were told, however often their coordinator dies.

Each knows the states that the coordinator may have it in: the one that was acknowledged last, and while a request is
under way the one after it. What one member owns no other one may own, from the answer that says so until it tells, in
its next request, that it has given it up.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kafka_wire.api.consumer_group_describe import Member
from kafka_wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_wire.errors import ErrorCode
from tests.clients.raw import Line
from tests.clients.raw_member import commit_errors, commit_request
from tests.crash.ledger import CommitLedger
from tests.crash.load import BUSY, BUSY_S, Client, Gate

HEARTBEAT_VERSION, COMMIT_VERSION = 1, 9
LEAVING, LEAVING_FOR_NOW = -1, -2
REBALANCE_TIMEOUT_MS = 60_000  # nobody is expelled: who is not known any more has been forgotten
CHURN = 0.06  # how often a member leaves, or subscribes to something else
PAUSE_S = 0.01

Owned = frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Known:
    """A member as the coordinator may know it. `assigned` is None where only the coordinator can know.

    `revoked` are partitions that it may have been told to give up: it is described as their owner until it has.
    """

    member_id: str
    epoch: int
    topics: frozenset[str]
    assigned: Owned | None
    revoked: Owned = frozenset()

    def is_of(self, member: Member) -> bool:
        """Whether this is the member that the coordinator describes."""
        if self.topics != set(member.subscribed_topic_names):
            return False
        if self.assigned is None:
            return member.member_epoch >= self.epoch
        described = assignment_of(member)
        return member.member_epoch == self.epoch and self.assigned <= described <= self.assigned | self.revoked


def assignment_of(member: Member) -> Owned:
    return frozenset(
        (each.topic_name, number) for each in member.assignment.topic_partitions for number in each.partitions
    )


class Owners:
    """Who owns what, as the members understand it."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, str, int], str] = {}

    def take(self, group: str, partitions: Iterable[tuple[str, int]], name: str) -> None:
        for topic, number in partitions:
            owner = self._owners.setdefault((group, topic, number), name)
            assert owner == name, f"{topic}-{number} of {group} was given to {name}, and {owner} owns it"

    def give_up(self, group: str, partitions: Iterable[tuple[str, int]]) -> None:
        for topic, number in partitions:
            del self._owners[group, topic, number]


@dataclass(slots=True)
class Weather:
    """While it is calm nobody leaves, and nobody changes a subscription."""

    is_calm: bool = True


class ConsumerClient(Client):
    """A member that commits what it owns by its epoch. It leaves now and then, for good or, a static one, for now."""

    def __init__(
        self,
        name: str,
        address: tuple[str, int],
        gate: Gate,
        ledger: CommitLedger,
        group: str,
        topic_ids: Mapping[str, bytes],
        owners: Owners,
        weather: Weather,
        chance: random.Random,
        *,
        static: bool,
    ) -> None:
        super().__init__(name, address, gate)
        self.ledger, self.group, self.owners, self.weather, self.chance = ledger, group, owners, weather, chance
        self.topic_ids = topic_ids
        self.topic_names = {topic_id: topic for topic, topic_id in topic_ids.items()}
        self.first_topic = next(iter(topic_ids))
        self.instance_id = name if static else None
        self.acknowledged: Known | None = None
        self.asked: Known | None = None
        self.is_under_way = False
        self.owned: Owned = frozenset()
        self.told: Owned = frozenset()  # what the coordinator has been told that it owns
        self.went_on = 0  # after a crash, with the epoch that it had
        self.joins = 0
        self.rebalances = 0  # answers with an assignment

    @property
    def is_member(self) -> bool:
        return self.acknowledged is not None and self.acknowledged.epoch > 0

    def may_be(self, there: Mapping[str, Member]) -> bool:
        """Whether the coordinator has it in one of the states that it may have it in."""
        states = [self.acknowledged, self.asked] if self.is_under_way else [self.acknowledged]
        mine = [there[each] for each in self.ids() if each in there]
        if not mine:
            return None in states
        return len(mine) == 1 and any(
            state is not None and state.member_id == mine[0].member_id and state.is_of(mine[0]) for state in states
        )

    def ids(self) -> set[str]:
        """The member ids that it may have."""
        states = [self.acknowledged, self.asked] if self.is_under_way else [self.acknowledged]
        return {state.member_id for state in states if state is not None}

    async def work(self, line: Line) -> None:
        if self.is_under_way:
            await self.repeat(line)
        elif self.is_member:
            await self.heartbeat(line, full=True)
            self.went_on += 1
        while True:
            if not self.is_member:
                await self.join(line)
            elif not self.weather.is_calm and self.chance.random() < CHURN:
                await self.change(line)
            else:
                await self.heartbeat(line)
                await self.commit(line)
            await asyncio.sleep(self.chance.uniform(0, PAUSE_S))

    async def repeat(self, line: Line) -> None:
        """What a member does whose request has had no answer: it says it again, in full."""
        if self.asked is not None and self.asked.epoch <= 0 and self.instance_id is not None and not self.is_member:
            await self.take_place(line, self.asked)
        elif self.asked is None or self.asked.epoch < 0:
            await self.leave(line, for_now=self.asked is not None)
        elif self.asked.epoch == 0:
            await self.join(line, self.asked.member_id)
        else:
            await self.heartbeat(line, self.asked.topics, full=True)
            self.went_on += 1

    async def take_place(self, line: Line, asked: Known) -> None:
        """A static member that does not know whether it has joined: only who has left for now is replaced."""
        request = ConsumerGroupHeartbeatRequest(self.group, asked.member_id, LEAVING_FOR_NOW, self.instance_id)
        away = replace(asked, epoch=LEAVING_FOR_NOW)
        answer = await self.ask(line, away, request)
        if answer.error_code == ErrorCode.NONE:
            self.acknowledged = away
            await self.join(line)
        else:  # it has not
            joined_never = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_ID_NOT_FOUND}
            assert answer.error_code in joined_never, ErrorCode(answer.error_code).name
            await self.join(line, asked.member_id)

    async def change(self, line: Line) -> None:
        """Leave, or subscribe to something else."""
        if self.chance.random() < 0.5:
            await self.leave(line, for_now=self.instance_id is not None and self.chance.random() < 0.7)
            return
        assert self.acknowledged is not None
        both = frozenset(self.topic_ids)
        await self.heartbeat(line, frozenset([self.first_topic]) if self.acknowledged.topics == both else both)

    async def join(self, line: Line, member_id: str | None = None) -> None:
        """Under a new member id, or under the one with which it has asked already."""
        asked = Known(member_id or str(uuid.uuid4()), 0, frozenset([self.first_topic]), None)
        self.give_up(self.owned)
        self.told = frozenset()
        await self.say(line, asked, self.request(asked, full=True))
        self.joins += 1

    async def heartbeat(self, line: Line, topics: frozenset[str] | None = None, *, full: bool = False) -> None:
        assert self.acknowledged is not None
        asked = replace(self.acknowledged, topics=topics or self.acknowledged.topics, assigned=None)
        await self.say(line, asked, self.request(asked, full=full))

    async def leave(self, line: Line, *, for_now: bool) -> None:
        before = self.acknowledged
        assert before is not None
        epoch = LEAVING_FOR_NOW if for_now else LEAVING
        request = ConsumerGroupHeartbeatRequest(self.group, before.member_id, epoch, self.instance_id)
        asked = replace(before, epoch=epoch, revoked=frozenset()) if for_now else None
        self.give_up(self.owned)
        answer = await self.ask(line, asked, request)
        gone_already = not for_now and answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID  # the answer was lost
        if answer.error_code == ErrorCode.NONE or gone_already:
            self.acknowledged = asked
        else:
            self.refused(answer)

    def request(self, asked: Known, *, full: bool) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(self.group, asked.member_id, asked.epoch)
        if full or self.acknowledged is None or asked.topics != self.acknowledged.topics:
            request.subscribed_topic_names = sorted(asked.topics)
        if full:
            request.instance_id = self.instance_id
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
        if full or self.owned != self.told:
            numbers: dict[bytes, list[int]] = {}
            for topic, number in sorted(self.owned):
                numbers.setdefault(self.topic_ids[topic], []).append(number)
            request.topic_partitions = [TopicPartitions(*each) for each in numbers.items()]
        return request

    async def say(self, line: Line, asked: Known, request: ConsumerGroupHeartbeatRequest) -> None:
        """Send a heartbeat, and take what it is answered."""
        telling = self.owned
        answer = await self.ask(line, asked, request)
        if answer.error_code != ErrorCode.NONE:
            self.refused(answer)
            return
        if request.topic_partitions is not None:
            self.told = telling
        assigned = self.owned
        if answer.assignment is not None:
            self.rebalances += 1
            assigned = frozenset(
                (self.topic_names[each.topic_id], number)
                for each in answer.assignment.topic_partitions
                for number in each.partitions
            )
        before = self.acknowledged.epoch if self.acknowledged is not None else 0
        assert answer.member_epoch >= max(before, asked.epoch), f"{self.name}: {answer.member_epoch} after {before}"
        revoked = (self.owned | asked.revoked) - assigned
        self.acknowledged = replace(asked, epoch=answer.member_epoch, assigned=assigned, revoked=revoked)
        self.give_up(self.owned - assigned)
        self.owners.take(self.group, assigned, self.name)
        self.owned = assigned
        self.progress += 1

    def give_up(self, partitions: Owned) -> None:
        self.owners.give_up(self.group, partitions)
        self.owned -= partitions

    def refused(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        """A coordinator that is not there yet is no error; any other answer is: nobody has been away for long."""
        error = ErrorCode(answer.error_code)
        assert error in BUSY, f"{self.name}, {self.acknowledged}, got {error.name}: {answer.error_message}"

    async def ask(
        self, line: Line, asked: Known | None, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse:
        """The answer, or ConnectionError: then the request stays under way."""
        self.asked, self.is_under_way = asked, True
        answer: ConsumerGroupHeartbeatResponse = await line.ask(request, HEARTBEAT_VERSION)
        while answer.error_code in BUSY:
            await asyncio.sleep(BUSY_S)
            answer = await line.ask(request, HEARTBEAT_VERSION)
        self.is_under_way = False
        return answer

    async def commit(self, line: Line) -> None:
        if not self.owned or self.acknowledged is None:
            return
        offsets = {each: self.ledger.next_offset((self.group, *each)) for each in self.owned}
        request = commit_request(self.group, offsets, self.acknowledged.epoch, self.acknowledged.member_id)
        for partition, error in commit_errors(await line.ask(request, COMMIT_VERSION)).items():
            if error == ErrorCode.NONE:
                self.ledger.acknowledge((self.group, *partition), offsets[partition])
            else:
                assert error in BUSY, f"{self.name}'s commit by epoch {self.acknowledged.epoch}: {error.name}"
                self.ledger.refusals[error.name] += 1

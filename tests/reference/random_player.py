"""Play a random program against a broker, any broker, and tell it as a story.

What a step leaves open (member ids, generations, who leads) is what the broker has said so far. Several members wait
for an answer at a time, so after each request the player looks who got one. Whether a request is parked it learns
without waiting long: a heartbeat of nobody passes through the same queue of the coordinator, and its answer says that
the queue is empty.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from coordinatord.testing.conform.normalized import Names, filled, parts, put_in_order, rendered
from coordinatord.testing.conform.raw_client import Answer, RawClient
from kafka_wire.api.delete_groups import DeleteGroupsRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.errors import ErrorCode
from tests.reference.random_requests import Seat, learn, request_for
from tests.reference.random_steps import BURST_S, MARGIN_S, SEATS, SPAN_S, Program, Step

LOOK_S = 0.008
"""How long an answer that comes at once may take on its way."""
STEP_S = 0.002
"""Between two requests: what begins with one never ends at the same instant as what begins with the next."""
ANSWER_TIMEOUT_S = 20
COST_OF_A_BURST = 26
"""About a hundredth of a second each."""
PARKABLE = ("JoinGroupRequest", "SyncGroupRequest")
CHANGING = (*PARKABLE, "LeaveGroupRequest", "DeleteGroupsRequest")
"""Requests that others may get an answer from."""

UUID_CHARACTERS = len("-00000000-0000-0000-0000-000000000000")
IDENTITY = re.compile(rb"#[A-F]\d+\.")
"""In a member's metadata: which seat it is from, and its how manieth life."""

Connect = Callable[[str], Awaitable[RawClient]]


@dataclass(slots=True)
class Told:
    """One paragraph of a story: a command, and what came back when it was played."""

    command: str
    answer: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        return [self.command, "----", *self.answer] if self.answer else [self.command]


@dataclass(slots=True)
class Choices:
    """What a broker has chosen freely: ids of members and topics (as hexadecimal digits) by the number of the request
    that they followed, leaders, in programs of the classic protocol their identities by group and generation, and
    target assignments: member id -> topic name -> partitions.
    """

    ids: dict[str, str] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    leaders: dict[str, str] = field(default_factory=dict)
    targets: dict[str, dict[str, dict[str, list[int]]]] = field(default_factory=dict)


@dataclass(slots=True)
class Played:
    """A program as it went on one broker. Nothing can be said of one that is not comparable: it was not in time, or a
    listed difference has shown.
    """

    story: list[Told]
    choices: Choices
    is_comparable: bool = True

    def text(self) -> str:
        """A story file without its comment."""
        return "\n\n".join("\n".join(told.lines()) for told in self.story) + "\n"


class Wire:
    """One connection; answers are taken off it as they come."""

    def __init__(self, name: str, client: RawClient) -> None:
        self.name = name
        self.client = client
        self.inbox: list[tuple[float, Answer | None]] = []
        self.waiting: Step | None = None  # what it asked and has no answer to
        self.news = asyncio.Event()
        self.reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            answer = await self.client.receive()
            self.inbox.append((loop.time(), answer))
            self.news.set()
            if answer is None:
                return

    async def next(self, timeout_s: float) -> bool:
        """Whether an answer is there, or comes within that time."""
        if not self.inbox:
            self.news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self.news.wait()
        return bool(self.inbox)

    async def close(self) -> None:
        self.reader.cancel()
        with contextlib.suppress(asyncio.CancelledError, AssertionError):
            await self.reader
        self.client.close()


def command(names: Names, beginning: str, request: Any) -> str:
    """A request in the language of stories."""
    names.version = -1  # no error codes here
    flat = [line for part in filled(parts(names, request)) for line in part]
    names.news.clear()
    if sum(map(len, flat)) + len(beginning) < 110:
        return " ".join([beginning, *flat])
    return "\n".join([beginning, *(f"    {line}" for line in flat)])


class Wires:
    """The connections of the members of a program, by name."""

    def __init__(self, connect: Connect) -> None:
        self.connect = connect
        self.wires: dict[str, Wire] = {}
        self.opened: dict[str, int] = {}

    async def free_wire(self, seat: Seat) -> Wire:
        """The seat's connection; another one when the last is still busy with a parked request."""
        wire = self.wires.get(seat.connection)
        if wire is None or wire.waiting is not None:
            number = self.opened[seat.letter] = self.opened.get(seat.letter, -1) + 1
            seat.connection = f"{seat.letter}{number or ''}"
            wire = self.wires[seat.connection] = Wire(seat.connection, await self.connect(seat.connection))
        return wire


class RandomPlayer(Wires):
    """One run of one program. `name` keeps its groups apart from those of other runs."""

    def __init__(self, program: Program, connect: Connect, host: str, port: int, name: str) -> None:
        self.program = program
        super().__init__(connect)
        self.names = Names(name, host, port)
        self.seats = [Seat(letter, settings) for letter, settings in zip(SEATS, program.seats, strict=False)]
        self.story: list[Told] = []
        self.choices = Choices()
        self.identities: dict[str, str] = {}  # by member id
        self.deletions = 0
        self.in_burst = 0
        self.is_in_time = True
        self.now = asyncio.get_running_loop().time
        self.span_began_s = self.now()
        self.span_ends_s = self.span_began_s + SPAN_S
        self.on_burst: Callable[[], None] = lambda: None

    async def play(self, topic_ids: dict[str, bytes]) -> Played:
        """Play it, and leave the broker without its groups as far as that is quick."""
        self.topic_ids = topic_ids
        self.barrier = await self.connect("barrier")
        try:
            for step in self.program.steps:
                await self._play(step)
            await self._wait(1)
        finally:
            await self._clean_up()
        return Played(self.story, self.choices, self.is_in_time)

    async def _play(self, step: Step) -> None:
        match step["do"]:
            case "wait":
                await self._wait(step["spans"])
            case "gather":
                await self._gather(step)
            case "assign":
                await self._assign(step)
            case "settle":
                await self._gather(step)
                await self._assign(step)
            case "heartbeats":
                for seat in self._seats(step):
                    if seat.member_id:
                        await self._ask(seat, {"do": "heartbeat", "version": 4})
            case "close":
                await self._close(self.seats[step["seat"]])
            case "restart":
                seat = self.seats[step["seat"]]
                await self._close(seat)
                seat.forget()
            case _:
                await self._ask(self.seats[step["seat"]], step)

    def _seats(self, step: Step) -> list[Seat]:
        return [self.seats[number] for number in step["seats"]]

    async def _gather(self, step: Step) -> None:
        for seat in self._seats(step):
            for _ in range(2):
                if not self._is_joining(seat):
                    await self._ask(seat, {"do": "join"})
                    if self.story[-1].answer[:1] == [] or "MEMBER_ID_REQUIRED" not in self.story[-1].answer[0]:
                        break

    def _is_joining(self, seat: Seat) -> bool:
        wire = self.wires.get(seat.connection)
        return wire is not None and wire.waiting is not None and wire.waiting["do"] == "join"

    async def _assign(self, step: Step) -> None:
        seats = [seat for seat in self._seats(step) if seat.member_id]
        seats.sort(key=lambda seat: (seat.member_id == seat.leader) != step["leader_first"])
        for seat in seats:
            wire = self.wires.get(seat.connection)
            if wire is None or wire.waiting is None:
                await self._ask(seat, {"do": "sync"})

    # Requests and answers

    async def _ask(self, seat: Seat, step: Step) -> None:
        made = request_for(step, seat, self.seats, self.topic_ids, self.names)
        if made is None:
            return
        request, version = made
        kind = type(request).__name__
        await self._keep_to_the_grid(kind)
        wire = await self.free_wire(seat)
        wire.client.send(request, version)
        wire.waiting = step
        if kind not in PARKABLE:
            assert await wire.next(ANSWER_TIMEOUT_S), f"no answer to {request}"
        elif not await wire.next(LOOK_S):
            await self._pass_barrier()
        sent = f"{kind.removesuffix('Request')} v{version}"
        told = Told(command(self.names, f"{wire.name}{':' if wire.inbox else '>'} {sent}", request))
        self.story.append(told)
        if wire.inbox:
            _, told.answer = self._take(wire)
        await asyncio.sleep(STEP_S)
        if kind in CHANGING and any(other.waiting and other is not wire for other in self.wires.values()):
            await self._pass_barrier()
            self._collect()

    async def _pass_barrier(self) -> None:
        await asyncio.sleep(LOOK_S)
        answer = await self.barrier.ask(HeartbeatRequest(f"{self.names.story}.group", 1, "nobody"), 0)
        assert answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.COORDINATOR_NOT_AVAILABLE), answer
        await asyncio.sleep(LOOK_S)

    def _collect(self, since_s: float | None = None) -> None:
        """Tell of the answers that have come to parked requests."""
        for name in sorted(self.wires):
            wire = self.wires[name]
            while wire.waiting is not None and wire.inbox:
                at_s, lines = self._take(wire)
                if since_s is not None:
                    lines[0] = f"after {int((at_s - since_s) * 2) / 2} s: {lines[0]}"
                self.story.append(Told(f"{name}<", lines))

    def _take(self, wire: Wire) -> tuple[float, list[str]]:
        """The time of an answer, and the answer as lines."""
        at_s, answer = wire.inbox.pop(0)
        step, wire.waiting = wire.waiting, None
        assert step is not None
        if answer is None:
            del self.wires[wire.name]
            return at_s, ["closed"]
        put_in_order(answer.request, answer.message)
        seat = next(seat for seat in self.seats if seat.letter == wire.name[0])
        lines = rendered(self.names, answer.message, answer.codec.api_version)
        learn(seat, answer.request, answer.message, self.names)
        self._learn_leaders(answer)
        return at_s, lines

    def _learn_leaders(self, answer: Answer) -> None:
        message = answer.message
        if type(message).__name__ == "DeleteGroupsResponse":
            self.deletions += any(one.group_id.endswith(".group") and not one.error_code for one in message.results)
        if type(message).__name__ != "JoinGroupResponse" or message.error_code:
            return
        told = {member.member_id: member.metadata for member in message.members}
        for protocol in answer.request.protocols[:1]:
            told.setdefault(message.member_id, protocol.metadata)
        for member_id, metadata in told.items():
            if found := IDENTITY.search(metadata):
                self.identities[member_id] = found[0].decode()
        if message.leader in self.identities:
            self.choices.leaders[self.generation(message.generation_id)] = self.identities[message.leader]
        elif message.leader:
            self.choices.leaders.setdefault(self.generation(message.generation_id), message.leader[:-UUID_CHARACTERS])

    def generation(self, number: int) -> str:
        """A generation of this group, or of the one that bears its name after it was deleted."""
        return f"{self.deletions}.{number}"

    # Time

    def is_burst(self) -> bool:
        """Whether members may act now, or very soon: nothing else should happen."""
        return self.now() - self.span_began_s < BURST_S + MARGIN_S or self.span_ends_s - self.now() < MARGIN_S

    async def _keep_to_the_grid(self, kind: str) -> None:
        """Not too much in one burst."""
        cost = 1 + 2 * (kind in PARKABLE) + 2 * any(wire.waiting for wire in self.wires.values())
        if self.in_burst + cost > COST_OF_A_BURST:
            await self._wait(1)
        self.in_burst += cost

    async def _wait(self, spans: int) -> None:
        began_s = self.span_began_s
        if self.now() - began_s > BURST_S:
            self.is_in_time = False
        self.story.append(Told(f"wait {spans * SPAN_S:g} s"))
        for number in range(spans):
            self.span_began_s = began_s + number * SPAN_S
            self.span_ends_s = self.span_began_s + SPAN_S
            await asyncio.sleep(max(0, self.span_ends_s - self.now()))
        self.span_began_s, self.span_ends_s = self.span_ends_s, self.span_ends_s + SPAN_S
        self.in_burst = 0
        self._collect(began_s)
        self.on_burst()

    async def _close(self, seat: Seat) -> None:
        wire = self.wires.pop(seat.connection, None)
        if wire is not None:
            self.story.append(Told(f"{seat.connection} close"))
            await wire.close()
            await asyncio.sleep(LOOK_S)

    async def _clean_up(self) -> None:
        for wire in self.wires.values():
            await wire.close()
        with contextlib.suppress(ConnectionError):
            group = f"{self.names.story}.group"
            members = [MemberIdentity(value) for value in self._member_ids()]
            await self.barrier.ask(LeaveGroupRequest(group, members=members), 5)
            await self.barrier.ask(DeleteGroupsRequest([group, f"{group}2", f"{group}3"]), 2)
        self.barrier.close()

    def _member_ids(self) -> Iterator[str]:
        return (value for value, name in self.names.ids.items() if name[0] == "M")

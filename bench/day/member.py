"""A stand-in for a recorded client: it says what its family says, when it says it, with names and numbers of its own.

What is as recorded: versions, fields, which request goes over which of its connections, what comes in which order when
it starts, is told to rejoin and is closed, and when heartbeats, commits and all else but fetches are sent in steady
times (members begin at different minutes of the recording). What follows from the server's answers, as with the client:
member id, generation, partitions, offsets, fetch sessions, and when it fetches: when the fetch before is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from bench.day import leading, templates
from bench.day.filling import Session, filled, to_commit
from bench.day.templates import Script, Template
from bench.day.world import Wire, World, decoded, frame_of
from bench.generator import WrongAnswer
from bench.groups import require
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import iterate_batches

if TYPE_CHECKING:
    from bench.day.play import Group

REJOIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
NEW_SESSION = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
JOIN_TRIES = 50


class Member:
    """See the module's docstring. `number` makes its client id, and says at which minute of the recording it begins."""

    def __init__(self, world: World, script: Script, group: Group, number: int) -> None:
        self.world, self.script, self.group, self.topic = world, script, group, group.topic
        self.client_id = f"{script.family}-{number}"
        self.member_id, self.generation, self.protocol = "", -1, ""
        self.owned: list[int] = []
        self.assignments: dict[str, list[int]] = {}  # of all members, where it leads
        self.has_been_assigned = False
        self.next: dict[int, int] = {}
        self.committed: dict[int, int] = {}
        self.asked: list[int] = []  # the partitions that a question for positions is about
        self.session = Session(script.has_sessions)
        self._reading = asyncio.Event()
        self._steady = script.steady[number % len(script.steady)]
        self._lives: list[asyncio.Task[None]] = []
        self._reads: list[asyncio.Task[None]] = []
        self._wires: dict[int, asyncio.Task[Wire]] = {}

    # Its life

    async def start(self) -> None:
        """Until it has joined; from then on it lives by itself."""
        for each in self.script.start:
            await self.send(each)
        for role in self.script.brief & self._wires.keys():
            (await self._wires.pop(role)).close()
        await self._join()
        self._lives = [asyncio.create_task(self._live())]
        self._reads = [asyncio.create_task(self._fetch())]
        for task in (*self._lives, *self._reads):
            task.add_done_callback(self.group.play.ended)

    async def close(self) -> None:
        """As its client closes: commit, leave, end the fetch session."""
        await self._stop()
        await self._commit()
        left = await self.send(self.script.leave)
        require(left.error_code, "LeaveGroup")
        if self.script.end_session is not None and self.session.session_id:
            await self.send(self.script.end_session)
        await self.vanish()

    async def vanish(self) -> None:
        """Close its connections without a word."""
        await self._stop()
        wires, self._wires = self._wires, {}
        for wire in wires.values():
            (await wire).close()

    async def _stop(self) -> None:
        await self._end(self._lives)
        await self._stop_reading()

    async def _stop_reading(self) -> None:
        """The answer to a fetch may still come: nobody waits for it."""
        if self._reads:
            await self._end(self._reads)
            if self.script.fetch.role in self._wires:
                (await self._wires.pop(self.script.fetch.role)).close()

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.remove_done_callback(self.group.play.ended)
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        tasks.clear()

    async def _live(self) -> None:
        """What is sent in steady times, over and over."""
        steady, length_ms = self._steady, self.script.steady_ms
        began_ms = steady[0].at_ms
        at_ms = began_ms + self.world.chance.random() * length_ms
        number = next((number for number, each in enumerate(steady) if each.at_ms >= at_ms), 0)
        due_s = time.monotonic()
        while True:
            each = steady[number]
            gap_ms = each.at_ms - at_ms
            due_s += (gap_ms if gap_ms >= 0 else gap_ms + length_ms) / 1e3 / self.world.pace
            at_ms, number = each.at_ms, (number + 1) % len(steady)
            wait_s = due_s - time.monotonic()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            self.world.late_s = max(self.world.late_s, time.monotonic() - due_s)
            if each.api_key == templates.HEARTBEAT:
                if await self._heartbeat(each):
                    await self._rejoin()
                    due_s = time.monotonic()
            elif each.api_key != templates.COMMIT or to_commit(self, each.message):
                await self.send(each)

    async def _heartbeat(self, each: Template) -> bool:
        """Whether it is told to rejoin."""
        began_s = time.perf_counter()
        answer = await self.send(each)
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return True
        require(answer.error_code, "Heartbeat")
        self.world.latencies_s.append(time.perf_counter() - began_s)
        return False

    async def _fetch(self) -> None:
        while True:
            await self._reading.wait()
            generation = self.generation
            template = self.script.fetch_on if self.session.offsets else self.script.fetch
            self._take_records(await self.send(template), generation)

    async def _rejoin(self) -> None:
        await self._commit()
        await self._join()

    async def _commit(self) -> None:
        if to_commit(self, self.script.commit.message):
            await self.send(self.script.commit)

    # A rebalance

    async def _join(self) -> None:
        for _ in range(JOIN_TRIES):
            if await self._joined():
                return
        raise WrongAnswer(f"{self.client_id} has not joined {self.group.name} in {JOIN_TRIES} tries")

    async def _joined(self) -> bool:
        """One JoinGroup and one SyncGroup; False where it has to join again."""
        script = self.script
        if self.protocol != leading.COOPERATIVE:
            self._reading.clear()
        join = script.join_with_id if self.generation < 0 else script.rejoin
        joined = await self.send(join if self.member_id else script.join)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return False
        require(joined.error_code, "JoinGroup")
        self.member_id, self.generation, self.protocol = joined.member_id, joined.generation_id, joined.protocol_name
        self.assignments = {}
        leads = joined.leader == self.member_id
        if leads:
            self.assignments = self._assign(joined.members)
        synced = await self.send(script.lead if leads else script.follow)
        if synced.error_code in REJOIN:
            return False
        require(synced.error_code, "SyncGroup")
        return await self._take(leading.assigned(synced.assignment))

    def _assign(self, members: list[Any]) -> dict[str, list[int]]:
        partitions = self.topic.partitions
        if self.protocol != leading.COOPERATIVE:
            return leading.ranges([each.member_id for each in members], partitions)
        owned = {}
        for each in members:
            _, told = leading.subscription(each.metadata)
            owned[each.member_id] = [number for topic in told.owned_partitions for number in topic.partitions]
        return leading.cooperative(owned, partitions)

    async def _take(self, assigned: list[int]) -> bool:
        """Begin with what it has been given; False where it has to join again since it has given something up."""
        keeps = self.protocol == leading.COOPERATIVE
        gives_up = keeps and not set(self.owned) <= set(assigned)
        added = [each for each in assigned if not (keeps and each in self.owned)]
        self.owned = assigned
        self.next = {each: self.next[each] for each in assigned if keeps and each in self.next}
        if gives_up and not self.script.forgets and self._reads:
            await self._read_anew()
        if added:
            self.asked = added
            script = self.script
            for each in script.reassigned if self.has_been_assigned and script.reassigned else script.assigned:
                answer = await self.send(each)
                if each.api_key == templates.OFFSET_FETCH:
                    self._take_positions(answer)
            self.has_been_assigned = True
        if self.owned:
            self._reading.set()
        else:
            self._reading.clear()
        return not gives_up

    async def _read_anew(self) -> None:
        """In another session, on another connection."""
        await self._stop_reading()
        self.session.restart()
        for each in self.script.assigned:
            if each.api_key == templates.API_VERSIONS and each.role == self.script.fetch.role:
                await self.send(each)
        self._reads = [asyncio.create_task(self._fetch())]
        self._reads[0].add_done_callback(self.group.play.ended)

    def _take_positions(self, answer: Any) -> None:
        (group,) = answer.groups
        require(group.error_code, "OffsetFetch")
        for topic in group.topics:
            for each in topic.partitions:
                require(each.error_code, "OffsetFetch")
                self.next[each.partition_index] = max(each.committed_offset, 0)
                self.committed[each.partition_index] = each.committed_offset

    # Records

    def _take_records(self, answer: Any, generation: int) -> None:
        if answer.error_code in NEW_SESSION:
            self.session.end()
            return
        require(answer.error_code, "Fetch")
        self.session.answered(answer.session_id)
        is_current = self._reading.is_set() and (generation == self.generation or self.protocol == leading.COOPERATIVE)
        for topic in answer.responses:
            for each in topic.partitions:
                require(each.error_code, "Fetch")
                if not each.records or not is_current or each.partition_index not in self.next:
                    continue
                for _, batch in iterate_batches(each.records, partial=True):
                    after = batch.base_offset + batch.last_offset_delta + 1
                    if after > self.next[each.partition_index]:
                        self.world.records += after - max(batch.base_offset, self.next[each.partition_index])
                        self.next[each.partition_index] = after

    # What it says

    async def send(self, template: Template) -> Any:
        """Send it, with what is its own in it; the decoded answer."""
        world, api_key = self.world, template.api_key
        wire = await self._wire(template.role)
        message, version = filled(self, template), world.version(template)
        frame = frame_of(api_key, version, self.client_id, message, template.raw)
        world.asked[api_key] += 1
        if world.sent is not None:
            world.sent.append((self.script.family, bytes(frame[4:])))
        answer = await wire.ask(frame)
        if message is None:
            return None
        response = decoded(api_key, version, answer)
        if api_key == templates.COMMIT:
            self._take_commit(message, response)
        elif api_key == templates.FETCH:
            self.session.asked(message)
        return response

    def _take_commit(self, request: Any, response: Any) -> None:
        codes = {each.error_code for topic in response.topics for each in topic.partitions}
        if not codes & set(REJOIN):  # a heartbeat will say the same
            for code in codes:
                require(code, "OffsetCommit")
            for each in request.topics[0].partitions:
                self.committed[each.partition_index] = each.committed_offset

    def _wire(self, role: int) -> Awaitable[Wire]:
        """Opened when it is first needed, once, however many wait for it."""
        wire = self._wires.get(role)
        if wire is None:
            wire = self._wires[role] = asyncio.create_task(Wire.open(self.world.port))
        return asyncio.shield(wire)

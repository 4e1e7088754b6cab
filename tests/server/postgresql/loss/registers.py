"""Groups without members: one writer of rising offsets each, and looks at every node all the time.

A look goes to all nodes, whoever leads, and does not wait for the look before: so a node that was stopped finds
requests that came in while another one led, and what it answers is held against what had been acknowledged by then.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_wire.errors import ErrorCode
from tests.clients.raw import Line
from tests.daemon import HOST
from tests.server.postgresql.loss.history import Read, Register, Write

TOPIC = "registers"
COMMIT_VERSION, FETCH_VERSION = 8, 8
PAUSE_S = 0.02
LOOK_S = 0.05
ANSWER_S = 2.0
PATIENT_S = 20.0
"""While a test pauses the writer."""
MOST_LOOKS = 200
"""Under way at one node at a time."""

SAID_NO = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


class Writer:
    """Commits 0, 1, 2 … to one register, one at a time, at whichever node takes them."""

    def __init__(self, group: str, ports: list[int]) -> None:
        self.group = group
        self.register = Register()
        self.progress = 0
        self.is_stopping = False
        self.is_paused = False
        """Nothing more is sent. What is under way is waited for, PATIENT_S if need be."""
        self.is_busy = False
        """A commit is under way."""
        self.avoids: int | None = None
        """The port of a node that is not asked."""
        self._ports = ports
        self._lines: dict[int, Line] = {}

    async def run(self) -> None:
        """Until `is_stopping`."""
        at = 0
        while not self.is_stopping:
            port = self._ports[at % len(self._ports)]
            if port == self.avoids:
                at += 1
            elif not self.is_paused:
                self.is_busy = True
                at += not await self._commit(port)
                self.is_busy = False
            await asyncio.sleep(PAUSE_S)

    async def _commit(self, port: int) -> bool:
        write = Write(len(self.register.writes), time.monotonic())
        self.register.writes.append(write)
        partition = OffsetCommitRequestPartition(0, write.value)
        request = OffsetCommitRequest(self.group, topics=[OffsetCommitRequestTopic(TOPIC, partitions=[partition])])
        try:
            line = self._lines.get(port)
            if line is None or line.closed:
                line = self._lines[port] = await Line.connect(HOST, port, "writer")
            answer = await self._answer(line.ask(request, COMMIT_VERSION))
        except (OSError, TimeoutError):
            if (line := self._lines.pop(port, None)) is not None:
                line.close()
            return False
        error = ErrorCode(answer.topics[0].partitions[0].error_code)
        if error == ErrorCode.NONE:
            write.end_s = time.monotonic()
            self.progress += 1
            return True
        assert error in SAID_NO, error.name
        return False

    async def _answer(self, waiting: asyncio.Future[Any]) -> Any:
        """Raises TimeoutError."""
        began_s = time.monotonic()
        while True:
            left_s = (PATIENT_S if self.is_paused else ANSWER_S) - (time.monotonic() - began_s)
            done, _ = await asyncio.wait([waiting], timeout=max(0.0, min(left_s, LOOK_S)))
            if done:
                return waiting.result()
            if left_s <= 0:
                waiting.cancel()
                raise TimeoutError


class Looker:
    """Asks one node for the offsets of all registers, again and again."""

    def __init__(self, node: int, port: int, registers: dict[str, Register]) -> None:
        self.node = node
        self.answers = 0
        self._port = port
        self._registers = registers
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                line = await Line.connect(HOST, self._port, "looker")
            except OSError:
                await asyncio.sleep(LOOK_S)
                continue
            try:
                while not line.closed:
                    if len(self._under_way) < MOST_LOOKS:
                        task = asyncio.create_task(self._look(line))
                        self._under_way.add(task)
                        task.add_done_callback(self._under_way.discard)
                    await asyncio.sleep(LOOK_S)
            finally:
                line.close()

    async def _look(self, line: Line) -> None:
        asked_s = time.monotonic()
        groups = [OffsetFetchRequestGroup(name, topics=None) for name in self._registers]
        try:
            answer = await line.ask(OffsetFetchRequest(groups=groups), FETCH_VERSION)
        except OSError:
            return
        end_s = time.monotonic()
        for found in answer.groups:
            if found.error_code:
                assert found.error_code in SAID_NO, ErrorCode(found.error_code).name
                continue
            value = found.topics[0].partitions[0].committed_offset if found.topics else -1
            self._registers[found.group_id].reads.append(Read(value, asked_s, end_s, self.node))
            self.answers += 1

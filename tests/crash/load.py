"""Clients that keep a coordinator busy and note what they were told, however often it dies under them.

Every client works while the gate is open. When its connection is lost it comes back to the gate and waits there, so
that what was acknowledged can be looked at in peace; when the gate opens it goes on, with what it had.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Sequence

from kafka_wire.api.init_producer_id import InitProducerIdRequest
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import BatchBuilder
from tests.clients.raw import Line
from tests.clients.raw_member import COMMIT_VERSION, Partition, RawMember, commit_errors, commit_request
from tests.crash.ledger import CommitLedger, ProduceLedger, TableLedger

COMMITS_UNDER_WAY = 4
BATCHES_UNDER_WAY = 3
RECORDS_PER_BATCH = 5
TABLE_KEYS = 40
PRODUCE_VERSION, INIT_PRODUCER_ID_VERSION = 9, 4
# After each answer: the log is replayed at every restart, and kafka-python's consumers read all that is produced.
COMMITTER_PAUSE_S = 0.005
PRODUCER_PAUSE_S = 0.005
BUSY_S = 0.02  # between two attempts while a coordinator loads
SESSION_TIMEOUT_MS = 3_000  # so that members who crashed out of a rebalance hold it up no longer than this
CHURN = 0.04  # how often a member leaves after a commit

BUSY = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


class Gate:
    """Where clients wait while the coordinator is down, and are counted."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self.waiting = 0

    def open(self) -> None:
        self._open.set()

    def close(self) -> None:
        self._open.clear()

    async def wait(self) -> None:
        self.waiting += 1
        await self._open.wait()
        self.waiting -= 1


class Client:
    """Connects, works until the connection is lost, waits at the gate, and so on. `progress` counts answers."""

    def __init__(self, name: str, address: tuple[str, int], gate: Gate) -> None:
        self.name = name
        self.address = address
        self.gate = gate
        self.progress = 0

    async def run(self) -> None:
        while True:
            await self.gate.wait()
            try:
                line = await Line.connect(*self.address, client_id=self.name)
            except OSError:
                continue
            try:
                await self.work(line)
            except (ConnectionError, OSError):
                continue
            finally:
                line.close()

    async def work(self, line: Line) -> None:
        raise NotImplementedError


class Committer(Client):
    """A group without members, as stream processors have it: as many commits as go, several under way at a time."""

    def __init__(
        self, name: str, address: tuple[str, int], gate: Gate, ledger: CommitLedger, partitions: Sequence[Partition]
    ) -> None:
        super().__init__(name, address, gate)
        self.ledger = ledger
        self.partitions = partitions

    async def work(self, line: Line) -> None:
        under_way: deque[tuple[dict[Partition, int], asyncio.Future[object]]] = deque()
        while True:
            while len(under_way) < COMMITS_UNDER_WAY:
                offsets = {each: self.ledger.next_offset((self.name, *each)) for each in self.partitions}
                under_way.append((offsets, line.ask(commit_request(self.name, offsets), COMMIT_VERSION)))
            offsets, answer = under_way.popleft()
            for partition, error in commit_errors(await answer).items():
                if error == ErrorCode.NONE:
                    self.ledger.acknowledge((self.name, *partition), offsets[partition])
                    self.progress += 1
                else:
                    assert error in BUSY, error.name
                    self.ledger.refusals[error.name] += 1
                    await asyncio.sleep(BUSY_S)
            await asyncio.sleep(COMMITTER_PAUSE_S)


class GroupClient(Client):
    """A member that commits what it is assigned, sends heartbeats, and leaves now and then to make a rebalance."""

    def __init__(
        self,
        name: str,
        address: tuple[str, int],
        gate: Gate,
        ledger: CommitLedger,
        group: str,
        topics: dict[str, int],
        chance: random.Random,
    ) -> None:
        super().__init__(name, address, gate)
        self.ledger = ledger
        self.chance = chance
        self.member = RawMember(
            None, group, topics, session_timeout_ms=SESSION_TIMEOUT_MS, rebalance_timeout_ms=SESSION_TIMEOUT_MS
        )
        self.in_group = False
        self.went_on = 0  # after a crash, with the generation it had
        self.rejoined = 0

    async def work(self, line: Line) -> None:
        member = self.member
        member.line = line
        if self.in_group:
            # What a real member does after a crash: it does not know of one, and sends its next heartbeat.
            error = await member.heartbeat()
            while error in BUSY:
                await asyncio.sleep(BUSY_S)
                error = await member.heartbeat()
            self.in_group = error == ErrorCode.NONE
            self.went_on += self.in_group
            self.rejoined += not self.in_group
        while True:
            if not self.in_group:
                await member.join()
                self.in_group = True
            await self.commit_once()
            if self.in_group and self.chance.random() < CHURN:
                self.in_group = False
                await member.leave()
            await asyncio.sleep(self.chance.uniform(0, 0.01))

    async def commit_once(self) -> None:
        member, group = self.member, self.member.group
        if member.assignment:
            offsets = {each: self.ledger.next_offset((group, *each)) for each in member.assignment}
            for partition, error in (await member.commit(offsets)).items():
                if error == ErrorCode.NONE:
                    self.ledger.acknowledge((group, *partition), offsets[partition])
                    self.progress += 1
                elif error not in BUSY:
                    self.in_group = False
        error = await member.heartbeat()
        self.in_group = self.in_group and error in (ErrorCode.NONE, *BUSY)
        self.progress += self.in_group


class Producer(Client):
    """Writes to one partition with acks=all. An idempotent one sends what was not acknowledged again, as it was."""

    def __init__(
        self,
        name: str,
        address: tuple[str, int],
        gate: Gate,
        ledger: ProduceLedger,
        partition: Partition,
        *,
        idempotent: bool,
    ) -> None:
        super().__init__(name, address, gate)
        self.ledger = ledger
        self.partition = partition
        self.idempotent = idempotent
        self.producer_id = self.producer_epoch = -1
        self.sequence = 0
        self.count = 0
        self.unacknowledged: deque[tuple[list[bytes], bytes]] = deque()
        if idempotent:
            ledger.once.add(partition)

    async def work(self, line: Line) -> None:
        if self.idempotent and self.producer_id < 0:
            made = await line.ask(InitProducerIdRequest(None, 60_000), INIT_PRODUCER_ID_VERSION)
            if made.error_code != ErrorCode.NONE:
                return
            self.producer_id, self.producer_epoch = made.producer_id, made.producer_epoch
        if not self.idempotent:
            self.unacknowledged.clear()
        answers = deque(self.send(line, batch) for _, batch in self.unacknowledged)
        while True:
            while len(answers) < BATCHES_UNDER_WAY:
                self.unacknowledged.append(self.make())
                answers.append(self.send(line, self.unacknowledged[-1][1]))
            answer = (await answers.popleft()).responses[0].partition_responses[0]
            values, _ = self.unacknowledged[0]
            if answer.error_code in BUSY and self.idempotent:
                await asyncio.sleep(BUSY_S)
                return  # and again from the first one on that is not acknowledged: their order is what counts
            self.unacknowledged.popleft()
            if answer.error_code not in BUSY:
                assert answer.error_code == ErrorCode.NONE, f"{self.name}: {ErrorCode(answer.error_code).name}"
                self.ledger.acknowledge(self.partition, answer.base_offset, values)
                self.progress += 1
            await asyncio.sleep(PRODUCER_PAUSE_S)

    def make(self) -> tuple[list[bytes], bytes]:
        values = [b"%s %d" % (self.name.encode(), self.count + number) for number in range(RECORDS_PER_BATCH)]
        self.count += RECORDS_PER_BATCH
        self.ledger.sent.update(values)
        builder = BatchBuilder()
        builder.extend([(None, value) for value in values], int(time.time() * 1000))
        if not self.idempotent:
            return values, bytes(builder.finish())
        batch = builder.finish(
            producer_id=self.producer_id, producer_epoch=self.producer_epoch, base_sequence=self.sequence
        )
        self.sequence += RECORDS_PER_BATCH
        return values, bytes(batch)

    def send(self, line: Line, batch: bytes) -> asyncio.Future[object]:
        topic, number = self.partition
        data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(number, batch)])]
        return line.ask(ProduceRequest(None, -1, 10_000, data), PRODUCE_VERSION)


class TableWriter(Client):
    """Writes a table to one compacted partition: few keys again and again, and tombstones. One batch at a time."""

    def __init__(
        self, name: str, address: tuple[str, int], gate: Gate, ledger: TableLedger, partition: Partition, seed: float
    ) -> None:
        super().__init__(name, address, gate)
        self.ledger = ledger
        self.partition = partition
        self.chance = random.Random(seed)
        self.count = 0

    async def work(self, line: Line) -> None:
        topic, number = self.partition
        while True:
            records = []
            for key in self.chance.sample(range(TABLE_KEYS), RECORDS_PER_BATCH):
                self.count += 1
                # A tombstone is known by its key alone: never two of a key without a value in between.
                last = self.ledger.possible.get(self.partition, {}).get(b"key %d" % key, [None])[-1]
                value = None if last is not None and self.chance.random() < 0.2 else b"%d" % self.count
                records.append((b"key %d" % key, value))
            self.ledger.sent(self.partition, records)
            builder = BatchBuilder()
            builder.extend(records, int(time.time() * 1000))
            data = [
                TopicProduceData(name=topic, partition_data=[PartitionProduceData(number, bytes(builder.finish()))])
            ]
            answer = await line.ask(ProduceRequest(None, -1, 10_000, data), PRODUCE_VERSION)
            error = answer.responses[0].partition_responses[0].error_code
            if error == ErrorCode.NONE:
                self.ledger.acknowledge(self.partition, records)
                self.progress += 1
            else:
                assert error in BUSY, ErrorCode(error).name
                await asyncio.sleep(BUSY_S)
            await asyncio.sleep(PRODUCER_PAUSE_S)

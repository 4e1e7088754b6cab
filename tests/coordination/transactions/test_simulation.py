"""Random transactions over random crashes: all of a transaction is read, or nothing of it.

Several producers, each with a transactional id and a group of its own, write records that tell their transaction, and
commit its number as their group's offset. In any operation on the disk the process may be killed or the power may fail
(where the log is never flushed it is only killed: what was answered is not promised to survive more). In the end each
transaction must be whole in every partition or absent from all, those that were answered must be what was answered,
and a group's offset must be that of its producer's last committed transaction.

A failure prints its seed; `SEED=… pytest tests/coordination/transactions/test_simulation.py` plays it again.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pytest

from coordinatord.broker.log.simulated_disk import SimulatedCrash, SimulatedDisk
from kafka_wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafka_wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafka_wire.api.end_txn import EndTxnRequest
from kafka_wire.api.init_producer_id import InitProducerIdRequest
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import TRANSACTIONAL
from tests.broker.topics.world import batch
from tests.coordination.transactions.world import World

PARTITIONS = 3
SEEDS = [int(os.environ["SEED"])] if "SEED" in os.environ else range(40)


class CrashedError(Exception):
    """The process has gone down and come up again: what was asked has no answer."""


@dataclass
class Client:
    """One transactional id. `versions`: whether it follows transaction version 2 (KIP-890)."""

    number: int
    bumps: bool
    producer: tuple[int, int] | None = None
    sequences: dict[int, int] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"tx-{self.number}"


class Simulation:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.flushes = seed % 2 == 0
        self.world = self.make_world(seed)
        self.world.create("orders", PARTITIONS)
        self.world.find()
        self.clients = [Client(number, bumps=bool(number % 2)) for number in range(3)]
        self.attempts = 0
        self.client_of: dict[int, Client] = {}
        self.written: dict[int, set[int]] = defaultdict(set)  # attempt -> partitions
        self.with_offset: set[int] = set()
        self.outcome: dict[int, str] = {}
        self.crashes = 0

    def make_world(self, seed: int) -> World:
        return World(SimulatedDisk(seed), log_flush="always" if self.flushes else "never")

    def ask(self, api_key: int, version: int, request: Any) -> Any:
        """The answer, unless the process dies before. After a restart the last transaction may have to be completed
        once more: a client asks again then.
        """
        while True:
            response = self.ask_once(api_key, version, request)
            if ErrorCode.CONCURRENT_TRANSACTIONS not in errors_of(response):
                return response
            self.world.settle()

    def ask_once(self, api_key: int, version: int, request: Any) -> Any:
        world = self.world
        if self.random.random() < 0.15:
            world.disk.crash_after = world.disk.operations + self.random.randrange(25)
        try:
            context = world.send(api_key, version, request)
            while not context.answers:
                if self.random.random() < 0.5:
                    world.loop.turn()
                else:
                    world.worker.run_one()
                if world.disk.crashed:
                    break
            if world.disk.crashed:  # a dead process sends nothing, even if its write was part of the request's own turn
                raise SimulatedCrash
            world.disk.crash_after = None
        except SimulatedCrash:
            world.crash(self.random.choice(["kill", "power"]) if self.flushes else "kill")
            world.open()
            self.crashes += 1
            raise CrashedError from None
        return context.response

    def initialise(self, client: Client) -> None:
        response = self.ask(22, 4, InitProducerIdRequest(client.id, 60_000))
        assert response.error_code == 0
        client.producer = response.producer_id, response.producer_epoch
        client.sequences = {}

    def transaction(self, client: Client) -> None:
        """One attempt, which may be interrupted anywhere."""
        self.attempts += 1
        attempt = self.attempts
        self.client_of[attempt] = client
        if client.producer is None:
            self.initialise(client)
        assert client.producer is not None
        producer = client.producer
        commit = self.random.random() < 0.7
        for partition in self.random.sample(range(PARTITIONS), self.random.randint(1, PARTITIONS)):
            self.write(client, attempt, partition)
        if self.random.random() < 0.7:
            self.commit_offset(client, attempt)
        self.outcome[attempt] = "unknown"
        response = self.ask(26, 5 if client.bumps else 3, EndTxnRequest(client.id, *producer, commit))
        assert response.error_code == 0
        self.outcome[attempt] = "committed" if commit else "aborted"
        if client.bumps:
            client.producer = response.producer_id, response.producer_epoch
            client.sequences = {}

    def write(self, client: Client, attempt: int, partition: int) -> None:
        producer = client.producer
        assert producer is not None
        if not client.bumps:
            topics = [AddPartitionsToTxnTopic("orders", [partition])]
            added = self.ask(24, 3, AddPartitionsToTxnRequest([], client.id, *producer, topics))
            assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
        for _ in range(self.random.randint(1, 2)):
            sequence = client.sequences.get(partition, 0)
            records = batch(
                b"%d" % attempt,
                producer_id=producer[0],
                producer_epoch=producer[1],
                base_sequence=sequence,
                attributes=TRANSACTIONAL,
            )
            topics_data = [TopicProduceData("orders", partition_data=[PartitionProduceData(partition, records)])]
            response = self.ask(0, 12 if client.bumps else 9, ProduceRequest(client.id, -1, 1000, topics_data))
            assert response.responses[0].partition_responses[0].error_code == 0
            client.sequences[partition] = sequence + 1
            self.written[attempt].add(partition)

    def commit_offset(self, client: Client, attempt: int) -> None:
        producer = client.producer
        assert producer is not None
        group = f"g-{client.number}"
        if not client.bumps:
            assert self.ask(25, 3, AddOffsetsToTxnRequest(client.id, *producer, group)).error_code == 0
        request = TxnOffsetCommitRequest(client.id, group, *producer)
        request.topics = [
            TxnOffsetCommitRequestTopic("orders", partitions=[TxnOffsetCommitRequestPartition(0, attempt)])
        ]
        response = self.ask(28, 5 if client.bumps else 3, request)
        assert response.topics[0].partitions[0].error_code == 0
        self.with_offset.add(attempt)

    def run(self, attempts: int) -> None:
        while self.attempts < attempts:
            client = self.random.choice(self.clients)
            try:
                self.transaction(client)
            except CrashedError:
                # All clients of a crashed broker go on; this one does not know what became of its request.
                client.producer = None
        for client in self.clients:
            while True:
                try:
                    self.initialise(client)
                except CrashedError:
                    continue
                break
        self.world.settle()

    def check(self) -> None:
        read: dict[int, set[int]] = defaultdict(set)
        for partition in range(PARTITIONS):
            for value in self.world.read(index=partition):
                read[int(value)].add(partition)
            log = self.world.partition(index=partition).log
            assert self.world.partition(index=partition).last_stable_offset == log.end_offset, "something hangs"
        for attempt in range(1, self.attempts + 1):
            outcome = self.outcome.get(attempt, "aborted")  # never asked to be ended
            if outcome == "committed":
                assert read[attempt] == self.written[attempt], f"transaction {attempt} was committed"
            elif outcome == "aborted":
                assert not read[attempt], f"transaction {attempt} was aborted"
            else:
                assert read[attempt] in (set(), self.written[attempt]), f"transaction {attempt} is torn"
        for client in self.clients:
            own = [a for a in sorted(self.with_offset) if self.client_of[a] is client and read[a]]
            assert self.world.committed(f"g-{client.number}") == (0, own[-1] if own else -1)


def errors_of(response: Any) -> set[int]:
    """All error codes, wherever a response has them."""
    found: set[int] = set()
    for name in getattr(response, "__slots__", ()):
        value = getattr(response, name)
        if name.endswith("error_code"):
            found.add(value)
        elif isinstance(value, list):
            found = found.union(*map(errors_of, value))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_all_or_nothing(seed: int) -> None:
    simulation = Simulation(seed)
    simulation.run(25)
    simulation.check()
    simulation.world.restart()
    simulation.world.settle()
    simulation.check()


def test_that_it_does_crash_and_that_transactions_end_in_all_ways() -> None:
    outcomes: set[str] = set()
    crashes = 0
    for seed in range(5):
        simulation = Simulation(seed)
        simulation.run(25)
        outcomes |= set(simulation.outcome.values())
        crashes += simulation.crashes
    assert outcomes == {"committed", "aborted", "unknown"}
    assert crashes > 10

"""Transactions whose coordinator, partitions and group are on different workers, of which any may die at any time.

The simulation is that of tests/coordination/transactions, with several workers: single ones are killed, and now and
then the machine loses its power. `SEED=… pytest tests/server/workers/test_transactions.py` plays one again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
from kafka_wire.api.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import TRANSACTIONAL
from tests.broker.topics.world import batch
from tests.coordination.transactions.test_simulation import PARTITIONS, SEEDS, CrashedError, Simulation, errors_of
from tests.server.workers.transactional_world import Cluster, TransactionalWorld

TRIED_AGAIN = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
}
"""What clients answer with another attempt, after they have looked for the coordinator again."""

ENDLESS = 20_000
QUICK = 20
"""Of the seeds: some four seconds."""


class SpreadSimulation(Simulation):
    """See the module's docstring."""

    world: Any

    def __init__(self, seed: int, directory: Path) -> None:
        self.directory = directory
        super().__init__(seed)

    def make_world(self, seed: int) -> Any:
        flush = "always" if self.flushes else "never"
        return Facade(Cluster(2 + seed % 2, self.directory, seed, log_flush=flush))

    def ask(self, api_key: int, version: int, request: Any) -> Any:
        for _ in range(100):
            response = self.ask_once(api_key, version, request)
            if not errors_of(response) & TRIED_AGAIN:
                return response
            self.world.cluster.finish()
        raise AssertionError(f"{request} is never done")

    def ask_once(self, api_key: int, version: int, request: Any) -> Any:
        cluster: Cluster = self.world.cluster
        world = self.world.of(request)
        dies_after = self.random.randrange(40) if self.random.random() < 0.25 else None
        context = world.send(api_key, version, request)
        for step in range(ENDLESS):
            if context.answers:
                return context.response
            if step == dies_after:
                self.crashes += 1
                if self.flushes and self.random.random() < 0.2:
                    cluster.power_failure()
                    raise CrashedError
                victim = self.random.randrange(cluster.count)
                cluster.kill(victim, self.random.randrange(12))
                if cluster.worlds[victim] is world:
                    raise CrashedError
            elif not cluster.step():
                cluster.pass_time(1_000)
        raise AssertionError(f"{request} is never answered")


class Facade:
    """A cluster as the simulation of one world takes it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def of(self, request: Any) -> TransactionalWorld:
        cluster = self.cluster
        if isinstance(request, ProduceRequest):
            [topic] = request.topic_data
            return cluster.of_partition(topic.name, topic.partition_data[0].index)
        if isinstance(request, TxnOffsetCommitRequest):
            return cluster.of_group(request.group_id)
        id_ = request.v3_and_below_transactional_id if isinstance(request, AddPartitionsToTxnRequest) else None
        return cluster.of_id(id_ or request.transactional_id)

    def create(self, name: str, partitions: int) -> None:
        self.cluster[0].create(name, partitions)
        self.cluster.tell()

    def find(self) -> None:
        self.cluster[1].find()
        for world in self.cluster.worlds:
            world.topics.catalogue.refresh()
            world.transactions.partitions.exist()

    def settle(self) -> None:
        self.cluster.finish()

    def read(self, index: int) -> list[bytes]:
        return self.cluster.of_partition("orders", index).read(index=index)

    def partition(self, index: int) -> Any:
        return self.cluster.of_partition("orders", index).partition(index=index)

    def committed(self, group: str) -> tuple[int, int]:
        return self.cluster.of_group(group).committed(group)

    def restart(self) -> None:
        for worker in range(self.cluster.count):
            self.cluster.kill(worker)


@pytest.mark.parametrize("seed", list(SEEDS)[:QUICK])
def test_all_or_nothing_whoever_dies(seed: int, tmp_path: Path) -> None:
    simulation = SpreadSimulation(seed, tmp_path)
    simulation.run(25)
    simulation.check()
    simulation.world.restart()
    simulation.world.settle()
    simulation.check()


def test_that_workers_do_die_and_that_transactions_end_in_all_ways(tmp_path: Path) -> None:
    outcomes: set[str] = set()
    kills = 0
    for seed in range(5):
        simulation = SpreadSimulation(seed, tmp_path)
        simulation.run(25)
        outcomes |= set(simulation.outcome.values())
        kills += simulation.world.cluster.kills
    assert outcomes == {"committed", "aborted", "unknown"}
    assert kills > 10


# Single cases


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    cluster = Cluster(2, tmp_path)
    Facade(cluster).create("orders", PARTITIONS + 1)
    Facade(cluster).find()
    return cluster


def ask(cluster: Cluster, world: TransactionalWorld, api_key: int, version: int, request: Any) -> Any:
    context = world.send(api_key, version, request)
    cluster.settle()
    assert context.answers == 1
    return context.response


def produce(cluster: Cluster, index: int, producer: tuple[int, int], *, version: int = 12, sequence: int = 0) -> int:
    records = batch(
        b"v", producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence, attributes=TRANSACTIONAL
    )
    data = [TopicProduceData("orders", partition_data=[PartitionProduceData(index, records)])]
    response = ask(cluster, cluster.of_partition("orders", index), 0, version, ProduceRequest("tx", -1, 1000, data))
    error: int = response.responses[0].partition_responses[0].error_code
    return error


def initialise(cluster: Cluster, id_: str = "tx") -> tuple[int, int]:
    response = ask(cluster, cluster.of_id(id_), 22, 5, InitProducerIdRequest(id_, 60_000))
    assert response.error_code == 0
    return response.producer_id, response.producer_epoch


def elsewhere(cluster: Cluster) -> int:
    """A partition of "orders" that the coordinator of "tx" does not lead."""
    coordinator = cluster.of_id("tx")
    return next(index for index in range(PARTITIONS) if cluster.of_partition("orders", index) is not coordinator)


def test_a_partition_of_another_worker_is_added_by_writing_to_it(cluster: Cluster) -> None:
    producer = initialise(cluster)
    index = elsewhere(cluster)
    assert produce(cluster, index, producer) == 0
    assert cluster.of_id("tx").transactions.actors["tx"].transaction.partitions.keys() == {("orders", index)}
    assert cluster.of_partition("orders", index).read(index=index) == [], "not decided yet"
    end = ask(cluster, cluster.of_id("tx"), 26, 5, EndTxnRequest("tx", *producer, True))
    assert end.error_code == 0
    assert cluster.of_partition("orders", index).read(index=index) == [b"v"]


def test_a_partition_that_was_not_added_is_refused_there_too(cluster: Cluster) -> None:
    producer = initialise(cluster)
    index = elsewhere(cluster)
    assert produce(cluster, index, producer, version=11) == ErrorCode.TRANSACTION_ABORTABLE
    assert produce(cluster, index, (producer[0], producer[1] + 1)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert produce(cluster, index, (producer[0] + 1, 0)) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert cluster.of_partition("orders", index).partition(index=index).log.end_offset == 0


@pytest.mark.parametrize(("version", "end_version"), [(11, 3), (12, 5)])
def test_the_other_workers_answer_is_not_taken_for_the_next_transaction(
    cluster: Cluster, version: int, end_version: int
) -> None:
    """The transaction is aborted while its partition's worker waits to hear that it takes part. Before transaction
    version 2 the next one has the same epoch.
    """
    producer = initialise(cluster)
    index = elsewhere(cluster)
    world = cluster.of_partition("orders", index)
    if version < 12:
        topics = [AddPartitionsToTxnTopic("orders", [index])]
        added = ask(cluster, cluster.of_id("tx"), 24, 3, AddPartitionsToTxnRequest([], "tx", *producer, topics))
        assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    records = batch(
        b"late", producer_id=producer[0], producer_epoch=producer[1], base_sequence=0, attributes=TRANSACTIONAL
    )
    data = [TopicProduceData("orders", partition_data=[PartitionProduceData(index, records)])]
    writing = world.send(0, version, ProduceRequest("tx", -1, 1000, data))
    [letter] = cluster.letters
    cluster.deliver(letter)
    cluster.of_id("tx").settle()  # the partition takes part, durably; the answer is on its way
    ending = cluster.of_id("tx").send(26, end_version, EndTxnRequest("tx", *producer, False))
    while not ending.answers:
        others = [each for each in cluster.letters if each is not letter]
        for each in others:
            (cluster._answer if each.context is not None and each.context.answers else cluster.deliver)(each)
        for each_world in cluster.worlds:
            each_world.settle()
    cluster.settle()
    assert writing.response.responses[0].partition_responses[0].error_code != 0
    log = world.partition(index=index).log
    assert log.end_offset == 1, "the marker alone"
    assert world.partition(index=index).last_stable_offset == log.end_offset


def test_an_offset_is_not_committed_in_a_transaction_that_has_ended_meanwhile(cluster: Cluster) -> None:
    """As above, for the group's partition, before transaction version 2."""
    producer = initialise(cluster)
    group = next(name for name in map(str, range(100)) if cluster.of_group(name) is not cluster.of_id("tx"))
    assert ask(cluster, cluster.of_id("tx"), 25, 3, AddOffsetsToTxnRequest("tx", *producer, group)).error_code == 0
    request = TxnOffsetCommitRequest("tx", group, *producer)
    request.topics = [TxnOffsetCommitRequestTopic("orders", partitions=[TxnOffsetCommitRequestPartition(0, 9)])]
    committing = cluster.of_group(group).send(28, 4, request)
    [letter] = cluster.letters
    cluster.deliver(letter)
    cluster.of_id("tx").settle()
    ending = cluster.of_id("tx").send(26, 3, EndTxnRequest("tx", *producer, False))
    while not ending.answers:
        for each in [each for each in cluster.letters if each is not letter]:
            (cluster._answer if each.context is not None and each.context.answers else cluster.deliver)(each)
        for world in cluster.worlds:
            world.settle()
    cluster.settle()
    assert committing.response.topics[0].partitions[0].error_code != 0
    assert cluster.of_group(group).committed(group) == (0, -1), "nothing is committed, and nothing is pending"


def test_markers_wait_for_a_worker_that_is_down(cluster: Cluster) -> None:
    producer = initialise(cluster)
    for index in range(PARTITIONS):
        assert produce(cluster, index, producer) == 0
    ending = cluster.of_id("tx").send(26, 5, EndTxnRequest("tx", *producer, True))
    while not cluster.letters:
        assert cluster.step()
    cluster.kill(cluster.of_partition("orders", elsewhere(cluster)).number)
    cluster.settle()
    assert not ending.answers
    cluster.finish()
    assert ending.response.error_code == 0
    assert [cluster.of_partition("orders", index).read(index=index) for index in range(PARTITIONS)] == [[b"v"]] * 3


def test_clients_cannot_say_that_nobody_is_ahead_of_them(cluster: Cluster) -> None:
    """WriteTxnMarkers with the epoch that workers use among each other: from a client it is just a low one."""
    producer = initialise(cluster)
    index = elsewhere(cluster)
    assert produce(cluster, index, producer) == 0
    world = cluster.of_partition("orders", index)
    topics = [WritableTxnMarkerTopic("orders", [index])]

    def write(coordinator_epoch: int) -> int:
        marker = WritableTxnMarker(*producer, False, topics, coordinator_epoch)
        response = ask(cluster, world, 27, 1, WriteTxnMarkersRequest([marker]))
        error: int = response.markers[0].topics[0].partitions[0].error_code
        return error

    assert write(3) == 0
    assert write(-1) == ErrorCode.TRANSACTION_COORDINATOR_FENCED

"""The state of share groups with several workers: the leader of a topic partition writes it, another worker stores it,
and either of them may die.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinatord.base.observe.metrics import Metrics
from coordinatord.broker.topics.names import SHARE_TOPIC
from coordinatord.coordination.runtime.runtime import Runtime
from coordinatord.coordination.runtime.topic_log import TopicLog, partitions_of
from coordinatord.coordination.share.apis.state import ShareStateApis
from coordinatord.coordination.share.coordinator.coordinator import ShareCoordinator, coordinator_key
from coordinatord.coordination.share.coordinator.state import ShareCoordinatorSettings
from coordinatord.coordination.share.end_offsets import PartitionEnds
from coordinatord.coordination.share.persister import (
    ACKNOWLEDGED,
    InitializePartition,
    PartitionSummary,
    ReadPartition,
    StateBatch,
    WritePartition,
)
from coordinatord.coordination.share.state_persister import ATTEMPTS, BACKOFF_MS, StatePersister
from kafka_wire.errors import ErrorCode
from tests.broker.topics.world import batch
from tests.coordination.transactions.world import Alarms
from tests.server.workers.posting import PostingWorkers, PostingWorld

GROUP, TOPIC, PARTITIONS = "g", "orders", 4
STATE_EPOCH, LEADER_EPOCH = 1, 0


class ShareWorld(PostingWorld):
    """One worker, with its share coordinator and its persister."""

    def open(self) -> None:
        super().open()
        settings, topics, nodes = self.settings, self.topics, self.nodes()
        runtime = Runtime(self.writer, Alarms(self.schedule_at), lambda: self.time_ms, Metrics())
        self.share = ShareCoordinator(
            runtime,
            TopicLog(SHARE_TOPIC, topics.transactional, self.writer),
            partitions_of(SHARE_TOPIC, topics, nodes),
            settings=ShareCoordinatorSettings(settings.share_coordinator_snapshot_update_records_per_snapshot),
            max_share_partitions=settings.max_share_partitions,
        )
        self.persister = StatePersister(self.share, topics, runtime, self.loop.call_soon, (nodes, self.peers))
        self.ends = PartitionEnds(topics.catalogue, (nodes, self.peers))
        self.handlers |= ShareStateApis(self.share, topics).handlers()
        for index in self.share.partitions.to_load():
            for _ in self.share.load(index, self.share.log.read(index)):
                pass


class Cluster(PostingWorkers[ShareWorld]):
    """Two workers with a topic."""

    def __init__(self, directory: Path, seed: int = 0) -> None:
        super().__init__(2, directory, ShareWorld, seed, share_coordinator_state_topic_num_partitions=4)
        self.topic_id = self[0].create(TOPIC, PARTITIONS)
        self.tell()

    def leader(self, partition: int) -> ShareWorld:
        return self.of_partition(TOPIC, partition)

    def storing(self, partition: int) -> ShareWorld:
        """The worker with the state of a share partition."""
        key = coordinator_key(GROUP, self.topic_id, partition)
        return self.of_partition(SHARE_TOPIC, self[0].share.partitions.of(key))

    def apart(self) -> int:
        """A partition whose leader does not store its state."""
        return next(each for each in range(PARTITIONS) if self.leader(each) is not self.storing(each))

    def write(self, partition: int, offset: int) -> list[Any]:
        """Begin to write that a record is acknowledged; the result, when it is there."""
        found: list[Any] = []
        batches = [StateBatch(offset, offset, ACKNOWLEDGED, 1)]
        part = WritePartition(self.topic_id, partition, STATE_EPOCH, LEADER_EPOCH, 0, 0, batches)
        self.leader(partition).persister.write(GROUP, [part], found.extend)
        return found

    def finish(self, begin: Callable[[Callable[[Any], object]], object] = lambda _done: None) -> list[Any]:
        """Call `begin` with a callback and play on until nothing is tried again; the results that the callback got."""
        found: list[Any] = []
        begin(found.extend)
        for attempt in range(ATTEMPTS):
            self.settle()
            self.pass_time(BACKOFF_MS << attempt)
        self.settle()
        return found

    def initialize(self) -> None:
        parts = [InitializePartition(self.topic_id, each, STATE_EPOCH) for each in range(PARTITIONS)]
        errors = self.finish(lambda done: self[1].persister.initialize(GROUP, parts, done))
        assert [(each.partition, each.error) for each in errors] == [(each, 0) for each in range(PARTITIONS)]

    def acknowledged(self, partition: int) -> set[int]:
        """The offsets that are stored as acknowledged, as the leader reads them."""
        part = ReadPartition(self.topic_id, partition, LEADER_EPOCH)
        [state] = self.finish(lambda done: self.leader(partition).persister.read(GROUP, [part], done))
        assert (state.error, state.state_epoch) == (ErrorCode.NONE, STATE_EPOCH)
        assert all(each.delivery_state == ACKNOWLEDGED for each in state.state_batches)
        return {offset for each in state.state_batches for offset in range(each.first_offset, each.last_offset + 1)}

    def summaries(self, world: ShareWorld) -> list[PartitionSummary]:
        parts = [(self.topic_id, each) for each in range(PARTITIONS)]
        return self.finish(lambda done: world.persister.read_summary(GROUP, parts, done))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    made.initialize()
    yield made
    assert not made.letters


def test_each_state_is_with_the_leader_of_its_key(cluster: Cluster) -> None:
    """The topic of the state, which one worker has created, is the other one's, too."""
    for partition in range(PARTITIONS):
        key = coordinator_key(GROUP, cluster.topic_id, partition)
        assert [world for world in cluster.worlds if key in world.share.actors] == [cluster.storing(partition)]
    assert {cluster.storing(each) for each in range(PARTITIONS)} == set(cluster.worlds), "the test has both cases"


def test_a_leader_writes_and_reads_state_of_another_worker(cluster: Cluster) -> None:
    for partition in range(PARTITIONS):
        found = cluster.write(partition, 7 + partition)
        cluster.finish()
        assert [each.error for each in found] == [ErrorCode.NONE]
        assert cluster.acknowledged(partition) == {7 + partition}
    for world in cluster.worlds:
        found = cluster.summaries(world)
        assert [(each.partition, each.error, each.state_epoch, each.start_offset) for each in found] == [
            (partition, ErrorCode.NONE, STATE_EPOCH, 0) for partition in range(PARTITIONS)
        ]


def test_a_write_has_no_result_before_it_is_durable_at_the_other_worker(cluster: Cluster) -> None:
    partition = cluster.apart()
    storing = cluster.storing(partition)
    found = cluster.write(partition, 7)
    [letter] = cluster.letters
    cluster.deliver(letter)
    while storing.loop.ready:
        storing.loop.turn()
    assert storing.worker.jobs, "the disk has not written it"
    assert letter.context is not None
    assert not letter.context.answers
    assert not found
    cluster.settle()
    assert [each.error for each in found] == [ErrorCode.NONE]


def test_a_write_survives_the_death_of_the_worker_that_stores_it(cluster: Cluster) -> None:
    partition = cluster.apart()
    found = cluster.write(partition, 7)
    cluster.kill(cluster.storing(partition).number)
    cluster.settle()
    assert not found, "it is tried again"
    cluster.finish()
    assert [each.error for each in found] == [ErrorCode.NONE]
    assert cluster.acknowledged(partition) == {7}


def test_a_leader_reads_the_state_again_after_its_death(cluster: Cluster) -> None:
    partition = cluster.apart()
    cluster.write(partition, 7)
    cluster.settle()
    cluster.kill(cluster.leader(partition).number)
    assert cluster.acknowledged(partition) == {7}


def test_a_coordinator_that_stays_away_is_an_error_in_the_end(cluster: Cluster) -> None:
    partition = cluster.apart()
    found = cluster.write(partition, 7)
    attempts = 0
    while not found:
        for letter in cluster.letters:
            letter.answered(None)
            attempts += 1
        cluster.letters.clear()
        cluster.settle()
        cluster.pass_time(BACKOFF_MS)
    assert [each.error for each in found] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert attempts == ATTEMPTS


def test_a_topic_that_the_other_worker_has_not_read_about_is_tried_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes of other machines read about topics four times a second."""
    partition = cluster.apart()
    storing = cluster.storing(partition)
    with monkeypatch.context() as patch:
        patch.setattr(storing.topics, "has_partition", lambda *_: False)
        found = cluster.write(partition, 7)
        cluster.settle()
        assert not found
    cluster.finish()
    assert [each.error for each in found] == [ErrorCode.NONE]


def test_a_former_leader_is_fenced(cluster: Cluster) -> None:
    """Its successor has read the state, with a higher leader epoch."""
    partition = cluster.apart()
    part = ReadPartition(cluster.topic_id, partition, LEADER_EPOCH + 1)
    [state] = cluster.finish(lambda done: cluster.leader(partition).persister.read(GROUP, [part], done))
    assert state.error is ErrorCode.NONE
    found = cluster.write(partition, 7)
    cluster.finish()
    assert [each.error for each in found] == [ErrorCode.FENCED_LEADER_EPOCH]


def test_a_deleted_state_is_deleted_everywhere(cluster: Cluster) -> None:
    parts = [(cluster.topic_id, each) for each in range(PARTITIONS)]
    errors = cluster.finish(lambda done: cluster[0].persister.delete(GROUP, parts, done))
    assert [(each.partition, each.error) for each in errors] == [(each, 0) for each in range(PARTITIONS)]
    assert not any(world.share.actors for world in cluster.worlds)
    assert {each.start_offset for each in cluster.summaries(cluster[1])} == {-1}


def test_the_ends_of_partitions_are_those_of_their_leaders(cluster: Cluster) -> None:
    for partition in range(PARTITIONS):
        cluster.leader(partition).produce(TOPIC, batch(*[b"x"] * (partition + 1)), partition=partition)
    keys = [(cluster.topic_id, each) for each in range(PARTITIONS + 1)]
    for world in cluster.worlds:
        found: list[Any] = []
        world.ends.ask(keys, found.append)
        cluster.settle()
        assert found == [{key: key[1] + 1 for key in keys[:-1]} | {keys[-1]: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}]
    found = []
    cluster[0].ends.ask(keys[:-1], found.append)
    cluster.letters.pop().answered(None)
    assert sorted(map(str, found[0].values()), key=len)[-1] == str(ErrorCode.LEADER_NOT_AVAILABLE)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_acknowledged_is_stored_whoever_dies(seed: int, tmp_path: Path) -> None:
    cluster, chance = Cluster(tmp_path, seed), random.Random(seed)
    cluster.initialize()
    asked: dict[tuple[int, int], list[Any]] = {}
    for number in range(60):
        if chance.random() < 0.15:
            cluster.kill(chance.randrange(2), chance.randrange(8))
        partition = chance.randrange(PARTITIONS)
        asked[partition, number] = cluster.write(partition, number)
        for _ in range(chance.randrange(12)):
            cluster.step()
    cluster.finish()
    assert cluster.kills
    for partition in range(PARTITIONS):
        stored = cluster.acknowledged(partition)
        done = {
            offset
            for (index, offset), found in asked.items()
            if index == partition and found and found[0].error is ErrorCode.NONE
        }
        assert done <= stored <= {offset for index, offset in asked if index == partition}

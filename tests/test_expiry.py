"""Offsets are deleted without a request when the group's own retention has passed and when their topic is deleted;
idle producers, every producer.id.expiration.check.interval.ms.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from coordinatord.broker.log import replay
from coordinatord.broker.log.simulated_disk import CrashKind, SimulatedCrash
from coordinatord.broker.topics.names import OFFSETS_TOPIC
from coordinatord.testing.wire import Wire
from kafka_wire.api import incremental_alter_configs
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.delete_topics import DeleteTopicsRequest
from kafka_wire.api.describe_producers import DescribeProducersRequest, TopicRequest
from kafka_wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafka_wire.records.keys import decode_key
from kafka_wire.records.offsets import OffsetCommitKey
from tests.broker.topics import world as produced
from tests.coordination.transactions.world import World
from tests.daemon import HOST, running
from tests.support.waiting import wait_until

GROUP = 32
MINUTE_MS = 60_000
NONE = (0, -1)


def retain(world: World, group: str, minutes: int) -> None:
    """Give a group its own retention."""
    config = incremental_alter_configs.AlterableConfig("offsets.retention.minutes", 0, str(minutes))
    resource = incremental_alter_configs.AlterConfigsResource(GROUP, group, [config])
    [answer] = world.call(44, 1, IncrementalAlterConfigsRequest([resource], False)).responses
    assert answer.error_code == 0


def expire(world: World) -> None:
    for _ in world.coordinator.expire_offsets(world.topics.group_configs.retention_ms):
        pass
    world.settle()


def tombstones(world: World) -> set[str]:
    """The groups with tombstones for offsets in the log."""
    found = set()
    for index in range(len(world.coordinator.partitions)):
        for batch in replay(world.partition(OFFSETS_TOPIC, index).log):
            for _, _, key, value in batch.records:
                if batch.control is None and key is not None and value is None:
                    typed = decode_key(key)
                    if type(typed) is OffsetCommitKey:
                        found.add(typed.group)
    return found


@pytest.fixture
def world() -> World:
    made = World(offsets_retention_minutes=100)
    made.create("orders")
    return made


@pytest.mark.parametrize("restarts", [False, True])
def test_each_group_has_its_own_retention(world: World, restarts: bool) -> None:
    for group, minutes in (("short", 10), ("never", -1), ("long", 1_000)):
        assert world.commit_plainly(5, group) == 0
        retain(world, group, minutes)
    assert world.commit_plainly(5, "plain") == 0
    left = []
    for minutes in (9, 2, 88, 2, 898, 2, 10_000_000):
        world.pass_time(minutes * MINUTE_MS)
        if restarts:
            world.restart()
        expire(world)
        left.append([group for group in ("short", "plain", "long", "never") if world.committed(group) != NONE])
    everybody = ["short", "plain", "long", "never"]
    assert left == [everybody, everybody[1:], everybody[1:], everybody[2:], everybody[2:], ["never"], ["never"]]
    assert tombstones(world) == {"short", "plain", "long"}
    assert set(world.coordinator.actors) == {"never"}
    if not restarts:
        assert world.metrics.offset_expirations == 3
    retain(world, "never", 1)
    expire(world)
    assert world.committed("never") == NONE


@pytest.mark.parametrize("kind", ["kill", "power"])
def test_crashed_in_any_step_of_a_topics_deletion_its_offsets_go_with_it(kind: CrashKind) -> None:
    steps = gone = 0
    while True:
        world = World()
        world.create("orders")
        world.commit_plainly(5)
        world.disk.crash_after = world.disk.operations + steps
        with contextlib.suppress(SimulatedCrash, AssertionError):  # the writer's thread keeps its own crash to itself
            world.call(20, 5, DeleteTopicsRequest([], ["orders"]))
        if not world.disk.crashed:
            break
        world.crash(kind)
        world.open()
        world.settle()
        if world.topics.exists("orders", 0):
            assert world.committed() == (0, 5), steps
        else:
            gone += 1
            assert "g" not in world.coordinator.actors or not world.coordinator.actors["g"].group.offsets, steps
            assert tombstones(world) == {"g"}, steps
            world.restart()
            world.settle()
            assert world.topics.catalogue.deleting == {}
        steps += 1
    assert steps > 3
    assert gone > 1


def test_a_deletion_is_remembered_until_the_tombstones_are_durable(world: World) -> None:
    world.commit_plainly(5)
    world.send(20, 5, DeleteTopicsRequest([], ["orders"]))
    assert list(world.topics.catalogue.deleting.values()) == ["orders"]
    world.crash_and_restart()
    world.settle()
    assert tombstones(world) == {"g"}
    assert world.topics.catalogue.deleting == {}


def test_a_topic_is_deleted_while_groups_are_loaded(world: World) -> None:
    """Groups that are not loaded yet delete the offsets when they are loaded."""
    for number in range(8):
        assert world.commit_plainly(5, f"g{number}") == 0
    world.stop()
    load_groups = World.load_groups
    deleted = []

    class Interrupted(World):
        def load_groups(self) -> None:
            self.call(20, 5, DeleteTopicsRequest([], ["orders"]))
            deleted.extend(self.topics.catalogue.deleting.values())
            load_groups(self)

    world.__class__ = Interrupted
    world.open()
    world.settle()
    assert deleted == ["orders"]
    assert tombstones(world) == {f"g{number}" for number in range(8)}
    assert world.topics.catalogue.deleting == {}
    assert all(not actor.group.offsets for actor in world.coordinator.actors.values())


def test_what_is_committed_for_a_topic_made_anew_stays(world: World) -> None:
    """The new topic has the name of the deleted one; the deletion is not repeated."""
    world.commit_plainly(5)
    world.send(20, 5, DeleteTopicsRequest([], ["orders"]))
    world.create("orders")
    assert world.commit_plainly(7) == 0
    world.crash_and_restart()
    world.settle()
    assert world.committed() == (0, 7)


def test_idle_producers_expire_at_their_own_interval(tmp_path: Path) -> None:
    """Not with the retention of records, which is looked at every five minutes."""
    settings = {"producer.id.expiration.ms": "1", "producer.id.expiration.check.interval.ms": "10"}
    with running(tmp_path, settings) as daemon, contextlib.closing(Wire(lambda: (HOST, daemon.port))) as wire:
        wire.ask(CreateTopicsRequest([CreatableTopic("orders", 1, 1)], 1000), 5)
        request = produced.produce("orders", produced.batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0))
        [topic] = wire.ask(request, 9).responses
        assert topic.partition_responses[0].error_code == 0

        def active() -> list[object]:
            [described] = wire.ask(DescribeProducersRequest([TopicRequest("orders", [0])]), 0).topics
            assert described.partitions[0].error_code == 0
            return list(described.partitions[0].active_producers)

        wait_until(lambda: not active(), "the producer to expire")

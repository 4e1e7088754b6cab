"""The share coordinator on a log: the persister's promises, restarts, crashes, pruning, deleted topics, limits."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from coordinatord.broker.log.simulated_disk import CrashKind
from coordinatord.coordination.share.coordinator import coordinator as coordinator_module
from coordinatord.coordination.share.coordinator.coordinator import coordinator_key, parse_key
from coordinatord.coordination.share.persister import (
    InitializePartition,
    PartitionError,
    PartitionState,
    PartitionSummary,
    StateBatch,
    WritePartition,
)
from coordinatord.coordination.share.state_persister import AT_ONCE, ATTEMPTS
from kafka_wire.api.delete_topics import DeleteTopicsRequest
from kafka_wire.errors import ErrorCode
from kafka_wire.records.share_state import ShareSnapshotValue, ShareUpdateValue
from tests.coordination.share.coordinator.model import random_batches
from tests.coordination.share.coordinator.world import GROUP, World

ACQUIRED = StateBatch(0, 9, 0, 1)
ACKNOWLEDGED = StateBatch(3, 4, 2, 1)


def test_the_first_initialization_creates_the_topic() -> None:
    world = World()
    assert not len(world.share.partitions)
    assert world.initialize(0, 1, 2) == [PartitionError(world.topic_id, each) for each in range(3)]
    assert len(world.share.partitions) == 4
    configs = world.topics.catalogue.by_name["__share_group_state"].configs.own
    assert configs == {
        "cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1", "segment.bytes": "104857600"
    }  # fmt: skip
    for _, offset, key, value in world.records():
        assert (key.group_id, key.topic_id) == (GROUP, world.topic_id)
        assert isinstance(value, ShareSnapshotValue)
        assert world.share.partitions.of(coordinator_key(*key[1:])) in range(4)
        assert offset >= 0


def test_a_deletion_waits_for_an_initialisation_in_several_turns() -> None:
    """Otherwise partitions that are initialised after it would keep the state of a group that is gone."""
    world = World()
    many = range(3 * AT_ONCE)
    wide = world.create("wide", len(many))
    found: list[str] = []
    world.persister.initialize(
        GROUP, [InitializePartition(wide, each, 1, -1) for each in many], lambda errors: found.append(told(errors))
    )
    assert len(world.share.actors) == AT_ONCE, "the first turn"
    world.persister.delete(GROUP, [(wide, each) for each in reversed(many)], lambda errors: found.append(told(errors)))
    world.settle()
    assert found == [f"{len(many)} results, 0 errors"] * 2
    assert world.states() == {}


def told(errors: list[PartitionError]) -> str:
    return f"{len(errors)} results, {sum(bool(each.error) for each in errors)} errors"


def test_what_is_written_is_read() -> None:
    world = World()
    world.initialize(0, start_offset=0)
    assert world.read() == PartitionState(world.topic_id, 0, state_epoch=1, start_offset=0)
    assert world.write(ACQUIRED) == PartitionError(world.topic_id, 0)
    assert world.write(ACKNOWLEDGED, start_offset=0, complete=2) == PartitionError(world.topic_id, 0)
    batches = (StateBatch(0, 2, 0, 1), ACKNOWLEDGED, StateBatch(5, 9, 0, 1))
    assert world.read().state_batches == batches
    assert world.summary() == PartitionSummary(
        world.topic_id, 0, state_epoch=1, leader_epoch=5, start_offset=0, delivery_complete_count=2
    )
    assert world.delete(0, 1) == [PartitionError(world.topic_id, 0), PartitionError(world.topic_id, 1)]
    assert world.read().error is ErrorCode.INVALID_REQUEST
    assert world.summary() == PartitionSummary(world.topic_id, 0)


def test_done_comes_when_the_record_is_durable_and_never_before_the_method_returns() -> None:
    world = World()
    world.initialize()
    world.read()
    done: list[Any] = []
    written = WritePartition(world.topic_id, 0, 1, 5, 0, 0, [ACQUIRED])
    world.persister.write(GROUP, [written], done.extend)
    assert not done
    world.loop.turn()
    assert not done
    read: list[Any] = []
    world.persister.read_summary(GROUP, world.parts(0), read.extend)  # waits for the write that it shows
    world.loop.turn()
    assert not read
    world.settle()
    assert [each.error for each in done] == [ErrorCode.NONE]
    assert read[0].start_offset == 0
    world.persister.read_summary(GROUP, world.parts(0), read.extend)
    assert len(read) == 1
    world.loop.turn()
    assert len(read) == 2  # durable: the next turn


def test_a_failed_log_is_told_to_all() -> None:
    world = World()
    world.initialize(0, 1)
    done: list[Any] = []
    world.persister.initialize(GROUP, [InitializePartition(world.topic_id, each, 2) for each in (0, 1)], done.extend)
    world.disk.datasyncs_left = 0
    world.settle()
    assert [each.error for each in done] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    world.persister.initialize(GROUP, [InitializePartition(world.topic_id, 0, 3)], done.extend)
    world.settle()
    assert [each.error for each in done[2:]] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


# Restarts


def change(world: World, chance: random.Random) -> None:
    partition = chance.randrange(3)
    kind = chance.randrange(10)
    if kind == 0:
        world.initialize(partition, state_epoch=chance.randrange(1, 3), start_offset=chance.choice((-1, 5)))
    elif kind == 1:
        world.read(partition, chance.randrange(4, 8))
    elif kind == 2 and chance.random() < 0.3:
        world.delete(partition)
    elif kind == 3:
        list(world.share.snapshot_cold(chance.choice((0, 10**9))))
    else:
        start = chance.choice((-1, -1, chance.randrange(20)))
        world.write(*random_batches(chance), partition=partition, start_offset=start, complete=chance.randrange(9))
    world.time_ms += 100
    world.settle()


@pytest.mark.parametrize("updates", [0, 3, 500])
def test_the_state_after_a_restart_is_the_state_before_it(updates: int) -> None:
    """After every prefix of the log: each step is followed by a restart."""
    chance = random.Random(updates)
    world = World(share_coordinator_snapshot_update_records_per_snapshot=updates)
    world.initialize(0, 1, 2)
    for number in range(60):
        change(world, chance)
        before, redundant, batches = world.states(), world.share.redundant_offsets(), world.share.batch_count
        if number % 2:
            world.restart()
        else:
            world.crash_and_restart("power")
        assert world.states() == before, number
        assert world.share.redundant_offsets() == redundant, number
        assert world.share.batch_count == batches == sum(len(each["batches"]) for each in before.values())


@pytest.mark.parametrize("kind", ["kill", "power"])
def test_what_was_told_as_written_survives_a_crash(kind: CrashKind) -> None:
    for seed in range(20):
        chance = random.Random(seed)
        world = World()
        world.initialize(0)
        world.read()
        told: list[int] = []
        for number in range(1, 9):
            written = WritePartition(world.topic_id, 0, 1, 5, number, 0, ())
            world.persister.write(GROUP, [written], partial(_note, told, number))
            for _ in range(chance.randrange(3)):
                world.loop.turn()
                world.worker.run_one()
        world.crash_and_restart(kind)
        assert world.summary().start_offset >= max(told, default=0), seed


def _note(told: list[int], number: int, results: list[PartitionError]) -> None:
    assert [each.error for each in results] == [ErrorCode.NONE]
    told.append(number)


# While it is loading


def test_calls_are_repeated_while_the_state_is_loading() -> None:
    world = World()
    world.initialize()
    world.is_loaded = False
    world.restart()
    done: list[Any] = []
    world.persister.read_summary(GROUP, world.parts(0, 7), done.extend)
    world.settle()
    assert not done
    world.load()
    world.pass_time(999)
    assert not done
    world.pass_time(1)
    world.settle()
    assert [each.error for each in done] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_only_partitions_that_are_loading_are_tried_again() -> None:
    world = World()
    world.initialize(0, 1, 2)
    places = {partition for partition, *_ in world.records()}
    assert len(places) > 1
    world.is_loaded = False
    world.restart()
    first, *others = sorted(places)
    world.load(first)
    done: list[Any] = []
    wanted = [InitializePartition(world.topic_id, each, 2) for each in range(3)]
    world.persister.initialize(GROUP, wanted, done.extend)
    world.load(*others)
    world.pass_time(1_000)
    world.settle()
    assert done == [PartitionError(world.topic_id, each) for each in range(3)]
    assert sorted(key.partition for _, _, key, value in world.records() if value.state_epoch == 2) == [0, 1, 2]


def test_calls_are_given_up_after_some_attempts() -> None:
    world = World()
    world.initialize()
    world.is_loaded = False
    world.restart()
    done: list[Any] = []
    world.persister.read_summary(GROUP, world.parts(0), done.extend)
    world.pass_time(1_000 * (2 ** (ATTEMPTS - 1) - 1) - 1)
    world.settle()
    assert not done
    world.pass_time(1)
    world.settle()
    assert [each.error for each in done] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]


# Deleted topics, pruning, limits


def delete_topic(world: World) -> None:
    response = world.call(20, 5, DeleteTopicsRequest(topic_names=["orders"]))
    assert [each.error_code for each in response.responses] == [0]


@pytest.mark.parametrize("restart", [False, True])
def test_a_deleted_topic_takes_its_states_along(restart: bool) -> None:
    world = World()
    world.initialize(0, 1, 2)
    world.write(ACQUIRED)
    delete_topic(world)
    if restart:
        world.crash_and_restart()
    assert not world.states()
    assert world.share.batch_count == 0
    assert world.write(ACQUIRED).error is ErrorCode.INVALID_REQUEST


def test_a_topic_deleted_while_loading_takes_its_states_along() -> None:
    world = World()
    world.initialize(0, 1, 2)
    world.is_loaded = False
    world.restart()
    delete_topic(world)
    world.load()
    world.settle()
    assert not world.states()
    assert [value for _, _, _, value in world.records()][-3:].count(None) >= 1


def first_needed(world: World) -> dict[int, int]:
    """What Kafka's ShareCoordinatorOffsetsManager finds, told of all records one after the other."""
    offsets: dict[int, dict[Any, int]] = {}
    needed: dict[int, int] = {}
    for partition, offset, key, value in world.records():
        if isinstance(value, ShareUpdateValue):
            continue
        mine = offsets.setdefault(partition, {})
        mine[key[1:]] = offset
        needed[partition] = min(mine.values())
        if value is None:
            del mine[key[1:]]
    return needed


def test_redundant_records_are_pruned() -> None:
    chance = random.Random(4)
    world = World(share_coordinator_snapshot_update_records_per_snapshot=3)
    world.initialize(0, 1, 2)
    pruned = 0
    for _ in range(40):
        for _ in range(5):
            change(world, chance)
        needed = first_needed(world)
        world.share.prune()
        world.settle()
        starts = {partition: world.log_of(partition).log_start_offset for partition in needed}
        assert starts == needed
        pruned += sum(offset > 0 for offset in needed.values())
        before = {key: each["batches"] for key, each in world.states().items()}
        world.restart()
        assert {key: each["batches"] for key, each in world.states().items()} == before
    assert pruned > 40


def test_nothing_is_pruned_before_its_snapshot_is_durable() -> None:
    world = World(share_coordinator_state_topic_num_partitions=1)
    world.initialize(0)
    world.persister.initialize(GROUP, [InitializePartition(world.topic_id, 0, 2)], lambda _: None)
    world.share.prune()
    world.loop.turn()
    assert world.log_of(0).log_start_offset == 0
    world.settle()
    assert world.log_of(0).log_start_offset == 1


def test_a_cold_partition_does_not_prevent_pruning() -> None:
    world = World(share_coordinator_state_topic_num_partitions=1)
    world.initialize(0, 1)
    for state_epoch in range(2, 9):
        world.initialize(1, state_epoch=state_epoch)
    world.share.prune()
    world.settle()
    assert world.log_of(0).log_start_offset == 0
    world.time_ms += 1_000
    list(world.share.snapshot_cold(1_000))
    world.share.prune()
    world.settle()
    assert [value.snapshot_epoch for _, _, _, value in world.records()] == [1, 8]
    list(world.share.snapshot_cold(1_000))  # all have been repeated
    assert len(world.records()) == 2


def test_the_number_of_share_partitions_is_limited() -> None:
    world = World(max_share_partitions=2)
    errors = [each.error for each in world.initialize(0, 1, 2)]
    assert errors == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]
    world.delete(0)
    assert [each.error for each in world.initialize(2)] == [ErrorCode.NONE]


@pytest.mark.interpreted  # the limit is a constant in C
def test_the_number_of_state_batches_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_module, "MAX_STATE_BATCHES", 3)
    world = World()
    world.initialize(0, 1)
    scattered = [StateBatch(each, each, 0, 1) for each in (0, 2)]
    assert world.write(*scattered).error is ErrorCode.NONE
    assert world.write(*scattered, partition=1).error is ErrorCode.POLICY_VIOLATION
    world.delete(0)
    assert world.share.batch_count == 0
    assert world.write(*scattered, partition=1).error is ErrorCode.NONE


# Keys


@pytest.mark.parametrize("group", ["g", "a:b", "a:b:c:", ":"])
def test_keys(group: str) -> None:
    topic_id = bytes(range(16))
    key = coordinator_key(group, topic_id, 7)
    assert key == f"{group}:AAECAwQFBgcICQoLDA0ODw:7"
    assert parse_key(key) == (group, topic_id, 7)


TOPIC_ID = "AAECAwQFBgcICQoLDA0ODw"


@pytest.mark.parametrize("key", ["", "g", f"g:{TOPIC_ID}", f":{TOPIC_ID}:0", "g:short:0", f"g:{TOPIC_ID}:x"])
def test_invalid_keys(key: str) -> None:
    parsing: Callable[[str], Any] = parse_key
    with pytest.raises(ValueError, match=r"."):
        parsing(key)

"""What is decided about a share partition's stored state: each event in each state, row by row.

The errors and their order were read in Kafka's ShareCoordinatorShard; java/ShareCoordinatorCheck.java compares them.
"""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.coordination.share.coordinator import events
from coordinatord.coordination.share.coordinator.result import Result
from coordinatord.coordination.share.coordinator.state import ShareCoordinatorSettings, SharePartitionState
from coordinatord.coordination.share.coordinator.step import (
    INVALID_BATCH,
    MAX_BATCHES,
    NEGATIVE_LEADER_EPOCH,
    NEGATIVE_PARTITION,
    NEGATIVE_STATE_EPOCH,
    UNINITIALIZED_READ,
    UNINITIALIZED_WRITE,
    cold,
    step,
)
from coordinatord.coordination.share.persister import PartitionError, PartitionState, PartitionSummary, StateBatch
from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.records import share_state
from kafka_wire.records.share_state import ShareSnapshotValue, ShareUpdateValue

TOPIC = bytes(range(16))
ACQUIRED_ONCE = StateBatch(10, 19, 0, 1)
ACKNOWLEDGED = StateBatch(12, 14, 2, 1)
FENCED_STATE, FENCED_LEADER = ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_LEADER_EPOCH
INVALID, UNKNOWN, POLICY = (
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.POLICY_VIOLATION,
)


def initialize(state_epoch: int = 1, start_offset: int = -1, exists: bool = True) -> events.Initialize:
    return events.Initialize(state_epoch, start_offset, exists)


def write(state_epoch: int = 1, leader_epoch: int = 5, start: int = -1, complete: int = 0, *batches: StateBatch) -> Any:
    return events.Write(state_epoch, leader_epoch, start, complete, batches, True)


NO_TOPIC = {type(each): each for each in (
    initialize(exists=False),
    events.Read(5, False),
    events.Write(1, 5, -1, 0, (), False),
    events.Delete(False),
    events.ReadSummary(False),
)}  # fmt: skip


class World:
    """A share partition and its log."""

    def __init__(self, updates_per_snapshot: int = 500, partition: int = 0) -> None:
        self.state = SharePartitionState("g", TOPIC, partition, ShareCoordinatorSettings(updates_per_snapshot))
        self.now_ms = 1_000
        self.log: list[Any] = []

    def tell(self, event: Any) -> Any:
        result: Result = step(self.state, event, self.now_ms)
        if result.record is not None:
            self.log.append(result.record)
        elif result.tombstone:
            self.log.append(None)
        return result.reply

    @classmethod
    def led(cls, **settings: Any) -> World:
        """State epoch 1, leader epoch 5."""
        world = cls(**settings)
        world.tell(initialize())
        world.tell(events.Read(5, True))
        return world


def _initialized() -> World:
    world = World()
    world.tell(initialize())
    return world


def _reset() -> World:
    world = World.led()
    world.tell(initialize(2))
    return world


def _deleted() -> World:
    world = World.led()
    world.tell(events.Delete(True))
    return world


STATES = {"absent": World, "initialized": _initialized, "led": World.led, "reset": _reset, "deleted": _deleted}

ROWS: list[tuple[str, Any, ErrorCode, int]] = [
    # state, event, error, number of records
    ("absent", initialize(0), ErrorCode.NONE, 1),
    ("absent", initialize(-1), INVALID, 0),
    ("absent", initialize(-1, exists=False), INVALID, 0),
    ("absent", events.Read(0, True), INVALID, 0),
    ("absent", events.Read(0, False), INVALID, 0),
    ("absent", write(), INVALID, 0),
    ("absent", events.Delete(True), ErrorCode.NONE, 0),
    ("absent", events.Delete(False), UNKNOWN, 0),
    ("absent", events.ReadSummary(True), ErrorCode.NONE, 0),
    ("absent", events.ReadSummary(False), UNKNOWN, 0),
    ("initialized", initialize(1), ErrorCode.NONE, 1),
    ("initialized", initialize(0), FENCED_STATE, 0),
    ("initialized", initialize(-1), INVALID, 0),
    ("initialized", initialize(2, exists=False), UNKNOWN, 0),
    ("initialized", initialize(0, exists=False), FENCED_STATE, 0),
    ("initialized", events.Read(-1, True), INVALID, 0),
    ("initialized", events.Read(0, True), ErrorCode.NONE, 0),
    ("initialized", events.Read(7, True), ErrorCode.NONE, 1),
    ("initialized", write(1, 0), ErrorCode.NONE, 1),
    ("initialized", write(1, 9), ErrorCode.NONE, 1),  # no one has read: any leader may write
    ("initialized", write(0, 0), FENCED_STATE, 0),
    ("led", events.Read(4, True), FENCED_LEADER, 0),
    ("led", events.Read(4, False), FENCED_LEADER, 0),
    ("led", events.Read(5, True), ErrorCode.NONE, 0),
    ("led", events.Read(5, False), UNKNOWN, 0),
    ("led", events.Read(6, True), ErrorCode.NONE, 1),
    ("led", write(1, 4), FENCED_LEADER, 0),
    ("led", write(0, 4), FENCED_LEADER, 0),
    ("led", write(0, 5), FENCED_STATE, 0),
    ("led", write(-1, 4), INVALID, 0),
    ("led", write(0, -1), INVALID, 0),
    ("led", write(2, 6), ErrorCode.NONE, 1),
    ("led", NO_TOPIC[events.Write], UNKNOWN, 0),
    ("led", write(1, 5, -1, 0, StateBatch(5, 4, 0, 1)), INVALID, 0),
    ("led", write(1, 5, -1, 0, StateBatch(-1, 4, 0, 1)), INVALID, 0),
    ("led", write(1, 5, -1, 0, *(StateBatch(2 * n, 2 * n, 0, 1) for n in range(MAX_BATCHES))), ErrorCode.NONE, 1),
    ("led", write(1, 5, -1, 0, *(StateBatch(2 * n, 2 * n, 0, 1) for n in range(MAX_BATCHES + 1))), POLICY, 0),
    ("led", events.Snapshot(), ErrorCode.NONE, 1),
    ("led", events.Delete(True), ErrorCode.NONE, 1),
    ("led", events.TopicDeleted(), ErrorCode.NONE, 1),
    ("reset", events.Read(4, True), FENCED_LEADER, 0),  # the fence outlives the reset
    ("reset", write(1, 5), FENCED_STATE, 0),
    ("reset", write(2, 5), ErrorCode.NONE, 1),
    ("reset", initialize(1), FENCED_STATE, 0),
    ("deleted", events.Read(5, True), INVALID, 0),
    ("deleted", write(), INVALID, 0),
    ("deleted", initialize(0), ErrorCode.NONE, 1),  # nothing is left of the fence
]


@pytest.mark.parametrize(("state", "event", "error", "records"), ROWS)
def test_events(state: str, event: Any, error: ErrorCode, records: int) -> None:
    world = STATES[state]()
    before = len(world.log)
    exists = world.state.exists
    reply = world.tell(event)
    assert len(world.log) - before == records
    if reply is not None:
        assert reply.error is error
        assert (reply.topic_id, reply.partition) == (TOPIC, 0)
        assert (reply.message is None) == (error is ErrorCode.NONE)
    if not records:
        assert world.state.exists == exists


@pytest.mark.parametrize("event", [initialize(), events.Read(0, True), write(), events.Delete(True),
                                   events.ReadSummary(True), *NO_TOPIC.values()])  # fmt: skip
def test_a_negative_partition_is_the_first_error(event: Any) -> None:
    world = World(partition=-1)
    reply = world.tell(event)
    assert (reply.error, reply.message) == (INVALID, NEGATIVE_PARTITION)
    assert not world.log


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (events.Read(0, True), UNINITIALIZED_READ),
        (events.Read(-1, True), NEGATIVE_LEADER_EPOCH),
        (write(-1, -1), NEGATIVE_LEADER_EPOCH),
        (write(-1, 0), NEGATIVE_STATE_EPOCH),
        (initialize(-1), NEGATIVE_STATE_EPOCH),
        (write(), UNINITIALIZED_WRITE),
        (events.Delete(False), message_of(UNKNOWN)),
    ],
)
def test_messages_of_an_absent_state(event: Any, message: str) -> None:
    assert World().tell(event).message == message


def test_messages_of_a_led_state() -> None:
    assert World.led().tell(events.Read(1, True)).message == message_of(FENCED_LEADER)
    assert World.led().tell(write(0)).message == message_of(FENCED_STATE)
    assert World.led().tell(write(1, 5, -1, 0, StateBatch(5, 4, 0, 1))).message == INVALID_BATCH


def test_an_initialization_is_a_snapshot() -> None:
    world = World()
    assert world.tell(initialize(3)) == PartitionError(TOPIC, 0)
    assert world.log == [ShareSnapshotValue(0, 3, 0, -1, -1, 1_000, 1_000, [])]
    world.now_ms = 2_000
    world.tell(events.Read(5, True))
    world.tell(initialize(4, 70))
    assert world.log[-1] == ShareSnapshotValue(1, 4, 0, 70, 0, 2_000, 2_000, [])


def test_a_read_with_another_leader_epoch_is_an_update() -> None:
    world = World()
    world.tell(initialize(1, 10))
    world.tell(write(1, 0, -1, 0, ACQUIRED_ONCE))
    reply = world.tell(events.Read(5, True))
    assert reply == PartitionState(TOPIC, 0, state_epoch=1, start_offset=10, state_batches=(ACQUIRED_ONCE,))
    assert world.log[-1] == ShareUpdateValue(0, 5, 10, 0, [])
    assert world.tell(events.ReadSummary(True)) == PartitionSummary(
        TOPIC, 0, state_epoch=1, leader_epoch=5, start_offset=10, delivery_complete_count=0
    )


def test_a_write_changes_what_it_names() -> None:
    world = World.led()
    world.tell(write(1, 5, 10, 0, ACQUIRED_ONCE))
    world.tell(write(1, 5, 10, 3, ACKNOWLEDGED))
    assert world.log[-1] == ShareUpdateValue(0, 5, 10, 3, [share_state.StateBatch(*ACKNOWLEDGED)])
    batches = (StateBatch(10, 11, 0, 1), ACKNOWLEDGED, StateBatch(15, 19, 0, 1))
    assert world.tell(events.Read(5, True)).state_batches == batches
    world.tell(write(1, 5, 13, 2))
    assert world.tell(events.Read(5, True)).state_batches == (StateBatch(13, 14, 2, 1), batches[2])


@pytest.mark.parametrize(
    ("start", "complete", "stored"),
    [
        (10, 5, (10, 5)),
        (10, 2, (10, 3)),  # the higher count at the same start
        (11, 2, (11, 2)),
        (9, 7, (10, 3)),  # overtaken
        (-1, 7, (10, 3)),
    ],
)
@pytest.mark.parametrize("updates_per_snapshot", [2, 500])
def test_no_write_moves_the_start_back(
    updates_per_snapshot: int, start: int, complete: int, stored: tuple[int, int]
) -> None:
    world = World.led(updates_per_snapshot=updates_per_snapshot)
    world.tell(write(1, 5, 10, 3))
    world.tell(write(1, 5, start, complete, StateBatch(8, 12, 0, 1)))
    assert (world.log[-1].start_offset, world.log[-1].delivery_complete_count) == stored
    assert (world.state.start_offset, world.state.delivery_complete_count) == stored
    assert world.log[-1].state_batches == [share_state.StateBatch(stored[0], 12, 0, 1)]


def test_a_snapshot_follows_the_updates() -> None:
    world = World.led(updates_per_snapshot=2)  # the read was the first update
    world.tell(write(1, 5, 10, 0, ACQUIRED_ONCE))
    world.now_ms = 2_000
    world.tell(write(1, 5, 10, 3, ACKNOWLEDGED))
    batches = [share_state.StateBatch(*each) for each in ((10, 11, 0, 1), ACKNOWLEDGED, (15, 19, 0, 1))]
    assert world.log[-1] == ShareSnapshotValue(1, 1, 5, 10, 3, 2_000, 2_000, batches)
    world.tell(write(1, 5, 11, 3))
    assert world.log[-1] == ShareUpdateValue(1, 5, 11, 3, [])


def test_a_snapshot_of_a_cold_partition_keeps_its_time_of_creation() -> None:
    world = World.led()
    world.tell(write(1, 5, 10, 0, ACQUIRED_ONCE))
    world.now_ms = 9_000
    world.tell(events.Snapshot())
    assert world.log[-1] == ShareSnapshotValue(1, 1, 5, 10, 0, 1_000, 9_000, [share_state.StateBatch(*ACQUIRED_ONCE)])


def test_cold_partitions() -> None:
    worlds = [World.led() for _ in range(3)]
    states = [each.state for each in worlds]
    assert cold(states, 1_999, 1_000) == []
    assert cold(states, 2_000, 1_000) == states
    worlds[0].now_ms = 2_000
    worlds[0].tell(events.Snapshot())
    assert cold(states, 2_500, 1_000) == states[1:]
    for each in worlds[1:]:
        each.now_ms = 2_500
        each.tell(events.Snapshot())
    assert cold(states, 99_000, 1_000) == []  # all are repeated: nothing has happened since
    assert cold([], 99_000, 1_000) == []


def test_a_deletion_is_a_tombstone() -> None:
    world = World.led()
    assert world.tell(events.Delete(True)) == PartitionError(TOPIC, 0)
    assert world.log[-1] is None
    assert not world.state.exists

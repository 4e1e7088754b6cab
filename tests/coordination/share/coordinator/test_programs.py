"""Random programs: the stored state against the model, and against what every prefix of its log restores."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from coordinatord.coordination.share.coordinator import events
from coordinatord.coordination.share.coordinator.replay import replay
from coordinatord.coordination.share.coordinator.state import ShareCoordinatorSettings, SharePartitionState
from coordinatord.coordination.share.coordinator.step import step
from coordinatord.coordination.share.persister import PartitionState, PartitionSummary
from kafka_wire.records.share_state import (
    SNAPSHOT_TYPE,
    UPDATE_TYPE,
    ShareSnapshotValue,
    ShareUpdateValue,
    decode_value,
    encode_value,
)
from tests.coordination.share.coordinator.model import Model, by_offset, random_event

TOPIC = bytes(range(16))


def new(updates_per_snapshot: int) -> SharePartitionState:
    return SharePartitionState("g", TOPIC, 0, ShareCoordinatorSettings(updates_per_snapshot))


def stored(value: ShareSnapshotValue | ShareUpdateValue) -> Any:
    """The record as it is read back."""
    return decode_value(SNAPSHOT_TYPE if isinstance(value, ShareSnapshotValue) else UPDATE_TYPE, encode_value(value))


def durable(state: SharePartitionState) -> dict[str, Any]:
    return dataclasses.asdict(state) if state.exists else {}


@pytest.mark.parametrize("updates_per_snapshot", [0, 1, 3, 500])
def test_random_programs(updates_per_snapshot: int) -> None:
    reached: set[Any] = set()
    for seed in range(150):
        chance = random.Random(seed)
        model, state, restored = Model(), new(updates_per_snapshot), new(updates_per_snapshot)
        for number in range(40):
            event = random_event(chance)
            if state.exists and chance.random() < 0.05:
                event = events.Snapshot()
            result = step(state, event, 1_000 + number)
            if result.record is not None:
                replay(restored, stored(result.record))
                reached.add(type(result.record))
            elif result.tombstone:
                restored = new(updates_per_snapshot)
                state = new(updates_per_snapshot)  # the shell drops the actor
            assert durable(restored) == durable(state), (seed, number)

            error = model.tell(event)
            reached.add(error)
            if result.reply is not None:
                assert result.reply.error.name == error, (seed, number, event)
            assert state.exists == (model.epochs is not None)
            if state.exists:
                assert (state.state_epoch, state.leader_epoch) == model.epochs, (seed, number)
                assert (state.start_offset, state.delivery_complete_count) == (model.start_offset, model.complete)
                assert by_offset(state.batches) == model.offsets, (seed, number, event)
            if error == "NONE" and isinstance(result.reply, PartitionState):
                assert tuple(result.reply.state_batches) == state.batches
            if error == "NONE" and isinstance(result.reply, PartitionSummary):
                assert result.reply.delivery_complete_count == model.complete
    errors = {"NONE", "INVALID_REQUEST", "FENCED_STATE_EPOCH", "FENCED_LEADER_EPOCH", "UNKNOWN_TOPIC_OR_PARTITION"}
    assert errors | {ShareSnapshotValue} <= reached
    assert (ShareUpdateValue in reached) == (updates_per_snapshot > 0)

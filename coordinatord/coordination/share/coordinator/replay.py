"""The only writer of a share partition's stored state: one function for records of the log, new and loaded ones."""

from __future__ import annotations

from coordinatord.coordination.share.coordinator.combiner import combine
from coordinatord.coordination.share.coordinator.state import SharePartitionState
from coordinatord.coordination.share.persister import StateBatch
from kafka_wire.records.share_state import ShareSnapshotValue, ShareUpdateValue

Value = ShareSnapshotValue | ShareUpdateValue | None
"""The value of a record; None is a tombstone."""


def replay(state: SharePartitionState, value: Value) -> None:
    """Apply one record."""
    if value is None:
        _delete(state)
    elif isinstance(value, ShareSnapshotValue):
        _take(state, value)
    else:
        _update(state, value)


def _delete(state: SharePartitionState) -> None:
    state.exists = False
    state.batches = ()
    state.updates = 0
    state.highest_leader_epoch = 0


def _take(state: SharePartitionState, value: ShareSnapshotValue) -> None:
    state.exists = True
    state.snapshot_epoch = value.snapshot_epoch
    state.state_epoch = value.state_epoch
    state.leader_epoch = value.leader_epoch
    state.start_offset = value.start_offset
    state.delivery_complete_count = value.delivery_complete_count
    state.created_ms = value.create_timestamp
    state.written_ms = value.write_timestamp
    state.batches = batches_of(value)
    state.highest_leader_epoch = max(state.highest_leader_epoch, value.leader_epoch)
    if state.updates >= state.settings.updates_per_snapshot:  # Kafka counts on after snapshots of another cause
        state.updates = 0


def _update(state: SharePartitionState, value: ShareUpdateValue) -> None:
    if not state.exists:  # its snapshot was lost with damaged records: begin with what the update has, as Kafka does
        state.exists = True
        state.snapshot_epoch = value.snapshot_epoch
        state.state_epoch = 0
        state.start_offset = value.start_offset
        state.created_ms = state.written_ms = 0
        state.leader_epoch = value.leader_epoch
        state.batches = batches_of(value)
    else:
        if value.start_offset != -1:
            state.start_offset = value.start_offset
        if value.leader_epoch != -1:
            state.leader_epoch = value.leader_epoch
        state.batches = tuple(combine((*state.batches, *batches_of(value)), state.start_offset))
    state.delivery_complete_count = value.delivery_complete_count
    state.highest_leader_epoch = max(state.highest_leader_epoch, value.leader_epoch)
    state.updates += 1


def batches_of(value: ShareSnapshotValue | ShareUpdateValue) -> tuple[StateBatch, ...]:
    """Return the state batches of a record."""
    return tuple(
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in value.state_batches
    )

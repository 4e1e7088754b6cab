"""The steps of a share partition's stored state: pure functions, called with one event after the other.

The order of the checks is that of Kafka's ShareCoordinatorShard, so a request with several faults gets the same error
as from Kafka. Only its limits are our own: a write with invalid or too many state batches is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from coordinatord.coordination.share.coordinator import events
from coordinatord.coordination.share.coordinator.combiner import combine
from coordinatord.coordination.share.coordinator.replay import replay
from coordinatord.coordination.share.coordinator.result import Reply, Result
from coordinatord.coordination.share.coordinator.state import SharePartitionState
from coordinatord.coordination.share.persister import (
    NO_EPOCH,
    UNINITIALIZED_DELIVERY_COMPLETE_COUNT,
    UNINITIALIZED_START_OFFSET,
    PartitionError,
    PartitionState,
    PartitionSummary,
    StateBatch,
)
from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.records import share_state
from kafka_wire.records.share_state import ShareSnapshotValue, ShareUpdateValue

NEGATIVE_PARTITION: Final = "The partition id cannot be a negative number."
UNINITIALIZED_WRITE: Final = "Write operation on uninitialized share partition not allowed."
UNINITIALIZED_READ: Final = "Read operation on uninitialized share partition not allowed."
INVALID_BATCH: Final = "A state batch ends before it begins."

MAX_BATCHES: Final = 10_000
"""Maximum number of state batches in a write, and of a share partition. Kafka's share partitions have at most one for
each of group.share.partition.max.record.locks, which is at most 4,000 there.
"""

MAX_COMBINATIONS: Final = 150_000
"""Maximum number of state batches in a write, times the number of their different states: an upper bound for the work
of combining them, some 200 ms if all overlap.
"""

R = TypeVar("R", PartitionError, PartitionState, PartitionSummary)


def step(state: SharePartitionState, event: Any, now_ms: int) -> Result:
    """Handle one event."""
    return HANDLERS[type(event)](state, event, now_ms)


def refusal(kind: type[R], state: SharePartitionState, error: ErrorCode, message: str | None = None) -> R:
    """Return a result of this kind with an error, by default with Kafka's message for it."""
    return kind(state.topic_id, state.partition, error, message or message_of(error))


# Requests of the group coordinator


def initialize(state: SharePartitionState, event: events.Initialize, now_ms: int) -> Result:
    """Begin anew with a snapshot. The epochs of earlier leaders stay fenced."""
    error = _negative_partition(PartitionError, state)
    if error is None and NO_EPOCH != event.state_epoch < state.highest_state_epoch:
        error = refusal(PartitionError, state, ErrorCode.FENCED_STATE_EPOCH)
    error = error or _no_topic(PartitionError, state, event.topic_exists)
    if error is not None:
        return Result(error)
    is_new = event.start_offset == UNINITIALIZED_START_OFFSET
    snapshot = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch + 1 if state.exists else 0,
        state_epoch=event.state_epoch,
        leader_epoch=0,
        start_offset=event.start_offset,
        delivery_complete_count=UNINITIALIZED_DELIVERY_COMPLETE_COUNT if is_new else 0,
        create_timestamp=now_ms,
        write_timestamp=now_ms,
        state_batches=[],
    )
    return _write(state, snapshot, _done(state))


def delete(state: SharePartitionState, event: events.Delete, now_ms: int) -> Result:
    """Delete the state with a tombstone; deleting a state that does not exist succeeds."""
    error = _negative_partition(PartitionError, state) or _no_topic(PartitionError, state, event.topic_exists)
    if error is not None:
        return Result(error)
    return _remove(state, _done(state)) if state.exists else Result(_done(state))


def read_summary(state: SharePartitionState, event: events.ReadSummary, now_ms: int) -> Result:
    """Read the offsets and epochs. No epoch is compared, and a state that does not exist is no error."""
    error = _negative_partition(PartitionSummary, state) or _no_topic(PartitionSummary, state, event.topic_exists)
    if error is not None:
        return Result(error)
    summary = PartitionSummary(state.topic_id, state.partition)
    if state.exists:
        summary = summary._replace(
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        )
    return Result(summary)


# Requests of the partition's leader


def read(state: SharePartitionState, event: events.Read, now_ms: int) -> Result:
    """Read the state, and fence earlier leaders: another leader epoch is logged before the leader gets the reply."""
    error = _negative_partition(PartitionState, state)
    if error is None and not state.exists:
        error = refusal(PartitionState, state, ErrorCode.INVALID_REQUEST, UNINITIALIZED_READ)
    error = (
        error
        or _fenced_leader(PartitionState, state, event.leader_epoch)
        or _no_topic(PartitionState, state, event.topic_exists)
    )
    if error is not None:
        return Result(error)
    reply = PartitionState(
        state.topic_id,
        state.partition,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=state.batches,
    )
    if event.leader_epoch in (NO_EPOCH, state.highest_leader_epoch):
        return Result(reply)
    record = _change(state, state.start_offset, state.delivery_complete_count, event.leader_epoch, (), now_ms)
    return _write(state, record, reply)


def write(state: SharePartitionState, event: events.Write, now_ms: int) -> Result:
    """Write a change. The leader epoch is compared, but only `read` stores it."""
    error = _negative_partition(PartitionError, state)
    if error is None and not state.exists:
        error = refusal(PartitionError, state, ErrorCode.INVALID_REQUEST, UNINITIALIZED_WRITE)
    error = error or _fenced_leader(PartitionError, state, event.leader_epoch)
    if error is None and NO_EPOCH != event.state_epoch < state.highest_state_epoch:
        error = refusal(PartitionError, state, ErrorCode.FENCED_STATE_EPOCH)
    error = error or _no_topic(PartitionError, state, event.topic_exists) or _invalid(state, event.batches)
    if error is not None:
        return Result(error)
    record = _change(
        state, event.start_offset, event.delivery_complete_count, state.leader_epoch, event.batches, now_ms
    )
    return _write(state, record, _done(state))


# Without a request


def snapshot(state: SharePartitionState, event: events.Snapshot, now_ms: int) -> Result:
    """Repeat the whole state as a snapshot: all earlier records of the share partition are redundant then."""
    return _write(state, _snapshot(state, now_ms, created_ms=state.created_ms), None)


def topic_deleted(state: SharePartitionState, event: events.TopicDeleted, now_ms: int) -> Result:
    """Delete the state with the topic."""
    return _remove(state, None)


def cold(states: Sequence[SharePartitionState], now_ms: int, interval_ms: int) -> list[SharePartitionState]:
    """Return the states of one partition of the log to be repeated as snapshots: those whose last snapshot is older
    than share.coordinator.cold.partition.snapshot.interval.ms; none if all have been repeated, since nothing has
    been written then (Kafka: ShareCoordinatorShard.snapshotColdPartitions).
    """
    if all(each.created_ms != each.written_ms for each in states):
        return []
    return [each for each in states if now_ms - each.written_ms >= interval_ms]


# Records


def _change(
    state: SharePartitionState,
    start_offset: int,
    delivery_complete_count: int,
    leader_epoch: int,
    batches: Sequence[StateBatch],
    now_ms: int,
) -> ShareSnapshotValue | ShareUpdateValue:
    """Return the record of a change: an update, or a snapshot if enough updates precede it."""
    if state.updates < state.settings.updates_per_snapshot:
        return ShareUpdateValue(
            snapshot_epoch=state.snapshot_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            state_batches=_stored(combine(batches, start_offset)),
        )
    value = _snapshot(state, now_ms, created_ms=now_ms)
    if start_offset != UNINITIALIZED_START_OFFSET:
        value.start_offset = start_offset
    value.delivery_complete_count = delivery_complete_count
    value.leader_epoch = leader_epoch
    value.state_batches = _stored(combine((*state.batches, *batches), value.start_offset))
    return value


def _snapshot(state: SharePartitionState, now_ms: int, *, created_ms: int) -> ShareSnapshotValue:
    return ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch + 1,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=created_ms,
        write_timestamp=now_ms,
        state_batches=_stored(state.batches),
    )


def _stored(batches: Sequence[StateBatch]) -> list[share_state.StateBatch]:
    return [share_state.StateBatch(*each) for each in batches]


def _write(state: SharePartitionState, record: ShareSnapshotValue | ShareUpdateValue, reply: Reply | None) -> Result:
    replay(state, record)
    return Result(reply, record)


def _remove(state: SharePartitionState, reply: Reply | None) -> Result:
    replay(state, None)
    return Result(reply, tombstone=True)


def _done(state: SharePartitionState) -> PartitionError:
    return PartitionError(state.topic_id, state.partition)


# Checks: each returns the reply with the error, or None


def _negative_partition(kind: type[R], state: SharePartitionState) -> R | None:
    return refusal(kind, state, ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION) if state.partition < 0 else None


def _no_topic(kind: type[R], state: SharePartitionState, topic_exists: bool) -> R | None:
    return None if topic_exists else refusal(kind, state, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _fenced_leader(kind: type[R], state: SharePartitionState, leader_epoch: int) -> R | None:
    is_fenced = NO_EPOCH != leader_epoch < state.highest_leader_epoch
    return refusal(kind, state, ErrorCode.FENCED_LEADER_EPOCH) if is_fenced else None


def _invalid(state: SharePartitionState, batches: Sequence[StateBatch]) -> PartitionError | None:
    states = {(each.delivery_count, each.delivery_state) for each in batches}
    if len(batches) + len(state.batches) > MAX_BATCHES or len(batches) * len(states) > MAX_COMBINATIONS:
        return refusal(PartitionError, state, ErrorCode.POLICY_VIOLATION)
    if any(not 0 <= each.first_offset <= each.last_offset for each in batches):
        return refusal(PartitionError, state, ErrorCode.INVALID_REQUEST, INVALID_BATCH)
    return None


HANDLERS: dict[type, Callable[[SharePartitionState, Any, int], Result]] = {
    events.Initialize: initialize,
    events.Read: read,
    events.Write: write,
    events.Delete: delete,
    events.ReadSummary: read_summary,
    events.Snapshot: snapshot,
    events.TopicDeleted: topic_deleted,
}

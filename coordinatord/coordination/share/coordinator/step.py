"""The steps of a share partition's stored state: pure functions, called with one event after the other.

The order of the checks is that of ShareCoordinatorShard in Kafka 4.4, so a request with several faults gets the same
error as from Kafka. Only its limits are our own: a write with invalid or too many state batches is rejected.
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
NEGATIVE_LEADER_EPOCH: Final = "The leader epoch cannot be a negative number."
NEGATIVE_STATE_EPOCH: Final = "The state epoch cannot be a negative number."
UNINITIALIZED_WRITE: Final = "Write operation on uninitialized share partition not allowed."
UNINITIALIZED_READ: Final = "Read operation on uninitialized share partition not allowed."
INVALID_BATCH: Final = "A state batch ends before it begins."

MAX_BATCHES: Final = 10_000
"""Maximum number of state batches in a write, and of a share partition. Kafka's share partitions have at most one for
each of group.share.partition.max.record.locks, which is at most 4,000 there.
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
    error = (
        _negative(PartitionError, state, state_epoch=event.state_epoch)
        or _fenced_state(state, event.state_epoch)
        or _no_topic(PartitionError, state, event.topic_exists)
    )
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
    error = _negative(PartitionError, state) or _no_topic(PartitionError, state, event.topic_exists)
    if error is not None:
        return Result(error)
    return _remove(state, _done(state)) if state.exists else Result(_done(state))


def read_summary(state: SharePartitionState, event: events.ReadSummary, now_ms: int) -> Result:
    """Read the offsets and epochs. No epoch is compared, and a state that does not exist is no error."""
    error = _negative(PartitionSummary, state) or _no_topic(PartitionSummary, state, event.topic_exists)
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
    error = (
        _negative(PartitionState, state, event.leader_epoch)
        or _uninitialized(PartitionState, state, UNINITIALIZED_READ)
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
    if event.leader_epoch == state.highest_leader_epoch:
        return Result(reply)
    record = _change(state, state.start_offset, state.delivery_complete_count, event.leader_epoch, (), now_ms)
    return _write(state, record, reply)


def write(state: SharePartitionState, event: events.Write, now_ms: int) -> Result:
    """Write a change. The leader epoch is compared, but only `read` stores it."""
    error = (
        _negative(PartitionError, state, event.leader_epoch, event.state_epoch)
        or _uninitialized(PartitionError, state, UNINITIALIZED_WRITE)
        or _fenced_leader(PartitionError, state, event.leader_epoch)
        or _fenced_state(state, event.state_epoch)
        or _no_topic(PartitionError, state, event.topic_exists)
        or _invalid(state, event.batches)
    )
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
    """Return the record of a change: an update, or a snapshot if enough updates precede it. A write that was overtaken
    by another moves neither the start offset nor the delivery complete count back.
    """
    if start_offset < state.start_offset:
        delivery_complete_count = state.delivery_complete_count
    elif start_offset == state.start_offset:
        delivery_complete_count = max(delivery_complete_count, state.delivery_complete_count)
    start_offset = max(start_offset, state.start_offset)
    if state.updates < state.settings.updates_per_snapshot:
        return ShareUpdateValue(
            snapshot_epoch=state.snapshot_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            state_batches=_stored(combine(batches, start_offset)),
        )
    value = _snapshot(state, now_ms, created_ms=now_ms)
    value.start_offset = start_offset
    value.delivery_complete_count = delivery_complete_count
    value.leader_epoch = leader_epoch
    value.state_batches = _stored(combine((*state.batches, *batches), start_offset))
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


def _negative(kind: type[R], state: SharePartitionState, leader_epoch: int = 0, state_epoch: int = 0) -> R | None:
    for number, message in (
        (state.partition, NEGATIVE_PARTITION),
        (leader_epoch, NEGATIVE_LEADER_EPOCH),
        (state_epoch, NEGATIVE_STATE_EPOCH),
    ):
        if number < 0:
            return refusal(kind, state, ErrorCode.INVALID_REQUEST, message)
    return None


def _uninitialized(kind: type[R], state: SharePartitionState, message: str) -> R | None:
    return None if state.exists else refusal(kind, state, ErrorCode.INVALID_REQUEST, message)


def _no_topic(kind: type[R], state: SharePartitionState, topic_exists: bool) -> R | None:
    return None if topic_exists else refusal(kind, state, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _fenced_leader(kind: type[R], state: SharePartitionState, leader_epoch: int) -> R | None:
    is_fenced = leader_epoch < state.highest_leader_epoch
    return refusal(kind, state, ErrorCode.FENCED_LEADER_EPOCH) if is_fenced else None


def _fenced_state(state: SharePartitionState, state_epoch: int) -> PartitionError | None:
    is_fenced = state.exists and state_epoch < state.state_epoch
    return refusal(PartitionError, state, ErrorCode.FENCED_STATE_EPOCH) if is_fenced else None


def _invalid(state: SharePartitionState, batches: Sequence[StateBatch]) -> PartitionError | None:
    if len(batches) + len(state.batches) > MAX_BATCHES:
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

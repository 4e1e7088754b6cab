"""All share partitions whose state this node stores, on the runtime that all coordinators share (runtime/actors.py).

The actor of a share partition has Kafka's coordinator key as its id, `group:topic id:partition`; its hash selects the
partition of `__share_group_state`, a topic that the first share group creates.

The topic is not compacted: a snapshot makes the earlier records of its share partition redundant, and what precedes
every share partition's last snapshot is deleted (`prune`). A share partition without writes would prevent that: its
snapshot is repeated from time to time (`snapshot_cold`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from coordinatord.base.observe.logger import get_logger
from coordinatord.broker.log.checkpoint import uuid_bytes, uuid_text
from coordinatord.broker.log.errors import LogFailed
from coordinatord.broker.log.loader import ReplayedBatch
from coordinatord.coordination.runtime.actors import Actor, Actors
from coordinatord.coordination.runtime.log import Log
from coordinatord.coordination.runtime.partitions import Partitions
from coordinatord.coordination.runtime.runtime import Runtime
from coordinatord.coordination.share.coordinator import events
from coordinatord.coordination.share.coordinator.replay import Value, replay
from coordinatord.coordination.share.coordinator.result import Result
from coordinatord.coordination.share.coordinator.state import ShareCoordinatorSettings, SharePartitionState
from coordinatord.coordination.share.coordinator.step import cold, step
from kafka_wire.errors import DecodeError, ErrorCode
from kafka_wire.records.batch import KeyValues
from kafka_wire.records.share_state import (
    SNAPSHOT_TYPE,
    UPDATE_TYPE,
    ShareSnapshotValue,
    ShareStateKey,
    ShareUpdateValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

log = get_logger("coordinatord.coordination.share")

MAX_STATE_BATCHES: Final = 1_000_000
"""Maximum number of state batches of all share partitions, each of which takes some 200 bytes."""


def coordinator_key(group_id: str, topic_id: bytes, partition: int) -> str:
    """Return the key of a share partition (Kafka: SharePartitionKey.asCoordinatorKey)."""
    return f"{group_id}:{uuid_text(topic_id)}:{partition}"


def parse_key(key: str) -> tuple[str, bytes, int]:
    """Return group id, topic id and partition of a client's coordinator key; a group id may contain colons. Raises
    ValueError if the key is invalid.
    """
    group_id, topic_id, partition = key.rsplit(":", 2)
    if not group_id.strip():
        raise ValueError("GroupId must not be empty")
    return group_id, uuid_bytes(topic_id), int(partition)


class SharePartitionActor(Actor["ShareCoordinator"]):
    """A share partition's stored state with its partition of the log."""

    __slots__ = ("_key", "batch_count", "snapshot_offset", "stored")

    def __init__(self, coordinator: ShareCoordinator, key: str, partition: int, epoch: int) -> None:
        group_id, topic_id, index = key.rsplit(":", 2)
        self.stored = SharePartitionState(group_id, uuid_bytes(topic_id), int(index), coordinator.settings)
        super().__init__(coordinator, self.stored, partition, epoch)
        self._key = key
        #: offset of the last snapshot: the records before it are redundant
        self.snapshot_offset = 0
        #: the number of state batches that the coordinator counts for this actor
        self.batch_count = 0

    @property
    def id(self) -> str:
        """The coordinator key."""
        return self._key

    def apply(self, result: Result, now_ms: int) -> None:
        """Append the record of a step."""
        record = result.record
        if record is None and not result.tombstone:
            return
        self.note(record, self.coordinator.log.end_offset(self.partition))
        self.append(KeyValues([self._encoded(record)]), now_ms)
        self.coordinator.written_epoch = self.epoch

    def note(self, record: Value, offset: int) -> None:
        """Note that `record`, which has been replayed, has this offset in the log."""
        coordinator = self.coordinator
        if record is None:
            coordinator.tombstones[self.partition] = offset
        elif isinstance(record, ShareSnapshotValue):
            self.snapshot_offset = offset
        coordinator.batch_count += len(self.stored.batches) - self.batch_count
        self.batch_count = len(self.stored.batches)

    def _encoded(self, record: Value) -> tuple[bytes, bytes | None]:
        stored = self.stored
        record_type = UPDATE_TYPE if isinstance(record, ShareUpdateValue) else SNAPSHOT_TYPE
        key = encode_key(ShareStateKey(record_type, stored.group_id, stored.topic_id, stored.partition))
        return key, None if record is None else encode_value(record)


class ShareCoordinator(Actors[SharePartitionActor]):
    """Actors by coordinator key."""

    def __init__(
        self,
        runtime: Runtime,
        log: Log,
        partitions: Partitions,
        *,
        settings: ShareCoordinatorSettings,
        max_share_partitions: int,
    ) -> None:
        super().__init__(runtime, log, partitions, max_share_partitions, step)
        self.settings = settings
        #: the last flush epoch of a record of any share partition
        self.written_epoch = 0
        #: number of state batches of all share partitions
        self.batch_count = 0
        #: offset of the last tombstone, by partition of the log
        self.tombstones: dict[int, int] = {}
        #: offset up to which a partition of the log was pruned
        self.pruned: dict[int, int] = {}
        self._missed_deletions: set[bytes] = set()

    # Requests

    def actor_of(self, key: str, event: events.Event) -> SharePartitionActor | ErrorCode:
        """Return the actor for a request's event; the error if this node cannot serve it now, or has no room for it.
        Only an initialisation creates a share partition.
        """
        if isinstance(event, events.Initialize):
            return self.actor_for(key)
        if isinstance(event, events.Write) and self.batch_count + len(event.batches) > MAX_STATE_BATCHES:
            self.log_limit()
            return ErrorCode.POLICY_VIOLATION
        actor = self.find(key)
        return self.new_actor(key, self.partitions.of(key)) if actor is None else actor

    # Defined by Actors

    def new_actor(self, id_: str, partition: int) -> SharePartitionActor:
        """Create the actor of a share partition."""
        return SharePartitionActor(self, id_, partition, self.forgotten_epoch)

    def log_limit(self) -> None:
        """Write one log line for each rejected share partition or write."""
        log.warning(
            "no room for another share partition or state batch",
            share_partitions=len(self.actors),
            state_batches=self.batch_count,
            limit=self.reached_limit("max.share.partitions"),
        )

    def drain(self) -> None:
        """Stop serving. No request is parked at an actor."""
        self.draining = True

    def replay(self, partition: int, batches: Iterable[ReplayedBatch]) -> Iterator[int]:
        """Restore share partitions from a partition's records, but for those of topics that were deleted meanwhile."""
        loaded: dict[str, SharePartitionActor] = {}
        for batch in batches:
            if batch.control is None:
                for offset, _, key, value in batch.records:
                    if key is not None:
                        self._replay_one(partition, offset, key, value, loaded)
            yield len(batch.records)
        for actor in loaded.values():
            self.keep(actor)
            if actor.stored.topic_id in self._missed_deletions:
                actor.tell(events.TopicDeleted())

    def _replay_one(
        self,
        partition: int,
        offset: int,
        key_bytes: bytes,
        value_bytes: bytes | None,
        loaded: dict[str, SharePartitionActor],
    ) -> None:
        try:
            decoded = decode_key(key_bytes)
            key = coordinator_key(decoded.group_id, decoded.topic_id, decoded.partition)
            value = None if value_bytes is None else decode_value(decoded.record_type, value_bytes)
            actor = loaded.get(key) or self.new_actor(key, partition)
        except (DecodeError, ValueError) as error:
            if self.count_unread(type(error).__name__):
                log.warning(
                    "unsupported records of the share groups' log are kept, not loaded",
                    partition=partition,
                    what=str(error),
                )
            return
        replay(actor.stored, value)
        actor.note(value, offset)
        if value is None:
            loaded.pop(key, None)
        else:
            loaded[key] = actor

    # Events that no request causes

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        """Delete the state of a deleted topic; what is being loaded, when it is loaded."""
        if self.is_loading:
            self._missed_deletions.add(topic_id)
        for actor in list(self.actors.values()):
            if actor.stored.topic_id == topic_id:
                actor.tell(events.TopicDeleted())

    def snapshot_cold(self, interval_ms: int) -> Iterator[None]:
        """Repeat snapshots older than `interval_ms` milliseconds; see `cold`. One share partition per iteration."""
        by_partition: dict[int, list[SharePartitionActor]] = {}
        for actor in self.actors.values():
            by_partition.setdefault(actor.partition, []).append(actor)
        now_ms = self.now_ms()
        for actors in by_partition.values():
            by_state = {id(actor.stored): actor for actor in actors}
            for state in cold([actor.stored for actor in actors], now_ms, interval_ms):
                actor = by_state[id(state)]
                if self.actors.get(actor.id) is actor and not self.draining:  # since the last yield it may have ended
                    actor.tell(events.Snapshot())
                yield

    def prune(self) -> None:
        """Delete the redundant records of each partition of the log, once all records so far are durable."""
        redundant = {
            partition: offset
            for partition, offset in self.redundant_offsets().items()
            if offset > self.pruned.get(partition, 0) and self.availability(partition) is ErrorCode.NONE
        }
        if redundant:
            self.gate.hold(self.written_epoch, lambda: self._delete_before(redundant))

    def redundant_offsets(self) -> dict[int, int]:
        """Return for each partition of the log the offset of the first record that is needed: the earliest of the last
        snapshots, or the last tombstone (Kafka: ShareCoordinatorOffsetsManager).
        """
        earliest: dict[int, int] = {}
        for actor in self.actors.values():
            offset = actor.snapshot_offset
            earliest[actor.partition] = min(offset, earliest.get(actor.partition, offset))
        return {**self.tombstones, **earliest}

    def _delete_before(self, offsets: dict[int, int]) -> None:
        for partition, offset in offsets.items():
            try:
                self.log.delete_before(partition, offset)
            except (OSError, LogFailed) as error:
                log.warning("redundant records of the share groups' log are kept", error=str(error))
                return
            self.pruned[partition] = offset

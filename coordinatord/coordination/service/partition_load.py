"""Restoration of groups from one partition of `__consumer_offsets`.

The result equals that of `replay` record by record: the last record of a key wins, a tombstone deletes, and records of
a transaction are pending until its marker. The common case has a fast path:

    batch → gather: raw key -> newest raw value ("window") → every 16,000 keys or 4 MiB: decode the window, apply it

A window holds offsets and group metadata outside of transactions. Their order does not matter: keys are independent,
and any of them makes a group exist. Where the order matters, the window is applied first: before a transaction's batch,
a marker, the tombstone of an offset in the window, and any tombstone of another key, since the offsets before such a
tombstone decide whether the group still exists after it. If a value in a window cannot be decoded, an older value of
the same key may be valid: then the window is replayed record by record.

`run` yields about every thousand records; loading.py continues it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, Protocol

from coordinatord.base.budget import SLICE_COSTLY_ITEMS, SLICE_ITEMS
from coordinatord.base.observe.logger import get_logger
from coordinatord.broker.log.loader import ReplayedBatch
from coordinatord.coordination.group.classic.step import restore
from coordinatord.coordination.group.events import TopicDeleted
from coordinatord.coordination.group.replay import NO_PRODUCER_ID, replay, replay_marker, replay_offset
from coordinatord.coordination.group.result import Dropped, Result
from coordinatord.coordination.group.state import Group
from kafka_wire.errors import DecodeError, TrailingBytesError
from kafka_wire.records.control import ControlType
from kafka_wire.records.keys import UnknownRecordError, decode_key, decode_value, group_of
from kafka_wire.records.newest import Newest, Odd, gather
from kafka_wire.records.offset_values import decode_offset_value
from kafka_wire.records.offsets import OffsetCommitKey, OffsetCommitValue

log = get_logger("coordinatord.coordination.service")

WINDOW_KEYS: Final = 16_384
WINDOW_BYTES: Final = 4 * 1024 * 1024

_unpack_partition: Final = struct.Struct(">i").unpack_from
_LEGACY_OFFSET: Final = b"\0\0"
_GROUP_METADATA: Final = b"\0\2"


class LoadedGroup(Protocol):
    """An actor of the group coordinator."""

    group: Group

    def apply(self, result: Result, now_ms: int) -> None: ...


class Groups(Protocol):
    """The group coordinator, as a load uses it. `names` and `topic_ids`
    keep one copy of values shared by many offsets.
    """

    pending: dict[tuple[int, int], set[str]]
    names: dict[str, str]
    topic_ids: dict[bytes, bytes]
    missed_deletions: list[TopicDeleted]
    now_ms: Callable[[], int]

    def new_actor(self, id_: str, partition: int) -> LoadedGroup: ...
    def keep(self, actor: Any) -> None: ...
    def count_unread(self, kind: str) -> bool: ...
    def apply_deletion(self, actor: Any, event: TopicDeleted) -> None: ...


class PartitionLoad:
    """One load of one partition; at its end the coordinator has the partition's groups."""

    def __init__(self, coordinator: Groups, partition: int) -> None:
        self.coordinator = coordinator
        self.partition = partition
        self.actors: dict[str, LoadedGroup] = {}
        self._newest: Newest = {}
        #: the origin of `newest`: (batch, its first record, the one after the last)
        self._window: list[tuple[ReplayedBatch, int, int]] = []
        self._window_bytes = 0
        #: true while a transaction is open: a tombstone also deletes its pending offsets, so it must not be overwritten
        self._is_open = False
        #: a key without its partition -> the group's offsets of that topic; groups without open transactions
        self._places: dict[bytes, dict[int, OffsetCommitValue]] = {}
        #: the two decoded parts of such a key: up to the end of the group id, and from there to the end of the topic
        self._groups: dict[bytes, Group] = {}
        self._topics: dict[bytes, str] = {}

    def run(self, batches: Iterable[ReplayedBatch]) -> Iterator[int]:
        """Load the groups. Yields the number of records read since the last yield."""
        read = 0
        newest = self._newest
        for batch in batches:
            header = batch.header
            if header.producer_id != NO_PRODUCER_ID or batch.control is not None:
                yield from self._apply()
                self._places.clear()
                yield from self._transactional(batch)
                self._is_open = any(partition == self.partition for partition, _ in self.coordinator.pending)
                continue
            done, count = 0, header.record_count
            section, at, end = batch.span()
            if count <= 0:
                _ = batch.records  # the cleaner left an empty batch, or the batch is damaged
            while done < count:
                try:
                    stop, taken, odd = gather(
                        section, at, end, min(SLICE_ITEMS, count - done), newest, tombstones_are_odd=self._is_open
                    )
                    if done + taken == count and stop != end:
                        raise TrailingBytesError(f"{end - stop} bytes follow the last of {count} records")
                except DecodeError as error:
                    raise batch.damaged(error) from None
                in_window = odd is None or self._take(odd)
                self._window.append((batch, done, done + taken - (not in_window)))
                self._window_bytes += stop - at
                at = stop
                done += taken
                read += taken
                if odd is not None and not in_window:
                    yield from self._odd(odd)
                if read >= SLICE_ITEMS:
                    yield read
                    read = 0
            if len(newest) > WINDOW_KEYS or self._window_bytes > WINDOW_BYTES:
                yield from self._apply()
        yield read
        yield from self._apply()
        self._places.clear()
        self._groups.clear()
        self._topics.clear()
        yield from self._serve()

    # Windows

    def _take(self, odd: Odd) -> bool:
        """Add a record that is not a plain offset to the window if its order
        does not matter; return whether it was added.
        """
        key, value = odd
        if key is None or value is None or key[:2] != _GROUP_METADATA:
            return False
        self._newest[key] = value
        return True

    def _odd(self, odd: Odd) -> Iterator[int]:
        """Apply any other record that is not a plain offset: see kafka_wire.records.newest."""
        key, value = odd
        if key is None:
            return
        if value is None or key[:2] == _LEGACY_OFFSET:
            yield from self._apply()
        self._replay(key, value, NO_PRODUCER_ID)

    def _apply(self) -> Iterator[int]:
        """Decode and apply the window, and start a new one."""
        if self._newest:
            items = iter(self._newest.items())
            left = len(self._newest)
            try:
                while left > 0:
                    self._put(islice(items, SLICE_ITEMS))
                    left -= SLICE_ITEMS
                    yield 0
            except DecodeError:
                yield from self._apply_in_order()
            self._newest.clear()
        self._window.clear()
        self._window_bytes = 0

    def _put(self, items: Iterable[tuple[bytes, bytes | None]]) -> None:
        place_of = self._places.get
        topic_ids = self.coordinator.topic_ids
        for key, value in items:
            place = place_of(key[:-4])
            if place is None or value is None:
                self._put_first(key, value)
            else:
                place[_unpack_partition(key, -4)[0]] = decode_offset_value(value, topic_ids)

    def _put_first(self, key_bytes: bytes, value_bytes: bytes | None) -> None:
        """Apply a record whose place is not known yet. Raises DecodeError if it cannot be decoded."""
        split = 4 + int.from_bytes(key_bytes[2:4], "big")
        known = self._groups.get(key_bytes[:split])
        topic = self._topics.get(key_bytes[split:-4])
        if known is not None and topic is not None and value_bytes is not None and known.pending is None:
            value = decode_offset_value(value_bytes, self.coordinator.topic_ids)
            known.exists = True
            place = known.offsets.get(topic)
            if place is None:
                place = known.offsets[topic] = {}
            place[_unpack_partition(key_bytes, -4)[0]] = value
            self._places[key_bytes[:-4]] = place
            return
        self._put_unknown(key_bytes, value_bytes, split)

    def _put_unknown(self, key_bytes: bytes, value_bytes: bytes | None, split: int) -> None:
        key = decode_key(key_bytes)
        group = self._actor(group_of(key)).group
        if type(key) is not OffsetCommitKey:
            replay(group, key, None if value_bytes is None else decode_value(key, value_bytes))
            return
        coordinator = self.coordinator
        key.topic = topic = coordinator.names.setdefault(key.topic, key.topic)
        self._groups[key_bytes[:split]] = group
        self._topics[key_bytes[split:-4]] = topic
        value = None if value_bytes is None else decode_offset_value(value_bytes, coordinator.topic_ids)
        replay_offset(group, key, value)
        if value is not None and group.pending is None:
            self._places[key_bytes[:-4]] = group.offsets[topic]
        elif value is None:
            self._places.pop(key_bytes[:-4], None)  # it may have been the topic's last offset

    def _apply_in_order(self) -> Iterator[int]:
        """Replay the window record by record."""
        self._places.clear()
        for batch, start, stop in self._window:
            for _, _, key, value in batch.records[start:stop]:
                if key is not None:
                    self._replay(key, value, NO_PRODUCER_ID)
            yield 0

    # Record by record

    def _replay(self, key_bytes: bytes, value_bytes: bytes | None, producer_id: int) -> None:
        """Replay one record. An unreadable record is counted and stays in the log."""
        coordinator = self.coordinator
        try:
            key = decode_key(key_bytes)
            value = None if value_bytes is None else self._value(key, value_bytes)
        except DecodeError as error:
            what = str(error) if isinstance(error, UnknownRecordError) else type(error).__name__
            if coordinator.count_unread(what):
                _log_unread(self.partition, error)
            return
        group = self._actor(group_of(key)).group
        replay(group, key, value, producer_id)
        if producer_id != NO_PRODUCER_ID and group.pending is not None:
            coordinator.pending.setdefault((self.partition, producer_id), set()).add(key.group)
        if value is None:
            self._places.pop(key_bytes[:-4], None)

    def _value(self, key: Any, data: bytes) -> Any:
        coordinator = self.coordinator
        if type(key) is not OffsetCommitKey:
            return decode_value(key, data)
        key.topic = coordinator.names.setdefault(key.topic, key.topic)
        return decode_offset_value(data, coordinator.topic_ids)

    def _transactional(self, batch: ReplayedBatch) -> Iterator[int]:
        """Replay a transaction's offsets, or the marker that commits or aborts them."""
        producer_id = batch.header.producer_id
        records = batch.records
        if batch.control is None:
            for start in range(0, len(records), SLICE_ITEMS):
                for _, _, key, value in records[start : start + SLICE_ITEMS]:
                    if key is not None:
                        self._replay(key, value, producer_id)
                yield min(SLICE_ITEMS, len(records) - start)
            return
        if batch.control in (ControlType.COMMIT, ControlType.ABORT):
            for group_id in self.coordinator.pending.pop((self.partition, producer_id), ()):
                group = self.actors[group_id].group
                replay_marker(group, producer_id, committed=batch.control is ControlType.COMMIT)
        yield len(records)

    def _actor(self, group_id: str) -> LoadedGroup:
        actor = self.actors.get(group_id)
        if actor is None:
            actor = self.actors[group_id] = self.coordinator.new_actor(group_id, self.partition)
        return actor

    # The end

    def _serve(self) -> Iterator[int]:
        """Prepare the groups and register them one by one: a registered group is served."""
        coordinator = self.coordinator
        now_ms = coordinator.now_ms()
        left_out = 0
        for number, actor in enumerate(self.actors.values(), 1):
            if actor.group.exists:
                coordinator.keep(actor)
                result = restore(actor.group, now_ms)
                left_out += sum(isinstance(change, Dropped) for change in result.changes)
                actor.apply(result, now_ms)
                for event in coordinator.missed_deletions:
                    coordinator.apply_deletion(actor, event)
            if number % SLICE_COSTLY_ITEMS == 0:
                yield 0
                now_ms = coordinator.now_ms()
        if left_out:
            log.warning("members of loaded groups left out", partition=self.partition, members=left_out)


def _log_unread(partition: int, error: DecodeError) -> None:
    """Write one log line per kind of record, with Kafka's name for it."""
    what = str(error)
    if isinstance(error, UnknownRecordError):
        # This imports the declarations of all kinds of groups, so it is done only for logs with such records.
        from kafka_wire.records.record_types import RECORD_TYPES

        if error.record_type in RECORD_TYPES:
            what += f" ({RECORD_TYPES[error.record_type][0].__name__.removesuffix('Key')})"
    log.warning("unsupported records of the offsets log are kept, not loaded", partition=partition, what=what)

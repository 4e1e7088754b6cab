"""Loading a partition has the same result as replaying its records one by one, for any records and any batches."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pytest

from coordinatord.base.observe.logger import captured
from coordinatord.base.observe.metrics import Metrics
from coordinatord.broker.log import LogConfig, LogDamaged, PartitionLog
from coordinatord.broker.log import replay as replay_log
from coordinatord.broker.log.loader import ReplayedBatch
from coordinatord.broker.log.simulated_disk import SimulatedDisk
from coordinatord.coordination.group.classic.step import restore
from coordinatord.coordination.group.replay import replay, replay_marker
from coordinatord.coordination.group.state import Group, GroupSettings
from coordinatord.coordination.runtime.partitions import ACTIVE, LOADING, Partitions
from coordinatord.coordination.runtime.runtime import Runtime
from coordinatord.coordination.service import partition_load
from coordinatord.coordination.service.groups import Coordinator
from kafka_wire.codecs import encoder
from kafka_wire.errors import DecodeError, ErrorCode
from kafka_wire.records.batch import TRANSACTIONAL, BatchBuilder, build_batch, build_control_batch, write_crc
from kafka_wire.records.compression import Compression
from kafka_wire.records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
)
from kafka_wire.records.control import ControlType
from kafka_wire.records.keys import UnknownRecordError, decode_key, decode_value, encode_key, encode_value, group_of
from kafka_wire.records.offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tests.broker.log.world import World
from tests.coordination.transactions.world import NoTimers
from tests.support.shell import Gate

GROUPS = ("a", "b", "c")
NOW_MS = 1_000_000


class EmptyLog:
    """A log without records that refuses appends."""

    topic = "__consumer_offsets"
    gate = Gate()

    def append(self, *_arguments: Any) -> int:
        raise AssertionError("loading writes nothing")


def coordinator(log: Any = None, partitions: int = 1) -> Coordinator:
    return Coordinator(
        Runtime(Gate(), NoTimers(), lambda: NOW_MS, Metrics()),
        log or EmptyLog(),
        Partitions(partitions),
        group_settings=GroupSettings(),
        max_groups=100,
        new_id=lambda: "id",
    )


MEMBER = ConsumerGroupCurrentMemberAssignmentKey("a", "m")


class Plain:
    """The meaning of a log: one record after the other, decoded by the generated decoders."""

    def __init__(self, batches: Iterable[ReplayedBatch]) -> None:
        self.groups: dict[str, Group] = {}
        self.pending: dict[tuple[int, int], set[str]] = {}
        self.unread: Counter[str] = Counter()
        for batch in batches:
            producer_id = batch.header.producer_id
            if batch.control is not None:
                for group_id in self.pending.pop((0, producer_id), ()):
                    committed = batch.control is ControlType.COMMIT
                    replay_marker(self.groups[group_id], producer_id, committed=committed)
                continue
            for _, _, key, value in batch.records:
                if key is not None:
                    self._one(key, value, producer_id)

    def _one(self, key_bytes: bytes, value_bytes: bytes | None, producer_id: int) -> None:
        try:
            key = decode_key(key_bytes)
            value = None if value_bytes is None else decode_value(key, value_bytes)
        except DecodeError as error:
            self.unread[str(error) if isinstance(error, UnknownRecordError) else type(error).__name__] += 1
            return
        group_id = group_of(key)
        group = self.groups.setdefault(group_id, Group(group_id, GroupSettings(), lambda: "id"))
        replay(group, key, value, producer_id)
        if producer_id >= 0 and group.pending is not None:
            self.pending.setdefault((0, producer_id), set()).add(group_id)


def durable(group: Group) -> tuple[Any, ...]:
    pending = None if group.pending is None else (group.pending.by_producer, group.pending.writers)
    consumer = group.consumer
    epochs = None if consumer is None else (consumer.epoch, consumer.members, consumer.target, consumer.owners)
    members = [
        (each.member_id, each.group_instance_id, each.client_id, each.client_host, each.rebalance_timeout_ms,
         each.session_timeout_ms, each.protocols, each.assignment)
        for each in group.members.values()
    ]  # fmt: skip
    return group.exists, group.offsets, group.metadata, members, pending, epochs


class RandomLog:
    """A log of all kinds of records, in random batches."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world = World(SimulatedDisk(seed), config=LogConfig(segment_bytes=self.chance.choice([2_000, 1 << 20])))
        self.log = self.world.log("__consumer_offsets")
        self.odd = self.chance.choice([0.0, 0.02, 0.3])
        for _ in range(self.chance.randint(1, 60)):
            self._batch()
        self.world.settle()

    def _batch(self) -> None:
        chance = self.chance
        records = [self._record() for _ in range(chance.choice([1, 2, 5, 40]))]
        dice = chance.random()
        if dice < 0.7:
            compression = chance.choice([Compression.NONE, Compression.NONE, Compression.LZ4, Compression.ZSTD])
            batch = build_batch(records, NOW_MS, compression=compression)
        elif dice < 0.85:
            offsets = [(key, value) for key, value in records if key is not None and key[:2] == b"\0\1"]
            builder = BatchBuilder()
            builder.extend(offsets or [(self._offset_key(), self._offset_value())], NOW_MS)
            batch = builder.finish(attributes=TRANSACTIONAL, producer_id=chance.randint(1, 2), producer_epoch=0)
        else:
            kind = chance.choice([ControlType.COMMIT, ControlType.ABORT])
            batch = build_control_batch(kind, chance.randint(1, 2), 0, 0, NOW_MS)
        self.world.writer.append(self.log, batch)

    def _record(self) -> tuple[bytes | None, bytes | None]:
        chance = self.chance
        if chance.random() < self.odd:
            return self._odd_record()
        dice = chance.random()
        if dice < 0.7:
            return self._offset_key(), self._offset_value()
        if dice < 0.85:
            return self._offset_key(), None
        if dice < 0.93:
            key, value = chance.choice(self._of_consumer_groups(chance.choice(GROUPS)))
            return encode_key(key), chance.choice([None, encode_value(value)])
        key = encode_key(GroupMetadataKey(chance.choice(GROUPS)))
        if dice < 0.96:
            return key, None
        members = [MemberMetadata("m", None, "c", "/h", 1, 2, b"", b"") for _ in range(chance.randint(0, 1))]
        return key, encode_value(GroupMetadataValue("consumer", chance.randint(0, 9), "range", "m", 5, members))

    def _of_consumer_groups(self, group_id: str) -> list[tuple[Any, Any]]:
        """A record of each type of the consumer protocol."""
        epoch, topic_id = self.chance.randint(1, 9), b"i" * 16
        return [
            (ConsumerGroupMetadataKey(group_id), ConsumerGroupMetadataValue(epoch)),
            (ConsumerGroupPartitionMetadataKey(group_id), ConsumerGroupPartitionMetadataValue([])),
            (
                ConsumerGroupMemberMetadataKey(group_id, "m"),
                ConsumerGroupMemberMetadataValue(client_id="c", client_host="/h", subscribed_topic_names=["t"]),
            ),
            (ConsumerGroupTargetAssignmentMetadataKey(group_id), ConsumerGroupTargetAssignmentMetadataValue(epoch)),
            (
                ConsumerGroupTargetAssignmentMemberKey(group_id, "m"),
                ConsumerGroupTargetAssignmentMemberValue([TopicPartition(topic_id, [0])]),
            ),
            (
                ConsumerGroupCurrentMemberAssignmentKey(group_id, "m"),
                ConsumerGroupCurrentMemberAssignmentValue(epoch),
            ),
            (ConsumerGroupRegularExpressionKey(group_id, "t.*"), ConsumerGroupRegularExpressionValue(["t"], epoch, 7)),
        ]

    def _offset_key(self) -> bytes:
        chance = self.chance
        return encode_key(OffsetCommitKey(chance.choice(GROUPS), chance.choice("tu"), chance.randint(0, 2)))

    def _offset_value(self) -> bytes:
        chance = self.chance
        metadata = chance.choice(["", "", "m", "x" * 200, "ü"])
        value = OffsetCommitValue(chance.randint(0, 99), 3, metadata, 7, -1, chance.choice([bytes(16), b"i" * 16]))
        version = chance.choice([0, 1, 2, 3, 4, 4, 4, 4])
        out = bytearray((0, version))
        encoder(OffsetCommitValue, version)(value, out)
        return bytes(out)

    def _odd_record(self) -> tuple[bytes | None, bytes | None]:
        key, value, chance = self._offset_key(), self._offset_value(), self.chance
        return chance.choice(
            [
                (None, value),
                (b"", value),
                (b"\0\x0b\0\1a", value),  # a share group's metadata
                (b"\0\x0b\0\1a", None),
                (
                    encode_key(ConsumerGroupMetadataKey("a")),
                    encode_value(ConsumerGroupMetadataValue(chance.randint(1, 9))),
                ),
                (encode_key(ConsumerGroupMetadataKey("a")), None),
                (encode_key(MEMBER), encode_value(ConsumerGroupCurrentMemberAssignmentValue(chance.randint(1, 9)))),
                (encode_key(MEMBER), None),
                (encode_key(ConsumerGroupMetadataKey("a")), value[:2]),
                (b"\0\x10" + key[2:], value),
                (b"\0\0" + key[2:], value),  # before 0.9.0.1
                (b"\0\0" + key[2:], None),
                (key + b"!", value),
                (key[:-1], value),
                (key, b"\0\5" + value[2:]),  # of a future version
                (key, value[:-1]),
                (key, b""),
                (encode_key(GroupMetadataKey("a")), b"\0\3rubbish"),
            ]
        )


def loaded(log: PartitionLog, batches: int | None = None) -> tuple[Coordinator, partition_load.PartitionLoad]:
    """Load the groups of `log`, or of its first `batches`."""
    into = coordinator()
    load = partition_load.PartitionLoad(into, 0)
    for _ in load.run(islice(replay_log(log), batches)):
        pass
    into.loaded(0)
    return into, load


@pytest.mark.parametrize("window", [1, 7, 16_384])
def test_a_random_log_is_loaded_as_it_reads(monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(partition_load, "WINDOW_KEYS", window)
    monkeypatch.setattr(partition_load, "SLICE_ITEMS", 3)
    odd = groups = pending = 0
    for seed in range(50):
        log = RandomLog(seed).log
        plain = Plain(replay_log(log))
        into, load = loaded(log)
        found = {group_id: durable(actor.group) for group_id, actor in load.actors.items()}
        for group in plain.groups.values():
            if group.exists:  # as a load does
                restore(group, 0)
        expected = {group_id: durable(group) for group_id, group in plain.groups.items()}
        # A group that does not `exist` counts as missing.
        assert _existing(found) == _existing(expected), f"seed {seed}"
        assert set(into.actors) == set(_existing(expected)), f"seed {seed}"
        assert into.pending == plain.pending, f"seed {seed}"
        # Records overwritten within a window are not decoded; record types are never overwritten.
        assert all(into.unread[what] <= plain.unread[what] for what in into.unread), f"seed {seed}"
        assert _types(into.unread) == _types(plain.unread), f"seed {seed}"
        assert into.partitions.states == [ACTIVE]
        odd += sum(plain.unread.values())
        groups += len(into.actors)
        pending += len(plain.pending)
    assert odd > 50
    assert groups > 80
    assert pending > 10


def test_every_prefix_of_a_random_log_is_loaded_as_it_reads() -> None:
    """Where the first difference is, no later record hides it."""
    compared = 0
    for seed in range(20, 35):
        log = RandomLog(seed).log
        for count in range(1, len(list(replay_log(log))) + 1):
            plain = Plain(islice(replay_log(log), count))
            _, load = loaded(log, count)
            found = {group_id: durable(actor.group) for group_id, actor in load.actors.items()}
            for group in plain.groups.values():
                if group.exists:
                    restore(group, 0)
            expected = {group_id: durable(group) for group_id, group in plain.groups.items()}
            assert _existing(found) == _existing(expected), f"seed {seed}, {count} batches"
            compared += 1
    assert compared > 200


def test_a_deleted_consumer_group_with_offsets_of_two_partitions_stays_deleted() -> None:
    """The tombstones of its offsets are applied before that of its epoch, although they wait in a window."""
    world = World(SimulatedDisk(1))
    log = world.log("__consumer_offsets")
    offsets = [encode_key(OffsetCommitKey("g", "t", partition)) for partition in range(2)]
    epoch, value = encode_key(ConsumerGroupMetadataKey("g")), encode_value(OffsetCommitValue(5, 0, "", 7))
    world.writer.append(log, build_batch([(epoch, encode_value(ConsumerGroupMetadataValue(4)))], 1))
    world.writer.append(log, build_batch([(key, value) for key in offsets], 1))
    world.writer.append(log, build_batch([(key, None) for key in (*offsets, epoch)], 1))
    world.settle()
    into, _ = loaded(log)
    assert not into.actors


def _types(unread: Counter[str]) -> dict[str, int]:
    return {what: count for what, count in unread.items() if what.startswith("record type")}


def _existing(groups: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    return {group_id: state for group_id, state in groups.items() if state[0]}


def test_a_group_that_went_over_to_the_consumer_protocol_keeps_its_offsets() -> None:
    """Kafka ends the classic group with a tombstone and continues with records of other types."""
    world = World(SimulatedDisk(1))
    log = world.log("__consumer_offsets")
    offset = encode_key(OffsetCommitKey("g", "t", 0)), encode_value(OffsetCommitValue(5, 0, "", 7))
    metadata = encode_key(GroupMetadataKey("g"))
    value = encode_value(GroupMetadataValue("consumer", 3, None, None, 5, []))
    epoch = encode_key(ConsumerGroupMetadataKey("g")), encode_value(ConsumerGroupMetadataValue(4, 1))
    world.writer.append(log, build_batch([offset, (metadata, value), (metadata, None), epoch], 1))
    world.settle()
    into, _ = loaded(log)
    assert into.actors["g"].group.offsets["t"][0].offset == 5
    assert into.actors["g"].group.consumer is not None
    assert into.actors["g"].group.consumer.epoch == 4
    assert not into.unread


def test_what_is_not_read_is_told_once_with_its_name() -> None:
    world = World(SimulatedDisk(1))
    log = world.log("__consumer_offsets")
    records = [(b"\0\x11\0\1g", b"\0\0"), (b"\0\x11\0\1h", b"\0\0"), (b"\0\x63", b"")]
    world.writer.append(log, build_batch(records, 1))
    world.settle()
    with captured() as said:
        into, _ = loaded(log)
    assert into.unread == {"record type 17": 2, "record type 99": 1}
    assert [line["what"] for line in said] == ["record type 17 (StreamsGroupMetadata)", "record type 99"]


def test_groups_are_served_one_by_one_while_others_are_made_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_load, "SLICE_COSTLY_ITEMS", 1)
    world = World(SimulatedDisk(1))
    log = world.log("__consumer_offsets")
    value = encode_value(OffsetCommitValue(5, 0, "", 7))
    world.writer.append(log, build_batch([(encode_key(OffsetCommitKey(g, "t", 0)), value) for g in "ab"], 1))
    world.settle()
    into = coordinator()
    steps: Iterator[int] = into.load(0, replay_log(log))
    while not into.actors:
        assert into.find("a") is into.find("b") is into.find("none") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        next(steps)
    assert into.find("a") is into.actors["a"]
    assert into.find("b") is into.find("none") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert into.partitions.states == [LOADING]
    assert list(steps)
    assert into.find("b") is into.actors["b"]
    assert into.find("none") is None


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 1 << 30])
def test_a_batch_that_lies_about_its_records_is_damage(count: int) -> None:
    world = World(SimulatedDisk(1))
    log = world.log("__consumer_offsets")
    key, value = encode_key(OffsetCommitKey("g", "t", 0)), encode_value(OffsetCommitValue(5, 0, "", 7))
    batch = build_batch([(key, value), (key, value)], 1)
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    write_crc(batch)
    world.writer.append(log, batch)
    world.writer.append(log, build_batch([(key, value)], 1))
    world.settle()
    with pytest.raises(
        LogDamaged, match=r"\.log is damaged at byte 0: the CRC matches, but the records cannot be read"
    ):
        loaded(log)

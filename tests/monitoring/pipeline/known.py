"""A generated `__consumer_offsets` of any size, whose tables are known beforehand.

    shape = Shape(groups=10_000, rounds=250)      # 10,000,000 commits: each round each group commits four partitions
    write(directory, shape); shape.lag(group, partition) ...

Bytes are made a partition of the log at a time, by numpy: the commits have one layout, of which one record, encoded as
a coordinator does it, is the template. Batches have several sizes, by turns. Between the commits are generations, and
at the end tombstones: some groups lose an offset. Beside it are the topics' directories, so that lags are known, too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from crc32c import crc32c

from kafka_wire.codecs import encode_message
from kafka_wire.java import absolute, string_hash
from kafka_wire.records.batch import ATTRIBUTES_AT, HEADER, HEADER_BYTES, LENGTH_OVERHEAD, build_batch
from kafka_wire.records.consumer import ConsumerProtocolAssignment, TopicPartition
from kafka_wire.records.offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tests.coordination.group.world import subscription
from tests.monitoring.pipeline.logs import START_MS, encoded

PARTITIONS = 4
GROUPS_PER_TOPIC = 100
ROUND_MS = 10_000
RECORDS_PER_ROUND = 100
"""That producers append to each partition."""
GENERATIONS = 5
BATCHES = (1, 3, 20, 1, 150, 7)
"""Commits of so many groups are in one batch, by turns."""
LEADER_EPOCH, COMMIT_VERSION, GROUP_VERSION = 0, 3, 3
INDEX_BYTES = 4096
INDEX_ENTRY, TIME_ENTRY = struct.Struct(">ii"), struct.Struct(">qi")
SAMPLES = 10  # of each topic's partition, in time

_GROUP, _TOPIC, _PARTITION, _OFFSET, _TIME = (
    "group-00000",
    "topic-0000",
    0x11223344,
    0x0102030405060708,
    0x1112131415161718,
)


@dataclass(frozen=True, slots=True)
class Shape:
    """How much, and what comes of it. Groups are numbers here; `rounds` is even."""

    groups: int
    rounds: int
    log_partitions: int = 50

    @property
    def commits(self) -> int:
        return self.groups * self.rounds * PARTITIONS

    @property
    def now_ms(self) -> int:
        return START_MS + self.rounds * ROUND_MS

    @property
    def topics(self) -> int:
        return -(-self.groups // GROUPS_PER_TOPIC)

    @property
    def end_offset(self) -> int:
        """Of all partitions of topics."""
        return self.rounds * RECORDS_PER_ROUND

    def topic(self, group: int) -> str:
        return f"topic-{group // GROUPS_PER_TOPIC:04d}"

    @staticmethod
    def name(group: int) -> str:
        return f"group-{group:05d}"

    @staticmethod
    def commits_twice(group: int) -> bool:
        """Every second commit is of the offset that is committed already."""
        return group % 10 == 3

    def committed(self, group: Any, number: Any) -> Any:
        """Committed offset of a round; both may be arrays."""
        twice = group % 10 == 3
        return (number - number % 2 * twice + 1) * RECORDS_PER_ROUND - group % 97

    def no_ops(self, group: int) -> int:
        return self.rounds // 2 if self.commits_twice(group) else 0

    @staticmethod
    def forgets(group: int, partition: int) -> bool:
        """Whether it ends with a tombstone."""
        return group % 20 == 7 and partition == PARTITIONS - 1

    def lag(self, group: int) -> int:
        """Of each of its partitions that it has not forgotten."""
        return self.end_offset - int(self.committed(group, self.rounds - 1))


def write(directory: Path, shape: Shape) -> int:
    """Write it as a broker's log directory; how many records the offsets log has."""
    by_partition: dict[int, list[int]] = {}
    for group in range(shape.groups):
        at = absolute(string_hash(shape.name(group))) % shape.log_partitions
        by_partition.setdefault(at, []).append(group)
    records = 0
    for partition, groups in by_partition.items():
        place = directory / f"__consumer_offsets-{partition}"
        place.mkdir(parents=True)
        log = _Log()
        for batch in _batches(shape, np.array(groups), log):
            log.append(batch)
        (place / f"{0:020d}.log").write_bytes(b"".join(log.batches))
        (place / f"{0:020d}.index").write_bytes(bytes(log.index))
        records += log.offset
    _write_topics(directory, shape)
    return records


class _Log:
    def __init__(self) -> None:
        self.offset = self.position = self._unindexed = 0
        self.batches: list[bytes] = []
        self.index = bytearray()

    def append(self, batch: bytes) -> None:
        last = HEADER.unpack_from(batch)[6]
        if self._unindexed > INDEX_BYTES:
            self.index += INDEX_ENTRY.pack(self.offset + last, self.position)
            self._unindexed = 0
        self.batches.append(batch)
        self.offset += last + 1
        self.position += len(batch)
        self._unindexed += len(batch)


def _batches(shape: Shape, groups: np.ndarray, log: _Log) -> Iterator[bytes]:
    """Of a partition of the log, in their order."""
    starts = [number * shape.rounds // GENERATIONS for number in range(GENERATIONS + 1)]
    sizes = cycle(BATCHES)
    for number in range(GENERATIONS):
        at_ms = START_MS + starts[number] * ROUND_MS
        for group in groups:
            record = _generation(shape.topic(group), number, at_ms)
            key = encoded(2, GROUP_VERSION, GroupMetadataKey(shape.name(group)), None)[0]
            yield bytes(build_batch([(key, record)], at_ms, log.offset))
        yield from _commits(shape, groups, range(starts[number], starts[number + 1]), sizes, log)
    for group in groups:
        if shape.forgets(group, PARTITIONS - 1):
            key = OffsetCommitKey(shape.name(group), shape.topic(group), PARTITIONS - 1)
            yield bytes(build_batch([encoded(1, COMMIT_VERSION, key, None)], shape.now_ms, log.offset))


@cache
def _generation(topic: str, number: int, at_ms: int) -> bytes:
    """The value: two members, of which the second is another one each time."""
    members = []
    for member, (mine, of_mine) in enumerate((("first", (0, 1)), (f"second-{number}", (2, 3)))):
        assignment = b"\0\0" + encode_message(
            ConsumerProtocolAssignment([TopicPartition(topic, list(of_mine))], None), 0
        )
        member_id = f"{mine}-0a{member}"
        members.append(MemberMetadata(member_id, None, "app", "/h", 60_000, 10_000, subscription(topic), assignment))
    value = GroupMetadataValue("consumer", number + 1, "range", members[0].member_id, at_ms, members)
    return GROUP_VERSION.to_bytes(2, "big") + encode_message(value, GROUP_VERSION)


def _commits(shape: Shape, groups: np.ndarray, rounds: range, sizes: Iterator[int], log: _Log) -> Iterator[bytes]:
    """Batches of what the groups commit in these rounds, a commit of PARTITIONS records after the other."""
    commits = len(groups) * len(rounds)
    group = np.tile(groups, len(rounds))
    number = np.repeat(np.arange(rounds.start, rounds.stop), len(groups))
    place = np.tile(np.arange(len(groups)), len(rounds))
    time_ms = START_MS + number * ROUND_MS + place * (ROUND_MS - 1) // max(1, len(groups))
    ends = []
    while not ends or ends[-1] < commits:
        ends.append(min(commits, (ends[-1] if ends else 0) + next(sizes)))
    counts = np.diff([0, *ends]) * PARTITIONS
    first = np.repeat(np.cumsum(counts) - counts, counts)
    data, stops = _records(
        np.repeat(group, PARTITIONS),
        np.tile(np.arange(PARTITIONS), commits),
        np.repeat(shape.committed(group, number), PARTITIONS),
        np.repeat(time_ms, PARTITIONS),
        np.arange(commits * PARTITIONS) - first,
    )
    begin = start = 0
    for end, count in zip(ends, counts.tolist(), strict=True):
        stop = int(stops[end * PARTITIONS - 1])
        yield _batch(data[start:stop], log.offset, count, int(time_ms[begin]))
        begin, start = end, stop


def _batch(body: np.ndarray, base_offset: int, count: int, time_ms: int) -> bytes:
    size = HEADER_BYTES - LENGTH_OVERHEAD + len(body)
    fields = [base_offset, size, LEADER_EPOCH, 2, 0, 0, count - 1, time_ms, time_ms, -1, -1, -1, count]
    records = body.tobytes()
    fields[4] = crc32c(records, crc32c(HEADER.pack(*fields)[ATTRIBUTES_AT:]))
    return HEADER.pack(*fields) + records


def _records(
    group: np.ndarray, partition: np.ndarray, offset: np.ndarray, time_ms: np.ndarray, delta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of all records, and where each ends. `delta`: the offset within the batch, whose varint has one byte or
    two; so each row of the matrix has room for two, and the second is left out where it is not used.
    """
    template = _template()
    at = {
        name: template.index(value)
        for name, value in (
            ("group", _GROUP.encode()),
            ("topic", _TOPIC.encode()),
            ("partition", _PARTITION.to_bytes(4, "big")),
            ("offset", _OFFSET.to_bytes(8, "big")),
            ("time", _TIME.to_bytes(8, "big")),
        )
    }
    assert len(template) < 64, "its length must fit a byte in zigzag"
    rows = np.empty((len(group), len(template)), np.uint8)
    rows[:] = np.frombuffer(template, np.uint8)
    _digits(rows, at["group"] + len("group-"), 5, group)
    _digits(rows, at["topic"] + len("topic-"), 4, group // GROUPS_PER_TOPIC)
    for name, size, values in (("partition", 4, partition), ("offset", 8, offset), ("time", 8, time_ms)):
        rows[:, at[name] : at[name] + size] = values.astype(f">i{size}").view(np.uint8).reshape(-1, size)
    is_long = delta >= 64
    zigzag = delta << 1
    rows[:, 0] += 2 * is_long.astype(np.uint8)
    rows[:, _DELTA_AT] = np.where(is_long, zigzag & 0x7F | 0x80, zigzag)
    rows[:, _DELTA_AT + 1] = zigzag >> 7
    wanted = np.ones(rows.shape, bool)
    wanted[:, _DELTA_AT + 1] = is_long
    return rows[wanted], np.cumsum(rows.shape[1] - 1 + is_long)


_DELTA_AT = 3
"""Of a record: its length in a byte, attributes, the time's delta, the offset's."""


@cache
def _template() -> bytes:
    """A record as it is encoded, with room for an offset's delta of two bytes; its length is that with one."""
    key = OffsetCommitKey(_GROUP, _TOPIC, _PARTITION)
    value = OffsetCommitValue(_OFFSET, LEADER_EPOCH, "", _TIME)
    record = bytes(build_batch([encoded(1, COMMIT_VERSION, key, value)], 0))[HEADER_BYTES:]
    return record[: _DELTA_AT + 1] + b"\0" + record[_DELTA_AT + 1 :]


def _digits(rows: np.ndarray, at: int, count: int, values: np.ndarray) -> None:
    for place in range(count):
        rows[:, at + place] = ord("0") + values // 10 ** (count - 1 - place) % 10


def _write_topics(directory: Path, shape: Shape) -> None:
    """Each partition of a topic as a few batches at its right offsets and times: as if cleaned in between."""
    samples = sorted({shape.rounds * number // SAMPLES for number in range(SAMPLES)} | {shape.rounds})
    data = times = b""
    for number in samples:
        offset, time_ms = max(0, number * RECORDS_PER_ROUND - 1), START_MS + number * ROUND_MS
        data += build_batch([(b"k", b"v")], time_ms, offset)
        times += TIME_ENTRY.pack(time_ms, offset)
    for topic in range(shape.topics):
        for partition in range(PARTITIONS):
            place = directory / f"topic-{topic:04d}-{partition}"
            place.mkdir(parents=True)
            (place / f"{0:020d}.log").write_bytes(data)
            (place / f"{0:020d}.timeindex").write_bytes(times)

"""A data directory whose groups take a while to load."""

from __future__ import annotations

from pathlib import Path

from coordinatord.broker.log import DataDirectory, LogConfig, LogWriter
from coordinatord.broker.topics.names import OFFSETS_TOPIC
from coordinatord.transport.cluster.partitioner import partition_for
from kafka_wire.records.batch import build_batch
from kafka_wire.records.keys import encode_key, encode_value
from kafka_wire.records.offsets import OffsetCommitKey, OffsetCommitValue
from tests.broker.log.world import HandLoop, HandWorker

PARTITIONS = 3
LARGE, SMALL = 0, 2
KEYS_OF_A_GROUP = 100


def group_of(partition: int, number: int) -> str:
    """Some group that lives in a partition."""
    names = (f"group-{number}-{attempt}" for attempt in range(1_000))
    return next(name for name in names if partition_for(name, PARTITIONS) == partition)


def write(path: Path, commits: int) -> None:
    """A data directory: one partition with so many commits, in thousands, and one with one."""
    data = DataDirectory.open(str(path))
    large, _, small = data.create(OFFSETS_TOPIC, range(PARTITIONS), b"o" * 16, LogConfig(cleanup_policy="compact"))
    writer = LogWriter(data, HandLoop(), print, flush="never", worker=HandWorker())
    groups = [group_of(LARGE, number) for number in range(20)]
    records = [
        (encode_key(OffsetCommitKey(group, "orders", key)), encode_value(OffsetCommitValue(5, 0, "", 1)))
        for group in groups
        for key in range(KEYS_OF_A_GROUP)
    ]
    batch = build_batch(records, 1)
    for _ in range(commits // len(records)):
        writer.append(large, bytearray(batch))
    key = encode_key(OffsetCommitKey(group_of(SMALL, 0), "orders", 0))
    writer.append(small, build_batch([(key, encode_value(OffsetCommitValue(7, 0, "", 1)))], 1))
    writer.close()
    data.close()

"""How many offset records a second a start loads: a log on disk becomes groups in a coordinator, as in the daemon.

`python -m tests.broker.log.loading_rate [RECORDS]` measures both distributions, CPU time of this process. The
benchmarks call `measure(directory, records, keys)`.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from coordinatord.base.observe.metrics import Metrics
from coordinatord.broker.log import DataDirectory, LogConfig, LogWriter
from coordinatord.broker.topics.markers import TransactionalAppends
from coordinatord.broker.topics.names import OFFSETS_TOPIC
from coordinatord.broker.topics.partition import Partition
from coordinatord.coordination.runtime.loading import Loading
from coordinatord.coordination.runtime.topic_log import TopicLog
from coordinatord.coordination.service.groups import Coordinator
from kafka_wire.records.batch import BatchBuilder
from kafka_wire.records.keys import encode_key, encode_value
from kafka_wire.records.offsets import OffsetCommitKey, OffsetCommitValue
from tests.broker.log.world import HandLoop, HandWorker
from tests.support.shell import Gate
from tests.test_partition_load import coordinator

PARTITIONS_OF_A_TOPIC, TOPICS_OF_A_GROUP = 10, 4
RECORDS_OF_A_BATCH = 10
TOPIC_ID = b"t" * 16
MILLION = 1_000_000


@dataclass(slots=True, frozen=True)
class Loaded:
    """One load. Seconds are of CPU time, `longest_slice_ms` of the clock: as long as a client may have waited."""

    records: int
    keys: int
    groups: int
    seconds: float
    longest_slice_ms: float

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds


def write(directory: Path, records: int, keys: int) -> None:
    """A partition of `__consumer_offsets` with so many commits of so many keys, in turn."""
    data = DataDirectory.open(str(directory))
    [log] = data.create(OFFSETS_TOPIC, [0], b"o" * 16, LogConfig(cleanup_policy="compact"))
    writer = LogWriter(data, HandLoop(), print, flush="never", worker=HandWorker())
    known = [encode_key(_key(number)) for number in range(keys)]
    numbers: Iterator[int] = iter(range(records))
    while batch := list(islice(numbers, RECORDS_OF_A_BATCH)):
        builder = BatchBuilder()
        builder.extend(((known[number % keys], _value(number)) for number in batch), 1_760_000_000_000 + batch[0])
        writer.append(log, builder.finish())
    writer.close()
    data.close()


def _key(number: int) -> OffsetCommitKey:
    topic, partition = divmod(number, PARTITIONS_OF_A_TOPIC)
    group, topic = divmod(topic, TOPICS_OF_A_GROUP)
    return OffsetCommitKey(f"group-{group:06}", f"orders-{topic}", partition)


def _value(number: int) -> bytes:
    return encode_value(OffsetCommitValue(number * 7, 3, "", 1_760_000_000_000 + number, -1, TOPIC_ID))


class _Partitions:
    """As much of a catalogue as loading needs."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data

    def partition(self, name: str, index: int) -> Partition | None:
        from coordinatord.base.config import Settings
        from coordinatord.broker.topics.configs import Configs

        log = self._data.get(name, index)
        assert log is not None
        return Partition(log.topic_id, log, Configs(Settings(), {}), self._data.disk, 0, is_here=True)


async def _load(loading: Loading, into: Coordinator) -> float:
    """The longest turn that others had to wait for, in milliseconds."""
    task = asyncio.create_task(loading.run(into))
    longest_s, last_s = 0.0, time.monotonic()
    while not task.done():
        await asyncio.sleep(0)
        now_s = time.monotonic()
        longest_s, last_s = max(longest_s, now_s - last_s), now_s
    await task
    return longest_s * 1e3


def measure(directory: Path, records: int, keys: int) -> Loaded:
    """Write a log into the directory, which is new, and load it."""
    write(directory, records, keys)
    data = DataDirectory.open(str(directory))
    try:
        appends = TransactionalAppends(_Partitions(data), None, lambda: 0)  # type: ignore[arg-type]
        into = coordinator(TopicLog(OFFSETS_TOPIC, appends, Gate()))  # type: ignore[arg-type]
        loading = Loading(Metrics())
        began_s = time.process_time()
        longest_ms = asyncio.run(_load(loading, into))
        seconds = time.process_time() - began_s
        assert into.offset_count() == min(keys, records)
        assert loading.records == records
        return Loaded(records, keys, len(into.actors), seconds, longest_ms)
    finally:
        data.close()


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else MILLION
    for number in (count // 100, count):
        with tempfile.TemporaryDirectory() as temporary:
            found = measure(Path(temporary) / "data", count, number)
        print(
            f"{found.records:,} records of {found.keys:,} keys: {found.records_per_second:,.0f} records/s"
            f" ({found.seconds:.2f} s), {found.groups:,} groups, longest turn {found.longest_slice_ms:.1f} ms"
        )

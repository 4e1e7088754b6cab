"""How many megabytes of a compacted log a second are cleaned: a partition of `__consumer_offsets`, all of it dirty.

`python -m tests.broker.log.cleaning_rate [RECORDS]` measures batches of several sizes, CPU time of this process; the
daemon does the same in a process of its own. The benchmarks call `measure(directory, records, keys,
records_of_a_batch)`.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from coordinatord.broker.log.cleaning import Job, SegmentSize, Statistics, clean
from coordinatord.broker.log.disk import OsDisk
from coordinatord.broker.log.segment import segment_name
from kafka_wire.records.batch import BatchBuilder, assign_offset
from kafka_wire.records.keys import encode_key, encode_value
from kafka_wire.records.offsets import OffsetCommitKey, OffsetCommitValue

SEGMENT_BYTES = 100 * 1024 * 1024
DAY_MS = 86_400_000
NOW_MS = 1_760_000_000_000
GROUPS, PARTITIONS = 2_000, 20


@dataclass(slots=True, frozen=True)
class CleaningRate:
    """One cleaning. `log_bytes` are those before it; each is read twice."""

    records: int
    log_bytes: int
    bytes_after: int
    seconds: float

    @property
    def mb_per_second(self) -> float:
        return self.log_bytes / self.seconds / 1e6

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds


def write(directory: Path, records: int, keys: int, records_of_a_batch: int) -> list[SegmentSize]:
    """Commits of so many keys in random order, in segments as the offsets topic has them; the last one is empty."""
    chance = random.Random(1)
    known = [
        encode_key(
            OffsetCommitKey(f"group-{n % GROUPS}", f"topic-{n // GROUPS // PARTITIONS}", n // GROUPS % PARTITIONS)
        )
        for n in range(keys)
    ]
    segments: list[SegmentSize] = []
    content, base_offset, offset = bytearray(), 0, 0

    def finish() -> None:
        nonlocal base_offset
        (directory / f"{segment_name(base_offset)}.log").write_bytes(content)
        segments.append(SegmentSize(base_offset, len(content), 0, 0))
        content.clear()
        base_offset = offset

    while offset < records:
        builder = BatchBuilder()
        time_ms = NOW_MS + offset
        builder.extend(
            (
                (chance.choice(known), encode_value(OffsetCommitValue(offset + at, -1, "", time_ms)))
                for at in range(records_of_a_batch)
            ),
            time_ms,
        )
        batch = builder.finish()
        assign_offset(batch, offset, 0)
        content += batch
        offset += records_of_a_batch
        if len(content) > SEGMENT_BYTES:
            finish()
    finish()
    finish()
    return segments


def measure(directory: Path, records: int, keys: int, records_of_a_batch: int) -> CleaningRate:
    """Write a log into an empty directory and clean it once."""
    segments = write(directory, records, keys, records_of_a_batch)
    job = Job(
        directory=str(directory),
        segments=segments,
        first_dirty=0,
        first_uncleanable=segments[-1].base_offset,
        now_ms=NOW_MS + DAY_MS,
        delete_retention_ms=DAY_MS,
        segment_bytes=SEGMENT_BYTES,
        max_index_bytes=10 * 1024 * 1024,
        index_interval_bytes=4096,
        map_bytes=128 * 1024 * 1024,
        io_bytes=256 * 1024,
        producer_expiration_ms=DAY_MS,
    )
    began_s = time.process_time()
    *_groups, statistics = clean(OsDisk(), job)
    seconds = time.process_time() - began_s
    assert isinstance(statistics, Statistics)
    assert statistics.records_kept <= keys
    assert statistics.end_offset == segments[-1].base_offset
    return CleaningRate(
        records=statistics.records_read,
        log_bytes=sum(segment.log_bytes for segment in segments),
        bytes_after=statistics.bytes_written,
        seconds=seconds,
    )


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 500_000
    for size in (1, 4, 50):
        with tempfile.TemporaryDirectory() as name:
            rate = measure(Path(name), wanted, 20_000, size)
        print(
            f"batches of {size}: {rate.log_bytes / 1e6:.1f} MB, {rate.records:,} records became "
            f"{rate.bytes_after / 1e6:.1f} MB: {rate.mb_per_second:.1f} MB/s, {rate.records_per_second:,.0f} records/s"
        )

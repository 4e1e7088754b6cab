"""Directories of segments as Kafka lays them out, written with `protocol` alone."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from pathlib import Path

from coordinatord.monitoring.offsets_log.decode.projection import Wanted
from coordinatord.monitoring.offsets_log.source.ranges import Range, read
from kafka_wire.records.batch import build_batch, read_header
from kafka_wire.records.offsets import OffsetCommitKey, OffsetCommitValue
from tests.monitoring.pipeline.logs import START_MS, encoded

INDEX_ENTRY = struct.Struct(">ii")


def commit_batch(offset: int, records: int = 3, group: str = "g", size: int = 0) -> bytearray:
    """A batch of commits whose committed offsets are those of the log: rows can be told apart and counted."""
    made = [
        encoded(1, 4, OffsetCommitKey(group, "t", n % 4), OffsetCommitValue(offset + n, 0, "x" * size, START_MS))
        for n in range(records)
    ]
    return build_batch(made, START_MS + offset, offset)


def write_segment(
    directory: Path,
    base_offset: int,
    batches: Sequence[bytes | bytearray],
    *,
    index_bytes: int | None = 400,
    zeros: int = 0,
) -> Path:
    """A segment and, unless `index_bytes` is None, its offset index with an entry every so many bytes, filled up with
    `zeros` as that of Kafka's active segment is.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base_offset:020d}.log"
    index, position, since = b"", 0, 0
    for batch in batches:
        if index_bytes is not None and since > index_bytes:
            index += INDEX_ENTRY.pack(read_header(batch).last_offset - base_offset, position)
            since = 0
        position, since = position + len(batch), since + len(batch)
    path.write_bytes(b"".join(batches))
    if index_bytes is not None:
        path.with_suffix(".index").write_bytes(index + bytes(INDEX_ENTRY.size * zeros))
    return path


def write_log(
    directory: Path, records: int, rng: random.Random, *, segment_batches: int = 40, start: int = 0
) -> list[int]:
    """A log of segments; the offsets of its records."""
    offset, batches, base = start, [], start
    while offset < start + records:
        batches.append(commit_batch(offset, rng.randint(1, 5), f"g{rng.randrange(5)}", rng.choice((0, 0, 300))))
        offset = read_header(batches[-1]).next_offset
        if len(batches) == segment_batches or offset >= start + records:
            write_segment(directory, base, batches, index_bytes=rng.choice((None, 200, 1000)), zeros=rng.choice((0, 9)))
            base, batches = offset, []
    return list(range(start, offset))


def append(directory: Path, records: int) -> list[int]:
    """More records at the end of the last segment, whose index stays behind; their offsets."""
    path = max(directory.glob("*.log"))
    data, at = path.read_bytes(), 0
    offset = int(path.stem)
    while at < len(data):
        header = read_header(data, at)
        offset, at = header.next_offset, at + header.size
    with path.open("ab") as file:
        file.write(commit_batch(offset, records))
    return list(range(offset, offset + records))


def compact(directory: Path, keep: set[int]) -> None:
    """What the cleaner does: all segments but the last become one, with only some of the records, under the first's
    name; written aside and renamed.
    """
    *olds, _active = sorted(directory.glob("*.log"))
    if not olds:
        return
    cleaned = bytearray()
    for old in olds:
        data, at = old.read_bytes(), 0
        while at < len(data):
            header = read_header(data, at)
            for offset in range(header.base_offset, header.next_offset):
                if offset in keep:
                    cleaned += commit_batch(offset, 1)
            at += header.size
    aside = directory / "cleaned.tmp"
    aside.write_bytes(cleaned)
    for old in olds[1:]:
        old.rename(old.with_suffix(".log.deleted"))
        old.with_suffix(".index").unlink(missing_ok=True)
    olds[0].with_suffix(".index").unlink(missing_ok=True)
    aside.rename(olds[0])


def offsets_of(parts: Sequence[Range], wanted: Wanted | None = None, on_replaced: str = "reread") -> list[int]:
    """Offsets of the log of all rows that the ranges give, in their order."""
    tables = (table for part in parts for table in read(part, wanted or Wanted(), on_replaced))
    return [offset for _kind, batch in tables for offset in batch.column("log_offset").to_pylist()]

"""The records of a log in Parquet files, by kind and bucket: what the tasks of a run write. No record passes through
Spark.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from coordinatord.monitoring.offsets_log.decode.columns import encoded_schema
from coordinatord.monitoring.offsets_log.decode.compiling import expect
from coordinatord.monitoring.offsets_log.source.logs import Part, read_part
from coordinatord.monitoring.offsets_log.source.options import Options
from coordinatord.monitoring.pipeline.source.xxhash64 import xxhash64

BUCKETS = 16
"""Number of buckets. A group's bucket is a hash of its name; buckets without new records are not rebuilt."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file with the records of one kind and bucket."""

    kind: str
    bucket: int
    name: str
    records: int


def store(parts: Sequence[Part], options: Options, directory: Path) -> list[StoredFile]:
    """Write the records of these ranges to new files in `directory`. Names are never reused: a repeated task writes
    other files. Raises SourceError.
    """
    by_kind: defaultdict[str, list[pa.RecordBatch]] = defaultdict(list)
    expect(sum(part.bytes for part in parts))
    for part in parts:
        for kind, batch in read_part(part, options.wanted, options.on_replaced):
            by_kind[kind].append(batch)
    directory.mkdir(parents=True, exist_ok=True)
    files = []
    for kind, batches in by_kind.items():
        for bucket, rows in by_bucket(pa.Table.from_batches(batches, encoded_schema(kind))):
            if not rows.num_rows:
                continue
            name = part_name()
            # without Arrow's schema: texts are dictionaries here, and are to be texts for every reader
            parquet.write_table(rows, directory / name, store_schema=False)
            files.append(StoredFile(kind, bucket, name, rows.num_rows))
    return files


def write_buckets(rows: pa.Table, directory: Path) -> None:
    """Write rows to a new file in each bucket's directory, in the layout that Spark uses when it partitions by
    `bucket`.
    """
    for bucket, part in by_bucket(rows):
        place = directory / f"bucket={bucket}"
        place.mkdir(parents=True, exist_ok=True)
        parquet.write_table(part, place / part_name(), store_schema=False)


def by_bucket(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yield each bucket with its rows, in their order. Rows of no group are in the bucket 0."""
    if "group_id" not in rows.column_names:
        yield 0, rows
        return
    rows = rows.unify_dictionaries().combine_chunks()
    groups = rows["group_id"].dictionary_encode().combine_chunks()
    of_group = np.array([bucket_of_group(name) for name in groups.dictionary.to_pylist()])
    buckets = of_group[groups.indices.to_numpy()]
    for bucket in np.unique(buckets).tolist():
        yield bucket, rows.take(pa.array(np.flatnonzero(buckets == bucket)))


@lru_cache(1 << 16)
def bucket_of_group(group_id: str) -> int:
    """Return the bucket of a group, as tables.inputs.bucket_of does in Spark."""
    return xxhash64(group_id.encode()) % BUCKETS


def part_name() -> str:
    """Return the name of a file that this process writes in place of Spark. Like Spark's names it is never reused."""
    return f"part-{uuid.uuid4()}.snappy.parquet"

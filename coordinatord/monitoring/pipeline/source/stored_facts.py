"""The data source with which a run stores the log: its tasks write the records to Parquet files, by kind and bucket,
and the rows that Spark gets are the names of these files. No record passes through Spark.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from coordinatord.monitoring.offsets_log.decode.columns import encoded_schema
from coordinatord.monitoring.offsets_log.decode.compiling import expect
from coordinatord.monitoring.offsets_log.source.logs import read_part
from coordinatord.monitoring.offsets_log.source.options import Options, read_options
from coordinatord.monitoring.pipeline.source.consumer_offsets import ConsumerOffsets, StreamReader
from coordinatord.monitoring.pipeline.source.xxhash64 import xxhash64

NAME = "consumer_offsets_stored"
BUCKETS = 16
"""Number of buckets. A group's bucket is a hash of its name; buckets without new records are not rebuilt."""
DIRECTORY = "directory"
"""Option with the directory of the files."""
FILES = pa.schema([("kind", pa.string()), ("bucket", pa.int32()), ("file", pa.string()), ("records", pa.int64())])


class StoredFacts(ConsumerOffsets):
    """The stream of `consumer_offsets` as files. Options are those of the stream, and DIRECTORY."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def _options(self) -> Options:
        return read_options({name: value for name, value in self.options.items() if name.lower() != DIRECTORY})

    def schema(self) -> StructType:
        return from_arrow_schema(FILES)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StoringReader(self._options(), Path(self.options[DIRECTORY]))


class StoringReader(StreamReader):
    """A repeated task writes other files: those of the first attempt are in no row."""

    def __init__(self, options: Options, directory: Path) -> None:
        super().__init__(options, FILES.names)
        self.directory = directory

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        by_kind: defaultdict[str, list[pa.RecordBatch]] = defaultdict(list)
        expect(sum(part.bytes for part in partition.value))
        for part in partition.value:
            for kind, batch in read_part(part, self.options.wanted, self.options.on_replaced):
                by_kind[kind].append(batch)
        self.directory.mkdir(parents=True, exist_ok=True)
        files = []
        for kind, batches in by_kind.items():
            for bucket, rows in by_bucket(pa.Table.from_batches(batches, encoded_schema(kind))):
                if not rows.num_rows:
                    continue
                name = part_name()
                # without Arrow's schema: texts are dictionaries here, and are to be texts for every reader
                parquet.write_table(rows, self.directory / name, store_schema=False)
                files.append({"kind": kind, "bucket": bucket, "file": name, "records": rows.num_rows})
        yield pa.RecordBatch.from_pylist(files, FILES)


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

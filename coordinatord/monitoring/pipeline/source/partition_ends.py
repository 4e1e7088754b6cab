"""Spark's side of `end_offsets`: the source `partition_ends` reads the ends of partitions, once per micro-batch.

It makes lag a stream: the log has no new records while there are no commits, and that is when lag grows. The source
stores nothing, so a repeated micro-batch takes a new sample; its rows contain the time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from coordinatord.monitoring.analysis.ends import NO_TAIL, WINDOW_MS, Open, Tail
from coordinatord.monitoring.offsets_log.decode.projection import Names
from coordinatord.monitoring.offsets_log.source.end_offsets import Ending, from_broker, from_directories
from coordinatord.monitoring.offsets_log.source.options import BROKER_PREFIX, broker_settings, check_address, name_list

NAME = "partition_ends"
ENDS_DDL = (
    "topic string, partition int, sampled_ms bigint, log_start_offset bigint, end_offset bigint, "
    "points array<struct<offset: bigint, time_ms: bigint>>, tail struct<readable_end: bigint, stable_offset: bigint, "
    "stable_end: bigint, producer_id: bigint, since_ms: bigint, transactional_id: string>, retention_ms bigint"
)
_POINT = pa.struct([("offset", pa.int64()), ("time_ms", pa.int64())])
_TAIL = pa.struct(
    [(name, pa.int64()) for name in (*Tail._fields[:-1], *Open._fields[:-1])] + [(Open._fields[-1], pa.string())]
)
_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("sampled_ms", pa.int64()),
        ("log_start_offset", pa.int64()),
        ("end_offset", pa.int64()),
        ("points", pa.list_(_POINT)),
        ("tail", _TAIL),
        ("retention_ms", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Place:
    """Source of the ends. `path` is a broker's log directory. With neither `path` nor `bootstrap` there are never any
    rows. `now_ms` replaces the clock, for a run at a given time. A broker is also asked for ends within `window_ms`.
    """

    path: str | None
    bootstrap: str | None
    broker: dict[str, object] = field(repr=False)  # it contains passwords
    topics: tuple[str, ...]
    now_ms: int | None
    window_ms: int = WINDOW_MS

    def clock_ms(self) -> int:
        return int(time.time() * 1000) if self.now_ms is None else self.now_ms

    def look(self) -> list[Ending]:
        """Return the present ends of all partitions. Raises SourceError."""
        if self.path is not None:
            found = from_directories([self.path], self.clock_ms())
        elif self.bootstrap is not None:
            found = from_broker(self.bootstrap, self.clock_ms(), None, self.broker, self.window_ms)
        else:
            return []
        names = Names(self.topics) if self.topics else None
        return [each for each in found if names is None or each.topic in names]


def tail_of(row: Mapping[str, Any] | None) -> Tail:
    """Return the tail in a row of this source."""
    if row is None:
        return NO_TAIL
    opened = Open(*(row[name] for name in Open._fields))
    is_open = opened.producer_id is not None
    return Tail(row["readable_end"], row["stable_offset"], row["stable_end"], opened if is_open else None)


class PartitionEnds(DataSource):
    """`spark.readStream.format("partition_ends")`, with `path` or `bootstrap` (and `kafka.…`), `topics`, `nowMs`,
    `windowMs`.
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return ENDS_DDL

    def reader(self, schema: Any) -> DataSourceReader:
        return Reader(self._place())

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return StreamReader(self._place())

    def _place(self) -> Place:
        given = {name.lower(): value for name, value in self.options.items()}
        return Place(
            given.get("path") or None,
            given.get("bootstrap") or None,
            broker_settings(
                {name.removeprefix(BROKER_PREFIX): v for name, v in given.items() if name.startswith(BROKER_PREFIX)}
            ),
            tuple(name_list(given.get("topics", ""))),
            int(given["nowms"]) if "nowms" in given else None,
            int(given.get("windowms", WINDOW_MS)),
        )


def _read(place: Place) -> Iterator[pa.RecordBatch]:
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "sampled_ms": each.sampled_ms,
            "log_start_offset": each.log_start_offset,
            "end_offset": each.end_offset,
            "points": [{"offset": point.offset, "time_ms": point.time_ms} for point in each.points],
            "tail": {**each.tail._asdict(), **({} if each.tail.open is None else each.tail.open._asdict())},
            "retention_ms": each.retention_ms,
        }
        for each in place.look()
    ]
    yield pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)


class Reader(DataSourceReader):
    """Batch reader: the state at the time of the read."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self.place)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streaming reader: there is always new data, the present state; a query that ends after the available data takes
    one sample. An offset is the time at which a sample was planned.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.target_ms: int | None = None

    def initialOffset(self) -> dict[str, Any]:
        return {"at_ms": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self.target_ms = self.place.clock_ms()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if self.place.path is None and self.place.bootstrap is None:
            return start
        now_ms = self.place.clock_ms() if self.target_ms is None else self.target_ms
        return {"at_ms": max(now_ms, start["at_ms"])}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self.place)


def sampler(
    spark: SparkSession,
    location: str | None,
    broker: dict[str, Any],
    *,
    is_directory: bool,
    now_ms: int | None = None,
    window_ms: int = WINDOW_MS,
) -> DataFrame:
    """Return a stream of partition ends, from a broker's log directory or HOST:PORT; without rows if `location` is
    None. Raises SourceError if `location` is neither.
    """
    spark.dataSource.register(PartitionEnds)
    options: dict[str, Any] = {f"{BROKER_PREFIX}{name}": value for name, value in broker.items()}
    options["windowMs"] = window_ms
    if now_ms is not None:
        options["nowMs"] = now_ms
    if location is not None:
        if not is_directory:
            check_address("--end-offsets", location, or_else="a broker's log directory")
        options["path" if is_directory else "bootstrap"] = location
    return spark.readStream.format(NAME).options(**options).load()

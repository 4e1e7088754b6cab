"""Spark's side of the source `consumer_offsets`: thin shells around `ranges` and `tail`.

The driver makes a `ConsumerOffsets` from the options; readers are pickled for the workers and hold only options.
Through `pyspark_consumer_offsets`, Spark finds the source without `register()`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    In,
    InputPartition,
    StringStartsWith,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from coordinatord.monitoring.offsets_log.decode.projection import Names, Wanted
from coordinatord.monitoring.offsets_log.source.logs import Part, begins, read_part, tail_of
from coordinatord.monitoring.offsets_log.source.options import Options, read_options
from coordinatord.monitoring.offsets_log.source.ranges import plan
from coordinatord.monitoring.offsets_log.source.segments import find_logs
from coordinatord.monitoring.offsets_log.source.shapes import Shape
from coordinatord.monitoring.offsets_log.source.tail import FileTail, Position, check_kept

NAME = "consumer_offsets"


#: Least bytes of a task: one that reads less costs more than the read.
LEAST_TASK_BYTES = 2 << 20
#: Tasks per core of the driver's machine, if there is little to read.
TASKS_PER_CORE = 4


class RangePartition(InputPartition):
    """Ranges that one task reads, in order."""

    def __init__(self, parts: Sequence[Part] = ()) -> None:
        super().__init__(tuple(parts))


def tasks(parts: Sequence[Part], split_bytes: int) -> list[InputPartition]:
    """Combine ranges into tasks, so that fifty small logs are not fifty tasks: up to `split_bytes` in each, less if
    there were too few tasks for the cores.
    """
    total = sum(part.bytes for part in parts)
    fair = total // (TASKS_PER_CORE * (os.cpu_count() or 1))
    room = min(split_bytes, max(LEAST_TASK_BYTES, fair))
    found: list[list[Part]] = []
    filled = room
    for part in parts:
        if filled + part.bytes > room:
            found.append([])
            filled = 0
        found[-1].append(part)
        filled += part.bytes
    return [RangePartition(each) for each in found]


class ConsumerOffsets(DataSource):
    """`spark.read.format("consumer_offsets")`: see the pipeline's README for options and columns."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def _options(self) -> Options:
        return read_options(self.options)

    def schema(self) -> StructType:
        options = self._options()
        return from_arrow_schema(Shape(options.kinds, options.columns).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._options()
        # A reader that overrides pushFilters is an error unless Spark's setting allows it.
        return (PushingReader if options.pushdown else Reader)(options, schema.fieldNames())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(self._options(), schema.fieldNames())


def _read(options: Options, wanted: Wanted, columns: list[str], partition: InputPartition) -> Iterator[pa.RecordBatch]:
    shape = Shape(options.kinds, columns)
    for part in partition.value:
        yield from shape.batches(read_part(part, wanted, options.on_replaced))


class Reader(DataSourceReader):
    """The batch reader: all records in the logs at planning time."""

    def __init__(self, options: Options, columns: list[str]) -> None:
        self.options = options
        self.wanted = options.wanted
        self.columns = columns

    def partitions(self) -> list[InputPartition]:
        options = self.options
        parts: list[Part] = []
        tail = tail_of(options)
        if not isinstance(tail, FileTail):
            parts += tail.plan(begins(tail), tail.ends())
        else:  # to the end of the files, so that damage there is reported
            logs = find_logs(options.paths, options.topic, options.partitions)
            parts += [part for log in logs for part in plan(log, options.split_bytes)]
        return tasks(parts, options.split_bytes) or [RangePartition()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self.options, self.wanted, self.columns, partition)


class PushingReader(Reader):
    """A reader that applies conditions on group, topic and log partition before values are decoded."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for condition in filters:
            if not self._push(condition):
                yield condition

    def _push(self, condition: Filter) -> bool:
        """Return whether the condition is fully applied: no returned row fails it."""
        name = condition.attribute[0] if len(getattr(condition, "attribute", ())) == 1 else None
        if name == "log_partition" and isinstance(condition, EqualTo | In):
            numbers = frozenset(condition.value if isinstance(condition, In) else (condition.value,))
            before = self.options.partitions
            self.options = replace(self.options, partitions=numbers if before is None else numbers & before)
            return True
        if name not in ("group_id", "topic") or name not in Shape(self.options.kinds).schema.names:
            return False
        names = _names(condition)
        if names is None:
            return False
        if name == "group_id":
            self.wanted = replace(self.wanted, groups=(*self.wanted.groups, names))
        else:
            self.wanted = replace(self.wanted, topics=(*self.wanted.topics, names))
        return True


class _Prefix(Names):
    """All names that start with a text."""

    def __contains__(self, name: str) -> bool:
        return name.startswith(self.names[0])


def _names(condition: Filter) -> Names | None:
    if isinstance(condition, EqualTo):
        return Names((condition.value,), patterns=False)
    if isinstance(condition, In):
        return Names(condition.value, patterns=False)
    return _Prefix((condition.value,)) if isinstance(condition, StringStartsWith) else None


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The streaming reader: offsets are {log: next offset}. Only the driver's copy has a tail and a target."""

    def __init__(self, options: Options, columns: list[str]) -> None:
        self.options = options
        self.columns = columns
        self.tail = tail_of(options)
        self.target: Position | None = None

    def initialOffset(self) -> dict[str, Any]:
        if self.options.starting_offsets == "latest":
            return self.tail.ends()
        # A broker may have deleted earlier records; a directory shows its first record.
        return begins(self.tail)

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.max_bytes is not None:
            return ReadMaxBytes(self.options.max_bytes)
        if self.options.max_records is not None:
            return ReadMaxRows(self.options.max_records)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = self.tail.ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        ends = self.tail.ends()
        start = check_kept(start, ends, self.options.fail_on_data_loss, self.tail.absent)
        if self.target is not None:
            # A checkpoint may be beyond the target: its log was read while the query was restarted.
            ends = {
                name: min(ends[name], max(end, start.get(name, 0))) for name, end in self.target.items() if name in ends
            }
        if isinstance(limit, ReadAllAvailable):
            return {**start, **ends}
        max_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self.options.max_bytes
        max_records = limit.max_rows if isinstance(limit, ReadMaxRows) else self.options.max_records
        if max_bytes is None and max_records is None:
            return {**start, **ends}
        return {**start, **self.tail.limited(start, ends, max_bytes, max_records)}

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self.tail.ends()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return tasks(self.tail.plan(start, end), self.options.split_bytes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self.options, self.options.wanted, self.columns, partition)

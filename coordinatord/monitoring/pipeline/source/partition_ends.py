"""Samples of the ends of partitions, as the rows that a run stores.

The log has no new records while there are no commits, and that is when lag grows. A sample's rows contain its time, so
a repeated batch may take another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from coordinatord.monitoring.analysis.ends import NO_TAIL, Open, Tail
from coordinatord.monitoring.offsets_log.source.end_offsets import from_broker, from_directories

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


def tail_of(row: Mapping[str, Any] | None) -> Tail:
    """Return the tail in a row of a sample."""
    if row is None:
        return NO_TAIL
    opened = Open(*(row[name] for name in Open._fields))
    is_open = opened.producer_id is not None
    return Tail(row["readable_end"], row["stable_offset"], row["stable_end"], opened if is_open else None)


def sample(location: str, broker: Mapping[str, Any], now_ms: int, window_ms: int, *, is_directory: bool) -> pa.Table:
    """Return the present ends of all partitions in a broker's log directory, a database, or of the broker at HOST:PORT,
    which is also asked for the ends within `window_ms`; the columns are those of ENDS_DDL. Raises SourceError.
    """
    if is_directory:
        found = from_directories([location], now_ms)
    else:
        found = from_broker(location, now_ms, None, dict(broker), window_ms)
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
        for each in found
    ]
    return pa.Table.from_pylist(rows, schema=_SCHEMA)

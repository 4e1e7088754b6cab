"""Rows of one kind as Arrow record batches, for DuckDB, Polars, pandas and others. Needs no Spark.

from coordinatord.monitoring.offsets_log.source.arrow import rows

commits = rows("offset_commits", "/var/lib/kafka/data")          # a pyarrow.RecordBatchReader
commits = rows("offset_commits", bootstrap="broker:9092", groups="payments-*")
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from coordinatord.monitoring.offsets_log.decode.row_types import KINDS
from coordinatord.monitoring.offsets_log.source.logs import begins, read_part, tail_of
from coordinatord.monitoring.offsets_log.source.options import Options, read_options


def rows(kind: str, *paths: str, **options: Any) -> pa.RecordBatchReader:
    """Return the present rows of a kind, batch by batch: memory is bounded by a batch, not by the log. `paths` are a
    broker's log directories, or the address of a database (postgresql://…); `options` are those of the data source
    (`bootstrap`, `groups`, `topics`, `partitions` …, and `kafka.security_protocol` and the like in a dictionary). Rows
    of one log come in the order of their offsets. Raises SourceError for a wrong option; ValueError for an unknown
    kind.
    """
    if kind not in KINDS:
        raise ValueError(f"there is no kind {kind}; there are {', '.join(KINDS)}")
    given = {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()}
    if paths:
        given["paths"] = json.dumps([str(path) for path in paths])
    asked = read_options({**given, "kind": kind})
    return pa.RecordBatchReader.from_batches(KINDS[kind].schema, batches(asked, kind))


def batches(options: Options, kind: str) -> Iterator[pa.RecordBatch]:
    """Yield the present rows of a kind. Raises SourceError."""
    tail = tail_of(options)
    for part in tail.plan(begins(tail), tail.ends()):
        for of_kind, batch in read_part(part, options.wanted):
            if of_kind == kind:
                yield batch.cast(KINDS[kind].schema)

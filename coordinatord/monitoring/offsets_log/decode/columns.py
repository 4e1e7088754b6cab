"""Arrow columns from arrays of positions and numbers, and from rows."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from coordinatord.monitoring.offsets_log.decode import kernels
from coordinatord.monitoring.offsets_log.decode.kernels import Bytes, Ints
from coordinatord.monitoring.offsets_log.decode.row_types import KINDS, OFFSET_COMMITS
from coordinatord.monitoring.offsets_log.decode.rows import Row, topic_id_text

Mask = npt.NDArray[np.bool_]


def integers(values: Ints, type_: pa.DataType, null: Mask | None = None) -> pa.Array:
    """Return a column of integers; null if `null` is true."""
    return pa.array(values.astype(type_.to_pandas_dtype(), copy=False), type_, mask=null)


def constant(value: int | None, type_: pa.DataType, count: int) -> pa.Array:
    if value is None:
        return pa.nulls(count, type_)
    return pa.array(np.full(count, value, type_.to_pandas_dtype()), type_)


def texts(buf: Bytes, at: Ints, end: Ints) -> pa.Array:
    """Return the texts buf[at:end] as a string column; null if `at` is -1. The texts must be valid UTF-8."""
    count = len(at)
    offsets = np.empty(count + 1, np.int32)
    data = np.empty(int((end - at).sum()), np.uint8)
    kernels.gather(buf, at, end, offsets, data)
    valid = None
    if (at < 0).any():
        valid = pa.py_buffer(np.packbits(at >= 0, bitorder="little").tobytes())
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data), valid)


SECRET = np.frombuffer(secrets.token_bytes(16), np.uint64)
"""The secret of this process's hashes: see kernels.intern."""


class Interned:
    """Texts numbered by content: `ids` (-1 for null) index `values`, and `first`, the first row of each."""

    def __init__(self, buf: Bytes, at: Ints, end: Ints) -> None:
        size = 1 << max(4, (2 * len(at)).bit_length())
        self.ids = np.empty(len(at), np.int32)
        first = np.empty(len(at), np.int64)
        count = kernels.intern(buf, at, end, SECRET, np.full(size, -1, np.int32), self.ids, first)
        self.first: Ints = first[:count]
        self._texts = buf, at, end

    @property
    def values(self) -> list[bytes]:
        buf, at, end = self._texts
        return [buf[at[row] : end[row]].tobytes() for row in self.first]

    def column(self, values: Sequence[str | None], keep: Any = None) -> pa.DictionaryArray:
        """Return a dictionary column of the rows `keep` (None: all), with `values` in place of the texts."""
        ids = self.ids if keep is None else self.ids[keep]
        return pa.DictionaryArray.from_arrays(pa.array(ids, pa.int32(), mask=ids < 0), pa.array(values, pa.string()))


def topic_ids(buf: Bytes, at: Ints, end: Ints) -> pa.DictionaryArray:
    """Return uuids in Kafka's text form, null for the zero uuid."""
    interned = Interned(buf, at, end)
    return interned.column([topic_id_text(value) for value in interned.values])


#: By kind, the columns with few values in millions of rows: encoded as a dictionary.
ENCODED = {OFFSET_COMMITS: ("group_id", "topic", "topic_id")}


def encoded_schema(kind: str) -> pa.Schema:
    """Return the schema of a kind's record batches as `chunk` makes them."""
    coded = ENCODED.get(kind, ())
    schema = KINDS[kind].schema
    return pa.schema(
        [f.with_type(pa.dictionary(pa.int32(), f.type)) if f.name in coded else f for f in schema],
    )


def decoded_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch without dictionaries, for readers that cannot use them: Spark's."""
    columns = [c.dictionary_decode() if isinstance(c, pa.DictionaryArray) else c for c in batch.columns]
    names = [f.with_type(c.type) for f, c in zip(batch.schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(names))


def batch_of_rows(kind: str, rows: Sequence[Row], log_partition: int | None, source: str | None) -> pa.RecordBatch:
    """Return rows as the record batch of their kind. Missing columns are null."""
    schema = encoded_schema(kind)
    columns: list[Any] = []
    for name, type_ in zip(schema.names, schema.types, strict=True):
        if name == "log_partition":
            columns.append(constant(log_partition, type_, len(rows)))
        elif name == "source":
            columns.append(pa.array([source] * len(rows), type_))
        else:
            coded = isinstance(type_, pa.DictionaryType)
            column = pa.array([row.get(name) for row in rows], type_.value_type if coded else type_)
            columns.append(column.dictionary_encode() if coded else column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)

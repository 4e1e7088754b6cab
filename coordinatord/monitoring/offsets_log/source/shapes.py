"""Conversion of record batches of kinds to the one schema that a reader promised: a kind's own, or several kinds in one
frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from coordinatord.monitoring.offsets_log.decode.columns import decoded_batch
from coordinatord.monitoring.offsets_log.decode.row_types import KINDS, PLACE
from coordinatord.monitoring.offsets_log.source.segments import SourceError


class Shape:
    """The shape of a frame of `kinds`. One kind: its columns. Several: the columns of PLACE, `kind`, and a struct per
    kind, null in the rows of the others. `columns` are the ones to keep.
    """

    def __init__(self, kinds: Sequence[str], columns: Sequence[str] = ()) -> None:
        self.kinds = tuple(kinds)
        self.single = self.kinds[0] if len(self.kinds) == 1 else None
        if self.single:
            schema = KINDS[self.single].schema
        else:
            inner = [pa.field(kind, pa.struct(_nullable(kind))) for kind in self.kinds]
            schema = pa.schema([*PLACE, pa.field("kind", pa.string(), nullable=False), *inner])
        unknown = [name for name in columns if name not in schema.names]
        if unknown:
            raise SourceError(
                f"there is no column {unknown[0]} in {', '.join(self.kinds)}; there are {', '.join(schema.names)}"
            )
        self.full = schema
        self.schema = pa.schema([schema.field(name) for name in columns]) if columns else schema

    def batches(self, tables: Iterable[tuple[str, pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """Return the record batches, converted to this shape."""
        for kind, batch in tables:
            batch = decoded_batch(self._narrow(batch))
            if not self.single:
                batch = self._widen(kind, batch)
            yield pa.RecordBatch.from_arrays([batch.column(name) for name in self.schema.names], schema=self.schema)

    def _narrow(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.select(self.schema.names) if self.single else batch

    def _widen(self, kind: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        own = pa.StructArray.from_arrays([batch.column(f.name) for f in _own(kind)], fields=_nullable(kind))
        place = [batch.column(field.name) for field in PLACE]
        names = pa.array([kind] * batch.num_rows, pa.string())
        rest = [own if other == kind else pa.nulls(batch.num_rows, self.full.field(other).type) for other in self.kinds]
        return pa.RecordBatch.from_arrays([*place, names, *rest], schema=self.full)


def _nullable(kind: str) -> list[pa.Field]:
    """Return the fields of a kind's struct. They are nullable: rows of other kinds have a null struct, and Arrow checks
    the fields.
    """
    return [field.with_nullable(True) for field in _own(kind)]


def _own(kind: str) -> Iterator[pa.Field]:
    """Return the fields of a kind's rows that not all kinds have."""
    return (field for field in KINDS[kind].schema if field not in PLACE)

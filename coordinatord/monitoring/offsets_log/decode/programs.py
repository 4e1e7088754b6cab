"""A flat declaration as a table of numbers, for the kernel that decodes millions of messages.

`kafka_wire.generate` makes Python functions of a declaration; this module makes rows of integers, which
`kernels.run_programs` interprets. So the columnar decoder has no second description of OffsetCommitKey and
OffsetCommitValue: a new version in `kafka_wire.records.offsets` is a new program here. Only flat messages are possible
(fixed-size fields, strings and uuids, in the body or tagged); others have arrays and use the generated decoders.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kafka_wire.schema import Field, schema_of

# Operations. A row is (operation, slot, parameter).
INT = 1  # parameter: size in bytes; into a slot of integers
UUID = 2  # into a slot of texts: the position of the sixteen bytes
STRING = 3  # parameter: 1 if null is allowed; into a slot of texts
COMPACT_STRING = 4
TAGS = 5  # parameter: number of rows of known tags that follow; each is (operation, slot, tag * 16 + parameter)
END = 6

#: the parameter of a field's own operation is below this; its tag is above
TAG_FACTOR = 16

_INT_BYTES = {"int8": 1, "int16": 2, "int32": 4, "int64": 8}


@dataclass(frozen=True, slots=True)
class Programs:
    """All versions of one message. Integer and text slots are numbered separately, by field, for all versions."""

    name: str
    #: field name -> slot
    ints: dict[str, int]
    #: value of a slot of integers if the version lacks the field
    int_defaults: list[int]
    texts: dict[str, int]
    #: rows of (operation, slot, parameter), one version after the other
    code: npt.NDArray[np.int64]
    #: version -> first row of its program, -1 for an unknown version
    starts: npt.NDArray[np.int64]


def programs_of(cls: type[Any]) -> Programs:
    """Return the programs of a flat message. Raises TypeError if the message has arrays, bytes or structs."""
    schema = schema_of(cls)
    ints = {f.name: n for n, f in enumerate(f for f in schema.fields if f.type.kind in _INT_BYTES)}
    texts = {f.name: n for n, f in enumerate(f for f in schema.fields if f.type.kind in ("string", "uuid"))}
    if len(ints) + len(texts) != len(schema.fields):
        raise TypeError(f"{schema.name} is not flat")
    rows: list[tuple[int, int, int]] = []
    starts = np.full(schema.versions.last + 1, -1, np.int64)
    for version in schema.versions:
        starts[version] = len(rows)
        flexible = version in schema.flexible
        slot = {**ints, **texts}
        for field in schema.fields_of(version):
            operation, parameter = _operation(field, version, flexible)
            rows.append((operation, slot[field.name], parameter))
        if flexible:
            tagged = schema.tagged_fields_of(version)
            rows.append((TAGS, 0, len(tagged)))
            for field in tagged:
                operation, parameter = _operation(field, version, flexible)
                rows.append((operation, slot[field.name], field.tag * TAG_FACTOR + parameter))
        rows.append((END, 0, 0))
    return Programs(
        name=schema.name,
        ints=ints,
        int_defaults=[f.default for f in schema.fields if f.name in ints],
        texts=texts,
        code=np.array(rows, np.int64),
        starts=starts,
    )


def _operation(field: Field, version: int, flexible: bool) -> tuple[int, int]:
    kind = field.type.kind
    if kind in _INT_BYTES:
        return INT, _INT_BYTES[kind]
    if kind == "uuid":
        return UUID, 0
    return (COMPACT_STRING if flexible else STRING), int(version in field.nullable)

"""OffsetCommit requests that differ only in their numbers: from request bytes straight to record bytes.

A stable member commits the same partitions of the same topics under the same generation again and again. Only twelve
bytes per partition change in its request: offset and leader epoch. The record in the log holds the same twelve bytes;
the rest of the record changes only with the time, and the response does not change at all. Decoding such a request,
validating each partition and encoding records and response took 10 µs; copying the numbers from request to records
takes 2 µs. A shape takes 3 KB for a request of four partitions, 6 KB for one of sixteen.

The positions of the numbers are not declared a second time here (see holes.py).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from operator import itemgetter
from typing import Any

from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from kafka_wire.compiler import encode_message
from kafka_wire.holes import in_common
from kafka_wire.make import maker
from kafka_wire.offset_bodies import all_committed
from kafka_wire.records.batch import BatchBuilder
from kafka_wire.records.keys import NO_TIMESTAMP, encode_offsets
from kafka_wire.records.offsets import OffsetCommitValue
from kafka_wire.records.varint import VARINT

NUMBERS_BYTES = 12
"""An offset followed by its leader epoch: adjacent in requests since v6 and in values since v3."""

TIMESTAMP_BYTES = 8
NO_ATTRIBUTES = b"\0"

FIRST_VERSION = 8
"""The first request version that can have a shape: flexible, as all of today's clients send it."""

MAX_PARTITIONS = 16
MAX_BYTES = 1024
"""The limits of a request that can have a shape."""

Numbers = tuple[bytes, ...]
"""The variable part of a commit: the twelve bytes of each partition, in request order."""

_SHORT_DELTAS = 64
"""Number of records in a batch whose offset delta takes one byte."""
_DELTAS = [VARINT[delta] for delta in range(_SHORT_DELTAS)]

_value = maker(OffsetCommitValue)
_pack_timestamp = struct.Struct(">q").pack


class CommitShape:
    """See the module's docstring. `request` is any request of the shape, `answer` the response body for each accepted
    request of the shape.
    """

    __slots__ = (
        "_constants",
        "_group_id",
        "_read",
        "_size",
        "answer",
        "partitions",
        "read_offsets",
        "template",
        "topics",
    )

    def __init__(self, request: OffsetCommitRequest, version: int) -> None:
        """The topics of `request` have both name and id filled in."""
        self._group_id = request.group_id
        #: (name, id) of each topic
        self.topics = [(topic.name, topic.topic_id) for topic in request.topics]
        self.answer = all_committed(request.topics, version)
        #: (name, id, its (partition, metadata) pairs) of each topic
        self.partitions = [(topic.name, topic.topic_id, _with_metadata(topic)) for topic in request.topics]
        partitions = sum(len(topic.partitions) for topic in request.topics)
        zeros, ones = (encode_message(_with(request, number), version) for number in (0, -1))
        constants = in_common(zeros, ones, (NUMBERS_BYTES,) * partitions)
        self._constants = tuple(constants)
        layout = struct.Struct(f"{NUMBERS_BYTES}s".join(f"{len(each)}s" for each in constants))
        self._size = layout.size
        self._read = layout.unpack_from
        #: (buffer, where a request of this shape begins) -> offset and leader epoch of each partition in turn
        self.read_offsets: Callable[[bytes, int], tuple[int, ...]] = struct.Struct(
            ">" + "qi".join(f"{len(each)}x" for each in constants)
        ).unpack_from
        self.template = b"".join([_template(*body) for topic in request.topics for body in _bodies(request, topic)])

    def numbers(self, buf: bytes, start: int, end: int) -> Numbers | None:
        """The numbers of the request in `buf[start:end]`; None when it does not have this shape."""
        if end - start != self._size:
            return None
        fields = self._read(buf, start)
        return fields[1::2] if fields[::2] == self._constants else None

    def values(self, numbers: Numbers, timestamp_ms: int) -> Iterable[tuple[str, list[tuple[int, OffsetCommitValue]]]]:
        """The committed values: per topic, a list of (partition, value)."""
        flat = iter(_pairs(len(numbers)).unpack(b"".join(numbers)))
        for name, topic_id, partitions in self.partitions:
            yield (
                name,
                [
                    (index, _value(offset, epoch, metadata, timestamp_ms, NO_TIMESTAMP, topic_id))
                    for (index, metadata), offset, epoch in zip(partitions, flat, flat, strict=False)
                ],
            )

    def bodies(self, numbers: Numbers, timestamp_ms: int) -> list[bytes]:
        """The record bodies of these values."""
        group_id = self._group_id
        return [
            body
            for topic, values in self.values(numbers, timestamp_ms)
            for body in encode_offsets(group_id, topic, values)
        ]


class ShapedRecords:
    """The records of a commit that has a shape: see `kafka_wire.records.batch.Records`."""

    __slots__ = ("count", "numbers", "shape")

    def __init__(self, shape: CommitShape, numbers: Numbers) -> None:
        self.shape = shape
        self.numbers = numbers
        self.count = len(numbers)

    def put_into(self, batch: BatchBuilder, timestamp_ms: int) -> None:
        """The hot path of every offset commit: formats all records in one operation."""
        shape, numbers, many = self.shape, self.numbers, self.count
        time = batch.time_delta(timestamp_ms)
        start = batch.count
        if start + many > _SHORT_DELTAS or len(time) > 1:
            batch.extend_bodies(shape.bodies(numbers, timestamp_ms), timestamp_ms)
            return
        deltas = _DELTAS[start : start + many]
        places: tuple[bytes, ...] = _order(many)((time, _pack_timestamp(timestamp_ms), *deltas, *numbers))
        made = shape.template % places
        batch.pieces.append(made)
        batch.size += len(made)
        batch.count += many


@cache
def _order(many: int) -> itemgetter[Any]:
    """Reorders (time, timestamp, offset deltas, numbers) of `many` records into the arguments of their templates,
    record by record.
    """
    return itemgetter(*[place for each in range(2, 2 + many) for place in (0, each, each + many, 1)])


@cache
def _pairs(many: int) -> struct.Struct:
    """The struct of `many` (offset, leader epoch) pairs."""
    return struct.Struct(">" + "qi" * many)


def _with_metadata(topic: OffsetCommitRequestTopic) -> list[tuple[int, str]]:
    return [(partition.partition_index, partition.committed_metadata or "") for partition in topic.partitions]


def _with(request: OffsetCommitRequest, number: int) -> OffsetCommitRequest:
    """The same request with `number` as every offset and leader epoch."""
    topics = [
        replace(
            topic,
            partitions=[
                replace(each, committed_offset=number, committed_leader_epoch=number) for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return replace(request, topics=topics)


def _bodies(request: OffsetCommitRequest, topic: OffsetCommitRequestTopic) -> list[list[bytes]]:
    """Record bodies for a topic's partitions: the bytes before, between and after the numbers and the time."""
    known = _with_metadata(topic)
    zeros, ones = (
        encode_offsets(
            request.group_id,
            topic.name,
            [(index, _value(number, number, text, number, NO_TIMESTAMP, topic.topic_id)) for index, text in known],
        )
        for number in (0, -1)
    )
    return [in_common(*both, (NUMBERS_BYTES, TIMESTAMP_BYTES)) for both in zip(zeros, ones, strict=True)]


def _template(before: bytes, between: bytes, after: bytes) -> bytes:
    """A record template with placeholders for timestamp delta, offset delta, numbers and commit time."""
    size = 3 + len(before) + NUMBERS_BYTES + len(between) + TIMESTAMP_BYTES + len(after)
    pieces = [VARINT[size] + NO_ATTRIBUTES, b"", before, between, after]
    return b"%b".join([piece.replace(b"%", b"%%") for piece in pieces])

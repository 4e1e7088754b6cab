"""OffsetCommit requests that differ only in their numbers: conversion of request bytes straight to record bytes.

A stable member commits the same partitions of the same topics under the same generation again and again. Only sixteen
bytes per partition change in its request: partition index, offset and leader epoch. Some clients name their partitions
in another order each time (franz-go, kafka-python), so the index is one of the numbers. The record in the log has the
same sixteen bytes; the rest of the record changes only with the time, and the response only with the order. The bench
row `commit-never` takes 14.9 µs of CPU per commit with shapes, and 28.9 µs without: copying the numbers from request to
records is cheaper than decoding the request, validating each partition and encoding records and response. A shape takes
3 KB for a request of four partitions, 6 KB for one of sixteen.

The positions of the numbers are not declared a second time here: the ordinary encoder encodes a message twice, once
with all bits of the numbers zero and once with all bits one; the bytes that differ are the numbers (`in_common`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from operator import itemgetter
from typing import Any

from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic, error_response
from kafka_wire.codecs import constructor, encode_message
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import BatchBuilder
from kafka_wire.records.keys import NO_TIMESTAMP, encode_offsets
from kafka_wire.records.offsets import OffsetCommitValue
from kafka_wire.records.varint import VARINT

INDEX_BYTES = 4
NUMBERS_BYTES = 12
"""An offset followed by its leader epoch: adjacent in requests since v6 and in values since v3."""

TIMESTAMP_BYTES = 8
NO_ATTRIBUTES = b"\0"

FIRST_VERSION = 8
"""The first request version that can have a shape: flexible, as in all requests of current clients."""

MAX_PARTITIONS = 16
MAX_BYTES = 1024
"""Limits of a request that can have a shape."""

Numbers = tuple[bytes, ...]
"""The variable part of a commit, in request order: the four bytes of each partition's index, then the twelve bytes of
each partition's offset and leader epoch.
"""

_SHORT_DELTAS = 64
"""Number of records in a batch whose offset delta takes one byte."""
_DELTAS = [VARINT[delta] for delta in range(_SHORT_DELTAS)]

_value = constructor(OffsetCommitValue)
_pack_timestamp = struct.Struct(">q").pack
_pack_index = struct.Struct(">i").pack


class CommitShape:
    """The shape of a commit: see the module's docstring. `request` is any request of the shape; it names no partition
    twice.
    """

    __slots__ = (
        "_answer_template",
        "_constants",
        "_group_id",
        "_indexes",
        "_order",
        "_read",
        "_size",
        "answer",
        "count",
        "partitions",
        "read_numbers",
        "template",
        "topics",
    )

    def __init__(self, request: OffsetCommitRequest, version: int) -> None:
        """Build the shape. The topics of `request` have both name and id filled in."""
        self._group_id = request.group_id
        #: (name, id) of each topic
        self.topics = [(topic.name, topic.topic_id) for topic in request.topics]
        #: (name, id, metadata of each partition) of each topic
        self.partitions = [
            (topic.name, topic.topic_id, [each.committed_metadata or "" for each in topic.partitions])
            for topic in request.topics
        ]
        self.count = count = sum(len(topic.partitions) for topic in request.topics)
        self._indexes = [
            frozenset(_pack_index(each.partition_index) for each in topic.partitions) for topic in request.topics
        ]
        assert sum(map(len, self._indexes)) == count, "each partition is named once"
        zeros, ones = (_with(request, number) for number in (0, -1))
        encoded = encode_message(zeros, version), encode_message(ones, version)
        constants = in_common(*encoded, (INDEX_BYTES + NUMBERS_BYTES,) * count)
        self._constants = tuple(constants)
        hole = f"{INDEX_BYTES}s{NUMBERS_BYTES}s"
        layout = struct.Struct(hole.join(f"{len(each)}s" for each in constants))
        self._size = layout.size
        self._read = layout.unpack_from
        #: (buffer, start of a request of this shape) -> index, offset and leader epoch of each partition in turn
        self.read_numbers: Callable[[bytes, int], tuple[int, ...]] = struct.Struct(
            ">" + "iqi".join(f"{len(each)}x" for each in constants)
        ).unpack_from
        answers = (
            encode_message(error_response(zeros, version, ErrorCode.NONE), version),
            encode_message(error_response(ones, version, ErrorCode.NONE), version),
        )
        self._answer_template = b"%b".join(
            [piece.replace(b"%", b"%%") for piece in in_common(*answers, (INDEX_BYTES,) * count)]
        )
        self._order: Numbers = ()
        #: the response body for the request that was read last, if all of it is accepted
        self.answer = b""
        self.template = b"".join([_template(*body) for topic in request.topics for body in _bodies(request, topic)])

    def numbers(self, buf: bytes, start: int, end: int) -> Numbers | None:
        """Return the numbers of the request in `buf[start:end]`; None if it does not have this shape, or names
        partitions other than those of this shape. Sets `answer`.
        """
        if end - start != self._size:
            return None
        fields = self._read(buf, start)
        if fields[::3] != self._constants:
            return None
        order = fields[1::3]
        if order != self._order and not self._reorder(order):
            return None
        return order + fields[2::3]

    def _reorder(self, order: Numbers) -> bool:
        at = 0
        for indexes in self._indexes:
            stop = at + len(indexes)
            if frozenset(order[at:stop]) != indexes:
                return False
            at = stop
        self._order = order
        self.answer = self._answer_template % order
        return True

    def bodies(self, numbers: Numbers, timestamp_ms: int) -> list[bytes]:
        """Return the record bodies of these values."""
        count = self.count
        pairs = zip(numbers[:count], numbers[count:], strict=True)
        each = struct.iter_unpack(">iqi", b"".join([index + number for index, number in pairs]))
        bodies: list[bytes] = []
        for topic, topic_id, metadata in self.partitions:
            values = [
                (index, _value(offset, leader_epoch, text, timestamp_ms, NO_TIMESTAMP, topic_id))
                for text, (index, offset, leader_epoch) in zip(metadata, each, strict=False)
            ]
            bodies += encode_offsets(self._group_id, topic, values)
        return bodies


class ShapedRecords:
    """The records of a commit that has a shape: see `kafka_wire.records.batch.Records`."""

    __slots__ = ("count", "numbers", "shape")

    def __init__(self, shape: CommitShape, numbers: Numbers) -> None:
        self.shape = shape
        self.numbers = numbers
        self.count = shape.count

    def put_into(self, batch: BatchBuilder, timestamp_ms: int) -> None:
        """Append all records in one operation: the hot path of every offset commit."""
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
    """Return a function that reorders (time, timestamp, offset deltas, indexes, numbers) of `many` records into the
    arguments of their templates, record by record.
    """
    return itemgetter(*[place for each in range(2, 2 + many) for place in (0, each, each + many, each + 2 * many, 1)])


def _with(request: OffsetCommitRequest, number: int) -> OffsetCommitRequest:
    """Return the request with `number` as every partition index, offset and leader epoch."""
    topics = [
        replace(
            topic,
            partitions=[
                replace(each, partition_index=number, committed_offset=number, committed_leader_epoch=number)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return replace(request, topics=topics)


def _bodies(request: OffsetCommitRequest, topic: OffsetCommitRequestTopic) -> list[list[bytes]]:
    """Return record bodies for a topic's partitions: the bytes around index, numbers and time."""
    zeros, ones = (
        encode_offsets(
            request.group_id,
            topic.name,
            [
                (
                    number,
                    _value(number, number, each.committed_metadata or "", number, NO_TIMESTAMP, topic.topic_id),
                )
                for each in topic.partitions
            ],
        )
        for number in (0, -1)
    )
    field_sizes = (INDEX_BYTES, NUMBERS_BYTES, TIMESTAMP_BYTES)
    return [in_common(*both, field_sizes) for both in zip(zeros, ones, strict=True)]


def _template(*constants: bytes) -> bytes:
    """Return a record template with placeholders for timestamp delta, offset delta, index, numbers and commit time.
    `constants`: the bytes of its body around the last three.
    """
    size = 3 + sum(map(len, constants)) + INDEX_BYTES + NUMBERS_BYTES + TIMESTAMP_BYTES
    pieces = [VARINT[size] + NO_ATTRIBUTES, b"", *constants]
    return b"%b".join([piece.replace(b"%", b"%%") for piece in pieces])


def in_common(zeros: bytes, ones: bytes, field_sizes: tuple[int, ...]) -> list[bytes]:
    """Return the bytes before, between and after the variable fields, whose sizes in bytes are `field_sizes`."""
    constants: list[bytes] = []
    found: list[int] = []
    start = position = 0
    while position < len(zeros):
        if zeros[position] == ones[position]:
            position += 1
            continue
        constants.append(zeros[start:position])
        start = position
        while position < len(zeros) and zeros[position] != ones[position]:
            position += 1
        found.append(position - start)
        start = position
    constants.append(zeros[start:])
    assert tuple(found) == field_sizes, f"fields of {found} bytes"
    return constants

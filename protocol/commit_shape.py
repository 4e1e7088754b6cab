"""Commits that differ in nothing but their numbers, from bytes to bytes.

A member that goes on commits the same partitions of the same topics under the same generation again and again: all
that changes in its request are twelve bytes a partition, offset and leader epoch. They are the same twelve bytes in
the record that goes into the log, what else there is of that changes with the time alone, and the response does not
change at all. Decoding such a request, deciding about each partition and encoding records and response took
10 µs; taking the numbers out and putting them in again takes two.

Where the numbers are is not written down here a second time: a request and its records are encoded twice by those who
always do it, once with numbers that are all zeros and once all ones, and what differs are the numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import itemgetter

from protocol.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from protocol.compiler import encode_message
from protocol.make import maker
from protocol.offset_bodies import all_committed
from protocol.records.batch import Numbers
from protocol.records.keys import NO_TIMESTAMP, encode_offsets
from protocol.records.offsets import OffsetCommitValue
from protocol.records.varint import VARINT

NUMBERS_BYTES = 12
"""An offset and its leader epoch, one after the other in requests from v6 on and in values from v3 on."""

TIMESTAMP_BYTES = 8
NO_ATTRIBUTES = b"\0"

FIRST_VERSION = 8
"""Of requests that have a shape: flexible ones, as all of today's clients send them."""

MAX_PARTITIONS = 16
MAX_BYTES = 1024
"""Of a request that has a shape: 2 KiB are kept for one of four partitions."""

_value = maker(OffsetCommitValue)
_pack_timestamp = struct.Struct(">q").pack


class CommitShape:
    """See the module's docstring. `request` is one of these requests, `answer` the body of the response to each that is
    accepted.
    """

    __slots__ = (
        "_bodies",
        "_constants",
        "_places",
        "_read",
        "_size",
        "_template",
        "_unpack",
        "answer",
        "request",
        "version",
    )

    def __init__(self, request: OffsetCommitRequest, version: int) -> None:
        """Names and ids of its topics are filled in; no partition has metadata. `Numbers` are the twelve bytes of each
        partition, in the order of the request.
        """
        self.request = request
        self.version = version
        self.answer = all_committed(request.topics, version)
        zeros, ones = (encode_message(_with(request, number), version) for number in (0, -1))
        constants = _constants(zeros, ones)
        self._constants = tuple(constants)
        layout = struct.Struct(f"{NUMBERS_BYTES}s".join(f"{len(each)}s" for each in constants))
        self._size = layout.size
        self._read = layout.unpack_from
        self._bodies = [body for topic in request.topics for body in _bodies(request.group_id, topic)]
        self._template = b"".join([_template(*body) for body in self._bodies])
        many = len(self._bodies)
        self._places = itemgetter(*[place for each in range(2, 2 + many) for place in (0, each, each + many, 1)])
        self._unpack = struct.Struct(">" + "qi" * (len(constants) - 1)).unpack

    def numbers(self, buf: bytes, start: int, end: int) -> Numbers | None:
        """What the request in `buf[start:end]` commits, if it is one of these."""
        if end - start != self._size:
            return None
        fields = self._read(buf, start)
        return fields[1::2] if fields[::2] == self._constants else None

    def values(self, numbers: Numbers, timestamp_ms: int) -> Iterable[tuple[str, list[tuple[int, OffsetCommitValue]]]]:
        """What is committed: topic by topic, (partition, value)."""
        flat = iter(self._unpack(b"".join(numbers)))
        for topic in self.request.topics:
            topic_id = topic.topic_id
            yield (
                topic.name,
                [
                    (partition.partition_index, _value(offset, epoch, "", timestamp_ms, NO_TIMESTAMP, topic_id))
                    for partition, offset, epoch in zip(topic.partitions, flat, flat, strict=False)
                ],
            )

    def records(self, numbers: Numbers, timestamp_ms: int, time: bytes, deltas: Sequence[bytes]) -> bytes:
        """The records that are logged, whole: see `protocol.records.batch.Alike`."""
        places: tuple[bytes, ...] = self._places((time, _pack_timestamp(timestamp_ms), *deltas, *numbers))
        return self._template % places

    def bodies(self, numbers: Numbers, timestamp_ms: int) -> list[bytes]:
        """The bodies of these records: what `encode_offsets` makes of `values`."""
        timestamp = _pack_timestamp(timestamp_ms)
        return [
            b"".join((before, each, between, timestamp, after))
            for (before, between, after), each in zip(self._bodies, numbers, strict=True)
        ]


def _with(request: OffsetCommitRequest, number: int) -> OffsetCommitRequest:
    """The same request with another number in each place."""
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


def _bodies(group_id: str, topic: OffsetCommitRequestTopic) -> list[list[bytes]]:
    """The bodies of records for a topic's partitions: what is before, between and after the numbers and the time."""
    indexes = [partition.partition_index for partition in topic.partitions]
    zeros, ones = (
        encode_offsets(
            group_id,
            topic.name,
            [(index, _value(number, number, "", number, NO_TIMESTAMP, topic.topic_id)) for index in indexes],
        )
        for number in (0, -1)
    )
    return [_constants(*both, holes=(NUMBERS_BYTES, TIMESTAMP_BYTES)) for both in zip(zeros, ones, strict=True)]


def _template(before: bytes, between: bytes, after: bytes) -> bytes:
    """A record with places for its delta of time, its offset delta, its numbers and the time."""
    size = 3 + len(before) + NUMBERS_BYTES + len(between) + TIMESTAMP_BYTES + len(after)
    pieces = [VARINT[size] + NO_ATTRIBUTES, b"", before, between, after]
    return b"%b".join([piece.replace(b"%", b"%%") for piece in pieces])


def _constants(zeros: bytes, ones: bytes, holes: tuple[int, ...] = ()) -> list[bytes]:
    """What two encodings have in common: the bytes before, between and after the numbers."""
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
    assert tuple(found) == (holes or (NUMBERS_BYTES,) * len(found)), f"numbers of {found} bytes"
    return constants

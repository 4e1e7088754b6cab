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
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from protocol.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from protocol.compiler import encode_message
from protocol.make import maker
from protocol.offset_bodies import all_committed
from protocol.records.keys import NO_TIMESTAMP, encode_offsets
from protocol.records.offsets import OffsetCommitValue

NUMBERS_BYTES = 12
"""An offset and its leader epoch, one after the other in requests from v6 on and in values from v3 on."""

FIRST_VERSION = 8
"""Of requests that have a shape: flexible ones, as all of today's clients send them."""

MAX_PARTITIONS = 16
MAX_BYTES = 1024
"""Of a request that has a shape: 2 KiB are kept for one of four partitions."""

_value = maker(OffsetCommitValue)
_pack_timestamp = struct.Struct(">q").pack

Numbers = tuple[bytes, ...]
"""The twelve bytes of each partition, in the order of the request."""


class _Topic(NamedTuple):
    """The partitions of one topic. A record's body is one of `before`, its numbers, the timestamp between `EMPTY` and
    `after`.
    """

    name: str
    topic_id: bytes
    indexes: list[int]
    before: list[bytes]
    between: bytes
    after: bytes


class CommitShape:
    """See the module's docstring. `request` is one of these requests, `answer` the body of the response to each that is
    accepted.
    """

    __slots__ = ("_constants", "_read", "_size", "_topics", "_unpack", "answer", "request", "version")

    def __init__(self, request: OffsetCommitRequest, version: int) -> None:
        """Names and ids of its topics are filled in; no partition has metadata."""
        self.request = request
        self.version = version
        self.answer = all_committed(request.topics, version)
        zeros, ones = (encode_message(_with(request, number), version) for number in (0, -1))
        constants = _constants(zeros, ones)
        self._constants = tuple(constants)
        layout = struct.Struct(f"{NUMBERS_BYTES}s".join(f"{len(each)}s" for each in constants))
        self._size = layout.size
        self._read = layout.unpack_from
        self._topics = [_topic(request.group_id, topic) for topic in request.topics]
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
        for topic in self._topics:
            topic_id = topic.topic_id
            yield (
                topic.name,
                [
                    (index, _value(offset, epoch, "", timestamp_ms, NO_TIMESTAMP, topic_id))
                    for index, offset, epoch in zip(topic.indexes, flat, flat, strict=False)
                ],
            )

    def bodies(self, numbers: Numbers, timestamp_ms: int) -> list[bytes]:
        """The bodies of the records that are logged: what `encode_offsets` makes of `values`."""
        timestamp = _pack_timestamp(timestamp_ms)
        made: list[bytes] = []
        each = iter(numbers)
        for topic in self._topics:
            rest = topic.between + timestamp + topic.after
            made += [before + those + rest for before, those in zip(topic.before, each, strict=False)]
        return made


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


def _topic(group_id: str, topic: OffsetCommitRequestTopic) -> _Topic:
    """What there is of the records of a topic's partitions."""
    indexes = [partition.partition_index for partition in topic.partitions]
    zeros, ones = (
        encode_offsets(
            group_id,
            topic.name,
            [(index, _value(number, number, "", number, NO_TIMESTAMP, topic.topic_id)) for index in indexes],
        )
        for number in (0, -1)
    )
    pieces = [_constants(*both, holes=(NUMBERS_BYTES, 8)) for both in zip(zeros, ones, strict=True)]
    _, between, after = pieces[0]
    return _Topic(topic.name, topic.topic_id, indexes, [each[0] for each in pieces], between, after)


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

"""An encoder gives the same bytes in parts, and does not copy large records."""

from __future__ import annotations

import pytest

from kafka_wire import registry
from kafka_wire.api.fetch import AbortedTransaction, FetchableTopicResponse, FetchResponse, PartitionData
from kafka_wire.message_parts import MIN_KEPT_BYTES, Parts

FETCH = 1


def partition(index: int, records: bytes | memoryview | None) -> PartitionData:
    return PartitionData(index, 0, 9, 8, 7, aborted_transactions=[AbortedTransaction(5, 6)], records=records)


def response(*records: bytes | memoryview | None) -> FetchResponse:
    topic = FetchableTopicResponse("topic", bytes(range(16)), [partition(*each) for each in enumerate(records)])
    return FetchResponse(1, 0, 2, [topic])


@pytest.mark.parametrize("version", range(4, 19))
def test_parts_are_the_bytes_of_a_plain_encoding(version: int) -> None:
    codec = registry.codec(FETCH, version)
    large = b"r" * MIN_KEPT_BYTES
    view = memoryview(b"v" * (MIN_KEPT_BYTES + 5))[5:]
    for records in ([large], [None, large, b"", b"small", view], [b"small"], [large, large], [None]):
        message = response(*records)
        plain, parts = bytearray(), Parts()
        codec.encode_response(message, plain)
        codec.encode_response(message, parts)
        assert b"".join(parts.in_order()) == plain
        assert parts.size == len(plain)
        kept = [each for each in parts.in_order() if each is large or each is view]
        assert kept == [each for each in records if each is large or each is view], "not copied"


def test_what_is_small_is_copied() -> None:
    parts = Parts()
    parts.keep(b"x" * (MIN_KEPT_BYTES - 1))
    assert not parts.kept
    parts.keep(b"x" * MIN_KEPT_BYTES)
    assert len(parts.kept) == 1
    assert parts.size == 2 * MIN_KEPT_BYTES - 1

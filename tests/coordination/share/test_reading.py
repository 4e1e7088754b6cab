"""What a share fetch reads of the log: what it can acquire, and not all that the client has room for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from coordinatord.coordination.share.apis.reading import READ_BYTES, Batches, read
from kafka_wire.records.batch import assign_offset, build_batch

RECORDS, RECORD_BYTES = 10, 1_000
"""Of a batch."""


class Log:
    """A log of batches of ten records each; `gone` are the numbers of batches that compaction has removed."""

    def __init__(self, count: int, gone: range = range(0)) -> None:
        self.high_watermark = count * RECORDS
        self.read_bytes = 0
        self._batches: list[tuple[int, bytes]] = []
        for number in range(count):
            batch = build_batch([(None, bytes(RECORD_BYTES))] * RECORDS, 1)
            assign_offset(batch, number * RECORDS, 0)
            if number not in gone:
                self._batches.append((number * RECORDS + RECORDS - 1, bytes(batch)))

    @property
    def batch_bytes(self) -> int:
        return len(self._batches[0][1])

    def read(self, offset: int, max_bytes: int) -> bytes:
        found = b""
        for last, batch in self._batches:
            if last >= offset and (not found or len(found) + len(batch) <= max_bytes):
                found += batch
        self.read_bytes += len(found)
        return found


def fetched(log: Log, offset: int, last: int, max_bytes: int = 50 << 20, *, at_least_one: bool = True) -> Any:
    partition: Any = SimpleNamespace(log=log, has_aborted=False)
    return read(partition, offset, last, max_bytes, at_least_one=at_least_one, committed_only=False)


def bounds(found: Batches) -> tuple[int, int]:
    assert len(found.data) == found.positions[-1] + len(found.data) // len(found.ranges), "batches of one size"
    return found.ranges[0].first, found.ranges[-1].last


@pytest.mark.parametrize("last", [0, 9, 10, 99, 100, 1_234])
def test_the_last_batch_contains_the_last_offset_that_is_wanted(last: int) -> None:
    log = Log(200)
    assert bounds(fetched(log, 0, last)) == (0, last // RECORDS * RECORDS + RECORDS - 1)
    assert log.read_bytes <= (last // RECORDS + 1) * log.batch_bytes + READ_BYTES


def test_it_ends_at_the_high_watermark() -> None:
    log = Log(20)
    log.high_watermark = 100
    assert bounds(fetched(log, 33, 1_000)) == (30, 99)
    assert fetched(log, 100, 1_000) is None


def test_compaction_may_have_removed_all_that_is_wanted() -> None:
    assert bounds(fetched(Log(20, gone=range(15)), 0, 9)) == (150, 159)


def test_the_clients_bytes_limit_it_and_the_first_batch_may_be_larger() -> None:
    log = Log(200)
    assert bounds(fetched(log, 0, 1_999, 20 * log.batch_bytes + 5)) == (0, 199)
    assert bounds(fetched(log, 0, 1_999, 5)) == bounds(fetched(log, 0, 1_999, 0)) == (0, 9)
    assert fetched(log, 0, 1_999, 5, at_least_one=False) is None
    assert fetched(log, 0, 1_999, 0, at_least_one=False) is None

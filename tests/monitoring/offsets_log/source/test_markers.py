"""What of a partition's end can be read: batches as a broker writes them."""

from __future__ import annotations

from coordinatord.monitoring.analysis.ends import Open, Tail
from coordinatord.monitoring.offsets_log.source.markers import batches, readable_end, tail_of
from kafka_wire.records.batch import TRANSACTIONAL, BatchBuilder, build_batch, build_control_batch
from kafka_wire.records.control import ControlType

NOW_MS = 1_000_000


def data(offset: int, count: int, producer: int | None = None) -> bytes:
    """A batch of `count` records, of a producer's transaction if one is given."""
    records = [(b"k", b"v")] * count
    if producer is None:
        return bytes(build_batch(records, NOW_MS, offset))
    builder = BatchBuilder()
    builder.extend(records, NOW_MS)
    return bytes(builder.finish(offset, attributes=TRANSACTIONAL, producer_id=producer, producer_epoch=0))


def marker(offset: int, kind: ControlType, producer: int) -> bytes:
    return bytes(build_control_batch(kind, producer, 0, 0, NOW_MS, offset))


COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT


def test_a_marker_at_the_end_is_nothing_to_read() -> None:
    found = batches(data(0, 9, 7) + marker(9, COMMIT, 7))
    assert tail_of(found, 0, 10) == Tail(9)
    assert readable_end(found, 0, 10) == 9


def test_records_of_an_aborted_transaction_are_nothing_to_read() -> None:
    found = batches(data(0, 5) + data(5, 3, 7) + marker(8, ABORT, 7) + data(9, 2, 8) + marker(11, ABORT, 8))
    assert tail_of(found, 0, 12) == Tail(5)


def test_a_transaction_that_was_committed_later_than_an_aborted_one() -> None:
    found = batches(data(0, 5, 7) + data(5, 3, 8) + marker(8, COMMIT, 7) + marker(9, ABORT, 8))
    assert tail_of(found, 0, 10) == Tail(5)


def test_an_open_transaction() -> None:
    """Its records may be committed; a consumer of committed records stops at the first, and before the marker there."""
    found = batches(data(0, 4, 7) + marker(4, COMMIT, 7) + data(5, 2, 8) + data(7, 1))
    assert tail_of(found, 0, 8) == Tail(8, 5, 4, Open(8, NOW_MS))


def test_without_data_nothing_can_be_read_since_the_begin() -> None:
    assert tail_of(batches(marker(40, COMMIT, 7) + marker(41, ABORT, 8)), 40, 42) == Tail(40)


def test_batches_that_do_not_reach_the_end_say_nothing() -> None:
    whole = data(0, 4, 7) + marker(4, COMMIT, 7)
    assert readable_end(batches(whole), 0, 9) is None
    assert readable_end(batches(whole[:-1]), 0, 5) is None, "the last one is cut off"
    assert batches(b"") == []
    assert len(batches(whole + b"\xff" * 80)) == 2, "what is no batch ends the piece"

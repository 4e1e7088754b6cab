"""The survey of a log before it is cleaned."""

from __future__ import annotations

import pytest

from coordinatord.broker.log import transaction_scan as module
from coordinatord.broker.log.segment import LOG_SUFFIX, segment_name
from coordinatord.broker.log.simulated_disk import SimulatedDisk
from coordinatord.broker.log.transaction_scan import survey
from kafka_wire.records.batch import TRANSACTIONAL, BatchBuilder

DIRECTORY = "/data"


def transactional(producer_id: int, base_offset: int) -> bytes:
    """A batch of one record in an open transaction."""
    builder = BatchBuilder()
    builder.extend([(b"k", b"v" * 100)], 1)
    made = builder.finish(attributes=TRANSACTIONAL, producer_id=producer_id, producer_epoch=0, base_sequence=0)
    made[:8] = base_offset.to_bytes(8, "big")
    return bytes(made)


@pytest.mark.parametrize("chunk_bytes", [1 << 20, 250, 200])
@pytest.mark.parametrize("durable", [0, 1, 3, 5])
def test_nothing_beyond_the_given_size_is_read(durable: int, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer appends to the segment meanwhile. What a crash may still take away must not decide what is cleaned."""
    monkeypatch.setattr(module, "_CHUNK_BYTES", chunk_bytes)
    disk = SimulatedDisk()
    disk.mkdir(DIRECTORY)
    file = disk.open(f"{DIRECTORY}/{segment_name(0)}{LOG_SUFFIX}", create=True)
    batches = [transactional(producer_id, producer_id) for producer_id in range(6)]
    file.pwrite(b"".join(batches), 0)
    size = sum(map(len, batches[:durable]))
    found = survey(disk, DIRECTORY, [(0, size)], active_since_ms=0)
    assert (found.end_offset, found.first_unstable, list(found.last)) == (durable, 0, list(range(durable)))

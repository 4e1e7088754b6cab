"""Snapshots of a partition's producers in Kafka's own file format, so that a restart need not read the whole log.

`<partition>/<offset, 20 digits>.snapshot` has the state before `offset`:

    int16 version 1 · uint32 CRC-32C of what follows · int32 count, then per producer
    int64 id · int16 epoch · int32 last sequence · int64 last offset · int32 offset delta · int64 timestamp
    int32 coordinator epoch · int64 first offset of its open transaction, -1 for none

The file has only the last batch of each producer; so after a restart only a retry of that batch is recognised, as in
Kafka.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from coordinatord.broker.topics.producers import Producer, RememberedBatch
from kafka_wire.records.crc import crc32c

SUFFIX = ".snapshot"
VERSION = 1

_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_FROM = 6


class SnapshotDamaged(Exception):
    """Raised for a file that is not a snapshot, or is damaged. The file is not needed: the log has
    all of its content.
    """


def file_name(offset: int) -> str:
    """Return the file name of the snapshot of the state before `offset`."""
    return f"{offset:020d}{SUFFIX}"


def offset_of(name: str) -> int | None:
    """Return the offset in a file's name; None if it is not a snapshot's name."""
    digits = name.removesuffix(SUFFIX)
    return int(digits) if len(digits) == 20 and digits.isascii() and digits.isdigit() and digits != name else None


def encode(producers: Iterable[Producer]) -> bytes:
    """Return the file's bytes."""
    entries = bytearray()
    count = 0
    for producer in producers:
        count += 1
        last = producer.batches[-1] if producer.batches else RememberedBatch(-1, -1, 0, producer.last_timestamp)
        entries += _ENTRY.pack(
            producer.producer_id,
            producer.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            producer.last_timestamp,
            producer.coordinator_epoch,
            producer.current_txn_first_offset,
        )
    body = struct.pack(">i", count) + entries
    return struct.pack(">hI", VERSION, crc32c(body)) + body


def decode(data: bytes) -> list[Producer]:
    """Return the producers in a file's bytes. Raises SnapshotDamaged."""
    if len(data) < _HEAD.size:
        raise SnapshotDamaged(f"{len(data)} bytes")
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise SnapshotDamaged(f"version {version}")
    if len(data) != _HEAD.size + count * _ENTRY.size:
        raise SnapshotDamaged(f"{count} producers in {len(data)} bytes")
    if crc32c(data[_CRC_FROM:]) != crc:
        raise SnapshotDamaged("its CRC does not match")
    producers = []
    for entry in _ENTRY.iter_unpack(data[_HEAD.size :]):
        producer_id, epoch, sequence, last_offset, delta, timestamp, coordinator_epoch, first_offset = entry
        producer = Producer(producer_id, epoch, coordinator_epoch, timestamp, first_offset)
        if last_offset >= 0:
            producer.batches.append(RememberedBatch(sequence, last_offset, delta, timestamp))
        producers.append(producer)
    return producers

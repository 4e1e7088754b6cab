"""Text dump of a log's files: batches, records, index entries, journal writes.

`describe(path)` accepts a segment, an index, a journal, or a partition's directory (all its segments), and yields
lines. A line reports damage at the position where it is found. No file is repaired.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from coordinatord.broker.log.disk import Disk, File, ReadOnlyDisk
from coordinatord.broker.log.errors import LogDamaged
from coordinatord.broker.log.index import OFFSET_ENTRY, TIME_ENTRY
from coordinatord.broker.log.journal import PREFIX, read_journal
from coordinatord.broker.log.scan import scan
from coordinatord.broker.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import BatchHeader, Record, iterate_batches, records
from kafka_wire.records.compression import Compression
from kafka_wire.records.control import decode_key

#: (key, value) of a record -> its text
Decoder = Callable[[bytes | None, bytes | None], str]

#: Longest value that is shown in full, in bytes; of a longer value, the first bytes and the length are shown.
SHOWN_BYTES = 80


def describe(
    path: str, *, with_records: bool = True, decoder: Decoder | None = None, disk: Disk | None = None
) -> Iterator[str]:
    """Yield lines about the file or partition directory at `path`. If a file is damaged, its last line has the position
    and the reason.
    """
    disk = disk or ReadOnlyDisk()
    if disk.is_dir(path):
        for name in sorted(disk.listdir(path)):
            if name.endswith(LOG_SUFFIX):
                yield from describe(f"{path}/{name}", with_records=with_records, decoder=decoder, disk=disk)
        return
    yield f"{path}:"
    name = os.path.basename(path)
    try:
        if name.startswith(PREFIX):
            yield from _journal_lines(disk, path)
            return
        file = disk.open(path)
        try:
            if name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX)):
                yield from _index_lines(file, name)
            else:
                yield from _segment_lines(file, path, with_records, decoder or plain)
        finally:
            file.close()
    except LogDamaged as damage:
        yield f"damaged at byte {damage.position}: {damage.reason}"


def plain(key: bytes | None, value: bytes | None) -> str:
    """Return a key and a value without a known format: as text if printable, otherwise in hexadecimal."""
    return f"key {_shown(key)} value {_shown(value)}"


def _segment_lines(file: File, path: str, with_records: bool, decoder: Decoder) -> Iterator[str]:
    count = record_count = 0
    for position, header, buffer, at in scan(file, path, 0, file.size()):
        yield f"  {batch_line(header, position)}"
        count += 1
        record_count += header.record_count
        if with_records:
            try:
                for record in records(buffer, at, header):
                    yield f"    {_record_line(record, header, decoder)}"
            except DecodeError as error:
                raise LogDamaged(path, position, f"the CRC matches, but the records cannot be read: {error}") from None
    yield f"  {count} batches, {record_count} records, {file.size()} bytes, all sound"


def batch_line(header: BatchHeader, position: int) -> str:
    """Return one line about one batch."""
    parts = [
        f"batch at {position}: offsets {header.base_offset}..{header.last_offset}, {header.record_count} records,"
        f" {header.size} bytes, crc {header.crc:#010x}",
        f"timestamps {header.base_timestamp}..{header.max_timestamp}",
    ]
    if header.is_log_append_time:
        parts.append("log-append time")
    if header.codec:
        parts.append(Compression(header.codec).name.lower() if header.codec <= Compression.ZSTD else "unknown codec")
    if header.producer_id >= 0:
        parts.append(f"producer {header.producer_id}/{header.producer_epoch} sequence {header.base_sequence}")
    if header.is_transactional:
        parts.append("transactional")
    if header.is_control:
        parts.append("control")
    if header.leader_epoch:
        parts.append(f"leader epoch {header.leader_epoch}")
    return ", ".join(parts)


def _record_line(record: Record, header: BatchHeader, decoder: Decoder) -> str:
    if header.is_control:
        return f"{record.offset} @{record.timestamp} {decode_key(record.key).name} marker"
    line = f"{record.offset} @{record.timestamp} {decoder(record.key, record.value)}"
    if record.headers:
        line += " headers " + ", ".join(f"{name}={_shown(value)}" for name, value in record.headers)
    return line


def _index_lines(file: File, name: str) -> Iterator[str]:
    base_offset = int(name.partition(".")[0])
    is_time = name.endswith(TIME_INDEX_SUFFIX)
    entry = TIME_ENTRY if is_time else OFFSET_ENTRY
    data = file.pread(file.size(), 0)
    for first, second in entry.iter_unpack(data[: len(data) - len(data) % entry.size]):
        if is_time:
            yield f"  timestamp {first} offset {base_offset + second}"
        else:
            yield f"  offset {base_offset + first} position {second}"
    if len(data) % entry.size:
        yield f"  {len(data) % entry.size} bytes too many for whole entries"


def _journal_lines(disk: Disk, path: str) -> Iterator[str]:
    for entry in read_journal(disk, path):
        yield f"  {entry.name}: {len(entry.data)} bytes at {entry.position} of segment {entry.base_offset}"
        yield from (f"    {batch_line(header, at)}" for at, header in iterate_batches(entry.data))


def _shown(data: bytes | None) -> str:
    if data is None:
        return "null"
    text = data[:SHOWN_BYTES].decode("utf-8", "replace")
    shown = repr(text) if text.isprintable() else data[:SHOWN_BYTES].hex()
    return shown if len(data) <= SHOWN_BYTES else f"{shown}… ({len(data)} bytes)"

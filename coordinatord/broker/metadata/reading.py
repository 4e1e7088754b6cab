"""Reading of the metadata log's files while another worker writes them.

A batch is in its file, whole, before the owner publishes it. The file may also have a part of the next batch, which the
owner publishes later: reading stops there, and the reader compares the batches that it read with those that were
published. A segment may disappear at any time; then the log begins with a later one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from coordinatord.broker.log.disk import Disk
from coordinatord.broker.log.errors import LogDamaged
from coordinatord.broker.log.names import segment_bases
from coordinatord.broker.log.scan import scan
from coordinatord.broker.log.segment import LOG_SUFFIX, segment_name
from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import check_crc, read_header
from kafka_wire.records.key_values import key_values

ATTEMPTS: Final = 10
"""Maximum number of attempts to list and read the segments if they disappear: each time the owner has written a
snapshot in the meantime.
"""


@dataclass(frozen=True, slots=True)
class Values:
    """Values of a batch's records, their offsets, and the position of the batch."""

    values: list[bytes | None]
    base_offset: int
    next_offset: int
    path: str
    position: int

    def damaged(self, error: DecodeError) -> LogDamaged:
        """Return the error to raise if the records cannot be read."""
        return _unreadable(self.path, self.position, error)


def read_on(disk: Disk, directory: str, next_offset: int) -> Iterator[Values]:
    """Yield the batches from `next_offset` on, up to one that is not whole. If the log begins later, yield all of it:
    then the first batch's `base_offset` is above `next_offset`. Raises LogDamaged if a whole batch has no valid
    records.
    """
    for _ in range(ATTEMPTS):
        try:
            bases = segment_bases(disk.listdir(directory)) if disk.is_dir(directory) else []
            for number, base in enumerate(bases):
                if number + 1 < len(bases) and bases[number + 1] <= next_offset:
                    continue
                for values in _read(disk, f"{directory}/{segment_name(base)}{LOG_SUFFIX}"):
                    if values.next_offset > next_offset:
                        yield values
                        next_offset = values.next_offset
        except FileNotFoundError:
            continue
        except _Unfinished:
            return
        return


class _Unfinished(Exception):
    """Raised if the next batch is not whole yet."""


def _read(disk: Disk, path: str) -> Iterator[Values]:
    file = disk.open(path)
    try:
        batches = scan(file, path, 0, file.size())
        while True:
            try:
                position, header, buffer, at = next(batches)
            except StopIteration:
                return
            except LogDamaged:
                raise _Unfinished from None
            try:
                values = [value for _offset, _time, _key, value in key_values(buffer, at, header)]
            except DecodeError as error:
                raise _unreadable(path, position, error) from None
            yield Values(values, header.base_offset, header.next_offset, path, position)
    finally:
        file.close()


def values_of(batch: bytes, where: str) -> Values:
    """Return the values of one batch that is not in a file. Raises LogDamaged if its records are not valid."""
    try:
        header = read_header(batch)
        check_crc(batch, 0, header)
        values = [value for _offset, _time, _key, value in key_values(batch, 0, header)]
    except DecodeError as error:
        raise LogDamaged(where, 0, str(error)) from None
    return Values(values, header.base_offset, header.next_offset, where, 0)


def _unreadable(path: str, position: int, error: DecodeError) -> LogDamaged:
    return LogDamaged(path, position, f"the CRC matches, but the records cannot be read: {error}")

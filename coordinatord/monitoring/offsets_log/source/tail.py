"""The ends of logs, and the limits of a micro-batch: the part of the streaming reader that does not use Spark.

A position is a dict {log: next offset}, which Spark stores in a checkpoint. A log that is missing in it is read from
offset 0. Offsets do not change when the cleaner replaces files, so a restart continues exactly at the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from coordinatord.monitoring.offsets_log.source.options import Options
from coordinatord.monitoring.offsets_log.source.ranges import Range, plan
from coordinatord.monitoring.offsets_log.source.segments import (
    Log,
    Segment,
    SourceError,
    find_logs,
    header_at,
    index_entries,
    position_of,
    reading_files,
    walk,
)

Position = dict[str, int]


class DataLoss(SourceError):
    """Raised for a log that has lost records which the query has read, or has not read yet."""


@dataclass(slots=True)
class _Known:
    """The end of a log at the last read: the batch before `position` ends at `next_offset`."""

    segment: Segment
    position: int
    next_offset: int


class FileTail:
    """The ends of the logs in directories, read again at each micro-batch."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.absent: frozenset[str] = frozenset()
        """Logs that cannot be read at present. Empty: the logs of a broker may be unavailable, files are not."""
        self._known: dict[str, _Known] = {}

    def logs(self) -> dict[str, Log]:
        """Return the logs that exist now, by name."""
        found = find_logs(self.options.paths, self.options.topic, self.options.partitions)
        return {log.name: log for log in found}

    @reading_files()
    def ends(self) -> Position:
        """Return the end of each log."""
        return {name: self._end(log) for name, log in self.logs().items()}

    def _end(self, log: Log) -> int:
        """Return the offset after the last complete and valid batch. A batch behind it is still being written."""
        segments = log.segments()
        if not segments:
            return 0
        last = segments[-1]
        known = self._known.get(log.name)
        if known is not None and known.segment.identity == last.identity and known.position <= last.size:
            position, next_offset = known.position, known.next_offset
        else:
            position, next_offset = 0, last.base_offset
        with open(last.path, "rb", buffering=0) as opened:
            file = opened.fileno()
            if not position:
                position = _late_position(last, file)
            for batch in walk(file, position, last.size, with_crc=True):
                if batch.sound or batch.after < last.size:
                    position, next_offset = batch.after, max(next_offset, batch.last_offset + 1)
        self._known[log.name] = _Known(last, position, next_offset)
        return next_offset

    @reading_files()
    def limited(self, start: Position, ends: Position, max_bytes: int | None, max_records: int | None) -> Position:
        """Return the end of the micro-batch that begins at `start`. See shared_fairly."""
        logs = self.logs()
        return shared_fairly(
            lambda name, first, end: _batches(logs[name], first, end), start, ends, max_bytes, max_records
        )

    @reading_files()
    def plan(self, start: Position, end: Position) -> list[Range]:
        """Return the ranges of files that contain the offsets from `start` to `end`. Raises DataLoss for a log that is
        gone.
        """
        logs = self.logs()
        found: list[Range] = []
        for name, next_offset in end.items():
            first = start.get(name, 0)
            if next_offset > first:
                if name not in logs:
                    raise DataLoss(
                        f"{name} is gone, and the query still had to read its offsets {first} to {next_offset}"
                    )
                found += plan(logs[name], self.options.split_bytes, first, next_offset)
        return found


def _late_position(segment: Segment, file: int) -> int:
    """Return the position of a batch near the segment's end, from its index; 0 if the index has no valid entry."""
    for _, position in reversed(index_entries(segment)[-2:].tolist()):
        head = header_at(file, position)
        if head is not None and head[0] >= segment.base_offset:
            return int(position)
    return 0


def _batches(log: Log, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Return (bytes, records, next offset) of each batch with offsets in [start, end)."""
    segments = log.segments()
    for number, segment in enumerate(segments):
        if segment.base_offset >= end:
            return
        if number + 1 < len(segments) and segments[number + 1].base_offset <= start:
            continue
        with open(segment.path, "rb", buffering=0) as opened:
            file = opened.fileno()
            for batch in walk(file, position_of(segment, file, start), segment.size):
                if batch.base_offset >= end:
                    return
                yield batch.after - batch.position, batch.records, min(batch.last_offset + 1, end)


def shared_fairly(
    batches: Callable[[str, int, int], Iterator[tuple[int, int, int]]],
    start: Position,
    ends: Position,
    max_bytes: int | None,
    max_records: int | None,
) -> Position:
    """Return the end of the micro-batch that begins at `start`, with at most `max_bytes` and `max_records` (None: no
    limit). The logs with the fewest unread offsets are served first; each gets an equal share of what is left. The
    micro-batch has at least one batch of one log, whatever its size, so that a query makes progress. `batches` returns
    (bytes, records, next offset) of a log's batches from one offset to another.
    """
    behind = sorted((name for name in ends if ends[name] > start.get(name, 0)), key=lambda n: ends[n] - start.get(n, 0))
    reached = {name: start.get(name, 0) for name in ends}
    first: tuple[str, int] | None = None
    for number, name in enumerate(behind):
        logs_left = len(behind) - number
        bytes_left = None if max_bytes is None else max_bytes // logs_left
        records_left = None if max_records is None else max_records // logs_left
        used_bytes = used_records = 0
        for size, records, next_offset in batches(name, reached[name], ends[name]):
            first = first or (name, next_offset)
            if (bytes_left is not None and used_bytes + size > bytes_left) or (
                records_left is not None and used_records + records > records_left
            ):
                break
            used_bytes, used_records, reached[name] = used_bytes + size, used_records + records, next_offset
        else:
            reached[name] = ends[name]
        max_bytes = None if max_bytes is None else max_bytes - used_bytes
        max_records = None if max_records is None else max_records - used_records
    if first is not None and all(reached[name] == start.get(name, 0) for name in behind):
        reached[first[0]] = first[1]
    return reached


def check_kept(start: Position, ends: Position, fail: bool, absent: Collection[str] = ()) -> Position:
    """Return `start` if no log has lost records before it. Otherwise raise DataLoss if `fail`; if not, return `start`
    without the logs that are gone, and with the ends of those that are shorter. The logs in `absent` cannot be read at
    present, and keep their positions.
    """
    kept = dict(start)
    for name, next_offset in start.items():
        if name in absent:
            continue
        if name not in ends:
            if fail and next_offset:
                raise DataLoss(
                    f"{name} was read up to offset {next_offset} and is gone; if that is intended, continue with the "
                    "option failOnDataLoss=false"
                )
            kept.pop(name)
        elif ends[name] < next_offset:
            if fail:
                raise DataLoss(
                    f"{name} ends at offset {ends[name]}, and this query has read up to {next_offset}: the log was cut "
                    "or is another cluster's. Start with a new checkpoint, or set the option failOnDataLoss=false"
                )
            kept[name] = ends[name]
    return kept

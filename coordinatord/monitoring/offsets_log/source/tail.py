"""The ends of logs, and the limits of a micro-batch: the part of the streaming reader without Spark.

A position is a dict {log: next offset}, which Spark stores in a checkpoint. A log missing in it begins at 0. Offsets
are those of the log itself, so a restart continues exactly at the checkpoint, whatever the cleaner has done to files
and positions meanwhile.
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
    """The log has lost records that the query has read or still had to read."""


@dataclass(slots=True)
class _Known:
    """The end of a log at the last read: the batch before `position` ends at `next_offset`."""

    segment: Segment
    position: int
    next_offset: int


class FileTail:
    """The logs in directories as they grow."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.absent: frozenset[str] = frozenset()
        """Logs that cannot be read for now: none, as they are files."""
        self._known: dict[str, _Known] = {}

    def logs(self) -> dict[str, Log]:
        found = find_logs(self.options.paths, self.options.topic, self.options.partitions)
        return {log.name: log for log in found}

    @reading_files()
    def ends(self) -> Position:
        return {name: self._end(log) for name, log in self.logs().items()}

    def _end(self, log: Log) -> int:
        """Return the offset after the last whole and valid batch. An incomplete one is still being written."""
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
        """Return the end of a micro-batch from `start`: see shared_fairly."""
        logs = self.logs()
        return shared_fairly(
            lambda name, first, end: _batches(logs[name], first, end), start, ends, max_bytes, max_records
        )

    @reading_files()
    def plan(self, start: Position, end: Position) -> list[Range]:
        logs = self.logs()
        found: list[Range] = []
        for name, next_offset in end.items():
            first = start.get(name, 0)
            if next_offset > first:
                if name not in logs:
                    raise DataLoss(f"{name} is gone, and the query was to read its offsets {first} to {next_offset}")
                found += plan(logs[name], self.options.split_bytes, first, next_offset)
        return found


def _late_position(segment: Segment, file: int) -> int:
    """Return the position of a batch near the segment's end, from its index; 0 without one."""
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
    """Return the end of a micro-batch from `start` with at most this many bytes and records, shared fairly among logs;
    at least one batch of one log, so that a query makes progress. `batches` returns (bytes, records, next offset) of a
    log's batches from one offset to another.
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
    """Return `start`, if the logs still have it; if not, raise DataLoss if `fail`, otherwise replace it by the logs'
    own ends. The logs in `absent` cannot be read for now, and keep their positions.
    """
    kept = dict(start)
    for name, next_offset in start.items():
        if name in absent:
            continue
        if name not in ends:
            if fail and next_offset:
                raise DataLoss(
                    f"{name} was read up to offset {next_offset} and is gone; if that is right, go on with the option "
                    "failOnDataLoss=false"
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

"""The ends of partitions, with earlier ends: from the directory of a broker's log, from a database, or from a broker.

The offsets log has the groups' positions, not the ends of the partitions. A directory has the whole history of a
partition's end offset in its time indexes, and in the batches behind their last entries; the other sources have only
the present one, so a curve needs repeated samples.
"""

from __future__ import annotations

import os
import re
import struct
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from coordinatord.monitoring.analysis.ends import NO_TAIL, WINDOW_MS, Ends, Tail
from coordinatord.monitoring.analysis.generations import TopicPartition
from coordinatord.monitoring.analysis.offset_timeline import Point
from coordinatord.monitoring.offsets_log.source import store
from coordinatord.monitoring.offsets_log.source.markers import BACK_BYTES, batches, tail_of
from coordinatord.monitoring.offsets_log.source.options import PATIENCE_S
from coordinatord.monitoring.offsets_log.source.segments import (
    Log,
    Segment,
    SourceError,
    Walked,
    index_bytes,
    index_entries,
    reading_files,
    walk,
)
from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import CONTROL, HEADER_BYTES, TRANSACTIONAL, read_header
from kafka_wire.records.key_values import key_values

#: An entry of Kafka's time index: the greatest timestamp so far, and the relative offset of its record.
TIME_ENTRY = struct.Struct(">qi")

#: Maximum number of points kept for one partition: enough for a curve.
MAX_POINTS = 1_000

PARTITION_DIRECTORY = re.compile(r"(.+)-(\d+)")

#: First offsets of partitions that DeleteRecords has cut within a segment. Workers of coordinatord have a file each.
START_CHECKPOINT = re.compile(r"log-start-offset-checkpoint(\.worker-\d+)?")


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one partition at `sampled_ms`. `points` are known earlier ends."""

    topic: str
    partition: int
    sampled_ms: int
    log_start_offset: int
    end_offset: int
    points: tuple[Point, ...] = ()
    tail: Tail = NO_TAIL
    retention_ms: int | None = None

    @property
    def ends(self) -> Ends:
        """The ends in the form that the rules need."""
        return Ends(self.log_start_offset, self.end_offset, self.sampled_ms, self.tail, self.retention_ms)


def is_place(text: str) -> bool:
    """Return whether `text` is a directory or a database, and not a broker."""
    return store.is_stored(text) or os.path.isdir(text)


@reading_files()
def from_directories(
    paths: Sequence[str], now_ms: int, topics: frozenset[str] | None = None, *, with_points: bool = True
) -> list[Ending]:
    """Return all partitions in brokers' log directories, or in a database, without internal topics unless named.
    Without `with_points`, earlier ends are left out: `points_of` reads them later. Raises SourceError.
    """
    found: list[Ending] = []
    for path in paths:
        if store.is_stored(path):
            found += _stored(path, now_ms, topics)
            continue
        if not os.path.isdir(path):
            raise SourceError(f"{path} is not a directory: --end-offsets wants a broker's log directory or HOST:PORT")
        names = sorted(os.listdir(path))
        starts = _starts_in(path, names)
        for name in names:
            match = PARTITION_DIRECTORY.fullmatch(name)
            directory = os.path.join(path, name)
            if match is None or not os.path.isdir(directory):
                continue
            if _is_wanted(match[1], topics):
                with suppress(FileNotFoundError):  # deleted meanwhile: the topic, or segments by retention
                    log, start = Log(name, directory, int(match[2])), starts.get((match[1], int(match[2])), 0)
                    ending = _ending(log, match[1], now_ms, start, with_points)
                    found += [] if ending is None else [ending]
    return found


def _starts_in(path: str, names: Sequence[str]) -> dict[TopicPartition, int]:
    """Return the start offsets in the checkpoints of a broker's directory. The highest of several is used, as by
    coordinatord when it starts after a crash.
    """
    texts: list[str] = []
    for name in names:
        if START_CHECKPOINT.fullmatch(name):
            with suppress(OSError, UnicodeDecodeError), open(os.path.join(path, name), encoding="utf-8") as file:
                texts.append(file.read())
    return _highest(texts)


def _highest(texts: Iterable[str]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for text in texts:
        for where, start in _checkpoint(text).items():
            found[where] = max(start, found.get(where, 0))
    return found


def _checkpoint(text: str) -> dict[TopicPartition, int]:
    r"""Return the offsets in a file like `0\n1\norders 0 30`; none if it is damaged. Then only the segments are used,
    and the first of them may begin too early.
    """
    found: dict[TopicPartition, int] = {}
    try:
        version, count, *lines = text.splitlines()
        for line in lines:
            topic, number, offset = line.split(" ")
            found[topic, int(number)] = int(offset)
        return found if (int(version), int(count)) == (0, len(found)) else {}
    except ValueError:
        return {}


def _is_wanted(topic: str, topics: frozenset[str] | None) -> bool:
    return topic in topics if topics is not None else not topic.startswith("__")


def _stored(url: str, now_ms: int, topics: frozenset[str] | None) -> list[Ending]:
    starts, checkpoint = store.starts(url), _highest(store.start_checkpoints(url))
    found = []
    for each in store.places(url):
        if _is_wanted(each.topic, topics):
            first = starts.get((each.topic_id, each.partition), each.end_offset)
            start = _start(first, checkpoint.get((each.topic, each.partition), 0), each.end_offset)
            found.append(Ending(each.topic, each.partition, now_ms, start, each.end_offset))
    return found


def _start(first: int, start: int, end: int) -> int:
    """Return the first offset of a partition whose first segment begins at `first`. A checkpoint's offset beyond the
    end belongs to a former topic of that name.
    """
    return max(first, start) if start <= end else first


@reading_files()
def points_of(path: str, ending: Ending) -> list[Point]:
    """Return known earlier ends of a partition that from_directories found in this directory; none in a database."""
    if store.is_stored(path):
        return []
    name = f"{ending.topic}-{ending.partition}"
    with suppress(FileNotFoundError):  # deleted meanwhile
        found = _earlier(Log(name, os.path.join(path, name), ending.partition).segments())
        return [point for point in found if point.offset <= ending.end_offset]
    return []


def _ending(log: Log, topic: str, now_ms: int, start: int, with_points: bool) -> Ending | None:
    """Return the end of a partition, None if it has no segment. `start` is the first offset by a checkpoint."""
    segments = log.segments()
    assert log.partition is not None
    if not segments:
        return None
    last = segments[-1]
    end = max((batch.last_offset + 1 for batch in _not_indexed(last)), default=last.base_offset)
    points = tuple(_earlier(segments)) if with_points else ()
    start = _start(segments[0].base_offset, start, end)
    return Ending(topic, log.partition, now_ms, start, end, points, _tail(last, end))


def _tail(segment: Segment, end: int) -> Tail:
    """Return the tail of a partition, from its last segment."""
    entries = index_entries(segment)
    positions = [0, *(int(position) for position in entries[:, 1])]
    with open(segment.path, "rb") as file:
        file.seek(positions[-1])
        closing = batches(file.read(BACK_BYTES))
        if not closing or not closing[-1].header.attributes & (CONTROL | TRANSACTIONAL):
            return NO_TAIL
        first = next(each for each in positions if each >= segment.size - BACK_BYTES or each == positions[-1])
        file.seek(first)
        found = batches(file.read(segment.size - first))
    return tail_of(found, found[0].header.base_offset, end) if found else NO_TAIL


def _not_indexed(segment: Segment) -> Iterator[Walked]:
    """Yield the sound batches from the last entry of the segment's offset index on. Kafka adds an entry to the indexes
    of an active segment only every index.interval.bytes, 4 KiB.
    """
    entries = index_entries(segment)
    position = int(entries[-1][1]) if len(entries) else 0
    with open(segment.path, "rb") as file:
        for batch in walk(file.fileno(), position, segment.size):
            if batch.sound:
                yield batch


def _earlier(segments: Sequence[Segment]) -> list[Point]:
    points = _thinned([point for segment in segments for point in _points(segment)])
    recent: list[Point] = []
    for batch in _not_indexed(segments[-1]) if segments else ():
        before = (recent or points or [Point(0, 0)])[-1]
        if batch.last_offset >= before.offset and batch.max_timestamp > before.time_ms:
            recent.append(Point(batch.last_offset + 1, batch.max_timestamp))
    return [*points, *_thinned(recent)]


def _points(segment: Segment) -> list[Point]:
    """Return the points of a segment's time index: when the record at an offset was written, the end was one more."""
    points: list[Point] = []
    for time_ms, relative in TIME_ENTRY.iter_unpack(index_bytes(segment, ".timeindex", TIME_ENTRY.size)):
        # Kafka pads its active index with zeros.
        if time_ms <= 0 or relative < 0 or (points and segment.base_offset + relative + 1 <= points[-1].offset):
            break
        points.append(Point(segment.base_offset + relative + 1, time_ms))
    return points


def _thinned(points: list[Point]) -> list[Point]:
    if len(points) <= MAX_POINTS:
        return points
    stride = -(-len(points) // MAX_POINTS)
    return [*points[:-1:stride], points[-1]]


class RecordTimes:
    """Timestamps of records in brokers' log directories or a database, for one sample: the segments of a partition are
    listed once, however many groups read it.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths
        self._listed: dict[Log, list[Segment]] = {}

    def __call__(self, topic: str, partition: int, offset: int) -> int | None:
        """Return the timestamp of the record at `offset`, or of the first one after it; None if there is none. Raises
        SourceError if a database does not respond.
        """
        times = (self._time_in(path, topic, partition, offset) for path in self.paths)
        return next((time_ms for time_ms in times if time_ms is not None), None)

    def _time_in(self, path: str, topic: str, partition: int, offset: int) -> int | None:
        if store.is_stored(path):
            return store.record_time(path, topic, partition, offset)
        name = f"{topic}-{partition}"
        segments = self._segments(Log(name, os.path.join(path, name), partition))
        later = bisect_right(segments, offset, key=lambda segment: segment.base_offset)
        times = (_record_time(segment, offset) for segment in segments[max(0, later - 1) :])
        return next((time_ms for time_ms in times if time_ms is not None), None)

    def _segments(self, log: Log) -> list[Segment]:
        """Return the segments that are not empty, by base offset; none if the partition is missing."""
        known = self._listed.get(log)
        if known is None:
            try:
                known = [segment for segment in log.segments() if segment.size]
            except (FileNotFoundError, SourceError):
                known = []
            self._listed[log] = known
        return known


def _record_time(segment: Segment, offset: int) -> int | None:
    entries = index_entries(segment)
    below = entries[entries[:, 0] <= offset]
    position = int(below[-1][1]) if len(below) else 0
    try:
        with open(segment.path, "rb") as file:
            for batch in walk(file.fileno(), position, segment.size):
                if not batch.sound or batch.last_offset < offset:
                    continue
                data = os.pread(file.fileno(), batch.after - batch.position, batch.position)
                if len(data) < HEADER_BYTES:
                    return None
                for record_offset, timestamp, _key, _value in key_values(data, 0, read_header(data)):
                    if record_offset >= offset:
                        return timestamp
    except (OSError, DecodeError):
        return None
    return None


def from_broker(
    bootstrap: str,
    now_ms: int,
    partitions: Collection[TopicPartition] | None,
    options: Mapping[str, Any] | None = None,
    window_ms: int = WINDOW_MS,
) -> list[Ending]:
    """Return the present ends of these partitions (None: of all topics but internal ones), from the broker, with their
    tails, and with ends within the window by the timestamps of records. Partitions that do not exist, or have no leader
    at present, are omitted. Raises SourceError if no broker responds. `options` are kafka-python's settings
    (security_protocol, ssl_cafile …).
    """
    from coordinatord.monitoring.offsets_log.source.cluster import Cluster
    from coordinatord.monitoring.offsets_log.source.tails import earlier, retention, tails

    with Cluster(bootstrap, options or {}, PATIENCE_S) as cluster:
        found = cluster.bounds(cluster.places() if partitions is None else partitions)
        points, of_place = earlier(cluster, found, now_ms, window_ms), tails(cluster, found)
        kept = retention(cluster, {topic for topic, _ in found})
    return [
        Ending(
            *place, now_ms, start, end, tuple(points.get(place, ())), of_place.get(place, NO_TAIL), kept.get(place[0])
        )
        for place, (start, end) in sorted(found.items())
    ]

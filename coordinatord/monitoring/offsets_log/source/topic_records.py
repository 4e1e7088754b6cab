"""All records of a small internal topic, from the place of the offsets log: directories, a database, or a broker. A
cluster without the topic has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from coordinatord.monitoring.offsets_log.source import store
from coordinatord.monitoring.offsets_log.source.broker import fetch
from coordinatord.monitoring.offsets_log.source.options import Options
from coordinatord.monitoring.offsets_log.source.segments import Log, SourceError, find_logs, reading_files
from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import iterate_batches
from kafka_wire.records.key_values import key_values


class TopicRecord(NamedTuple):
    """A record, without its headers."""

    partition: int
    offset: int
    time_ms: int
    key: bytes | None
    value: bytes | None


def records_of(
    options: Options, topic: str, starts: Mapping[int, int], remedy: str = "", *, exists: bool = False
) -> Iterator[TopicRecord]:
    """Return the records of the topic's selected partitions from the offsets in `starts` on, in order within each.
    `remedy` ends the message about a damaged segment; {0} in it is the name of the segment's directory. `exists` states
    that the cluster has the topic: a broker that does not show it then refuses it to the user. Raises SourceError.
    """
    options = replace(options, topic=topic)
    if options.bootstrap is not None:
        return _of_broker(options, starts, exists=exists)
    if options.store is not None:
        return _of_store(options, options.store, starts)
    return _of_directories(options, starts, remedy)


def _of_directories(options: Options, starts: Mapping[int, int], remedy: str) -> Iterator[TopicRecord]:
    for path in options.paths:
        try:
            logs = find_logs([path], options.topic, None)
        except SourceError:
            continue  # a directory of another broker, or of the offsets log alone
        for log in logs:
            if log.partition is not None and _is_wanted(options, log.partition):
                yield from _of_log(log, log.partition, starts.get(log.partition, 0), remedy.format(log.name))


def _of_store(options: Options, url: str, starts: Mapping[int, int]) -> Iterator[TopicRecord]:
    for place in store.places(url):
        if place.topic == options.topic and _is_wanted(options, place.partition):
            start = starts.get(place.partition, 0)
            for _base_offset, batch in store.batches(place, start, place.end_offset):
                try:
                    yield from _records(batch, place.partition, start)
                except DecodeError as error:
                    raise SourceError(f"a row of {place.name} in the database is damaged: {error}") from None


def _is_wanted(options: Options, partition: int) -> bool:
    return options.partitions is None or partition in options.partitions


def _of_log(log: Log, partition: int, start: int, remedy: str) -> Iterator[TopicRecord]:
    segments = log.segments()
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        if following is not None and following.base_offset <= start:
            continue
        with reading_files():
            try:
                with open(segment.path, "rb") as file:
                    data = file.read()
            except FileNotFoundError:
                continue  # just removed by retention
        try:
            yield from _records(data, partition, start)
        except DecodeError as error:
            if following is not None:
                raise SourceError(f"{segment.path} is damaged: {error}{remedy}") from None
            return  # the broker is writing its end


def _of_broker(options: Options, starts: Mapping[int, int], *, exists: bool) -> Iterator[TopicRecord]:
    """Return records up to the partitions' present ends. Records that retention has removed are skipped, and partitions
    that have no leader now: in an outage the others are shown.
    """
    from coordinatord.monitoring.offsets_log.source.cluster import Cluster

    assert options.bootstrap is not None
    topic = options.topic
    # Of a topic that it does not have, a broker also answers that the user may not describe it.
    required = [topic] if exists else []
    with Cluster(options.bootstrap, options.broker, options.patience_s, *required) as cluster:
        wanted = [(topic, number) for number in cluster.partitions(topic) if _is_wanted(options, number)]
        for (_, partition), (_, end) in sorted(cluster.bounds(wanted).items()):
            offset = starts.get(partition, 0)
            while offset < end:
                data, log_start = fetch(cluster, options, partition, offset)
                if data is None:
                    offset = log_start
                    continue
                yield from _records(data, partition, offset)
                after = max((header.next_offset for _, header in iterate_batches(data, partial=True)), default=offset)
                if after <= offset:
                    raise SourceError(f"{topic}-{partition} ends at {offset}, {end} was expected")
                offset = after


def _records(data: bytes, partition: int, start: int) -> Iterator[TopicRecord]:
    for position, header in iterate_batches(data, partial=True):
        if header.last_offset >= start and not header.is_control:
            for offset, time_ms, key, value in key_values(data, position, header):
                if offset >= start:
                    yield TopicRecord(partition, offset, time_ms, key, value)

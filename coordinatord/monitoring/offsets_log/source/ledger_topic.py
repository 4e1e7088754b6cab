"""Reader of `__rebalances`, in which coordinatord logs the causes of rebalances, from the place of its offsets log:
directories, a database, or the broker that serves it (kafka_wire/records/rebalance_ledger.py has the fields). A plain
Kafka cluster has no such topic: then nothing is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from coordinatord.monitoring.offsets_log.source import store
from coordinatord.monitoring.offsets_log.source.broker import connected, fetch, partitions_of
from coordinatord.monitoring.offsets_log.source.options import Options
from coordinatord.monitoring.offsets_log.source.segments import Log, SourceError, find_logs, reading_files
from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import iterate_batches
from kafka_wire.records.key_values import key_values
from kafka_wire.records.rebalance_ledger import LEDGER_TOPIC, REDELIVERY_VERSION, unreadable

Entry = tuple[int, int, str, str]
"""Partition, offset, group, the record as JSON."""


def ledger_of(options: Options, starts: Mapping[int, int]) -> Iterator[Entry]:
    """Return the wanted groups' records from the offsets in `starts` on, in order within each partition. Raises
    SourceError.
    """
    of = _of_broker(options, starts) if options.bootstrap is not None else _of_directories(options, starts)
    for entry in of:
        if options.wanted.has_group(entry[2]):
            yield entry


def _of_directories(options: Options, starts: Mapping[int, int]) -> Iterator[Entry]:
    if options.store is not None:
        yield from _of_store(options, options.store, starts)
        return
    for path in options.paths:
        try:
            logs = find_logs([path], LEDGER_TOPIC, None)
        except SourceError:
            continue  # a directory of another broker, or of the offsets log alone
        for log in logs:
            if log.partition is not None and _is_wanted(options, log.partition):
                yield from _of_log(log, log.partition, starts.get(log.partition, 0))


def _of_store(options: Options, url: str, starts: Mapping[int, int]) -> Iterator[Entry]:
    for place in store.places(url):
        if place.topic == LEDGER_TOPIC and _is_wanted(options, place.partition):
            start = starts.get(place.partition, 0)
            for _base_offset, batch in store.batches(place, start, place.end_offset):
                try:
                    yield from _entries(batch, place.partition, start)
                except DecodeError as error:
                    raise SourceError(f"a row of {place.name} in the database is damaged: {error}") from None


def _is_wanted(options: Options, partition: int) -> bool:
    """Apply the offsets log's selection of partitions: a group has the same partition number here."""
    return options.partitions is None or partition in options.partitions


def _of_log(log: Log, partition: int, start: int) -> Iterator[Entry]:
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
            yield from _entries(data, partition, start)
        except DecodeError as error:
            if following is not None:
                raise SourceError(f"{segment.path} is damaged: {error}; move the directory {log.name} away") from None
            return  # the broker is writing its end


def _of_broker(options: Options, starts: Mapping[int, int]) -> Iterator[Entry]:
    """Return entries up to the partitions' present ends. Records that retention has removed are skipped."""
    from kafka import TopicPartition

    options = replace(options, topic=LEDGER_TOPIC)
    with connected(options) as consumer:
        numbers = sorted(each for each in partitions_of(consumer, LEDGER_TOPIC) or () if _is_wanted(options, each))
        if not numbers:
            return  # a plain Kafka cluster, or a user without permission to read the ledger
        places = [TopicPartition(LEDGER_TOPIC, number) for number in numbers]
        consumer.assign(places)  # so that its metadata has the leaders
        ends = consumer.end_offsets(places)
        for place in places:
            offset = starts.get(place.partition, 0)
            while offset < ends[place]:
                data, log_start = fetch(consumer, options, place.partition, offset)
                if data is None:
                    offset = log_start
                    continue
                yield from _entries(data, place.partition, offset)
                after = max((header.next_offset for _, header in iterate_batches(data, partial=True)), default=offset)
                if after <= offset:
                    raise SourceError(f"{LEDGER_TOPIC}-{place.partition} ends at {offset}, {ends[place]} was expected")
                offset = after


def _entries(data: bytes, partition: int, start: int) -> Iterator[Entry]:
    for position, header in iterate_batches(data, partial=True):
        if header.last_offset >= start:
            for offset, _time_ms, _key, value in key_values(data, position, header):
                if offset < start:
                    continue
                record = _record(value)
                if record is None:
                    continue
                reason = unreadable(record)
                if reason is not None:
                    raise SourceError(f"offset {offset} of {LEDGER_TOPIC}-{partition} {reason}")
                if record["version"] == REDELIVERY_VERSION:
                    continue
                yield partition, offset, record["group"], bytes(value or b"").decode()


def _record(value: bytes | None) -> dict[str, Any] | None:
    """Return the record, of any version; None if coordinatord did not write it."""
    try:
        record = json.loads(value or b"null")
    except ValueError:
        return None
    is_ours = (
        isinstance(record, dict) and isinstance(record.get("version"), int) and isinstance(record.get("group"), str)
    )
    return record if is_ours else None

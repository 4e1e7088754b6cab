"""Reads `__rebalances`, in which our daemon says why groups rebalanced (coordinatord/observe/ledger.py has the fields),
from the directories in which its offsets log is. A plain Kafka log has no such topic.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coordinatord.pipeline.segments import Log, SourceError, find_logs
from protocol.errors import DecodeError
from protocol.records.batch import iterate_batches
from protocol.records.key_values import key_values

LEDGER_TOPIC = "__rebalances"
VERSION = 1


def read_ledger(paths: Sequence[str], starts: Mapping[int, int]) -> Iterator[tuple[int, int, str, str]]:
    """(partition, offset, group, record as JSON) of records from the offsets in `starts` on, by partition."""
    for path in paths:
        try:
            logs = find_logs([path], LEDGER_TOPIC, None)
        except SourceError:
            continue  # a directory of somebody else's broker, or of the offsets log alone
        for log in logs:
            if log.partition is not None:
                yield from _records(log, log.partition, starts.get(log.partition, 0))


def _records(log: Log, partition: int, start: int) -> Iterator[tuple[int, int, str, str]]:
    segments = log.segments()
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        if following is not None and following.base_offset <= start:
            continue
        with open(segment.path, "rb") as file:
            data = file.read()
        try:
            for position, header in iterate_batches(data, partial=True):
                if header.last_offset >= start:
                    for offset, _time_ms, _key, value in key_values(data, position, header):
                        record = _record(value)
                        if offset >= start and record is not None:
                            yield partition, offset, record["group"], bytes(value or b"").decode()
        except DecodeError as error:
            if following is not None:
                raise SourceError(f"{segment.path} is damaged: {error}; move the directory {log.name} away") from None
            return  # the broker is writing its end


def _record(value: bytes | None) -> dict[str, Any] | None:
    """None for what no ledger of a version that we know has written."""
    try:
        record = json.loads(value or b"null")
    except ValueError:
        return None
    known = isinstance(record, dict) and record.get("version") == VERSION and isinstance(record.get("group"), str)
    return record if known else None

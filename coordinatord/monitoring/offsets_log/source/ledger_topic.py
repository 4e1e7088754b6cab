"""Reader of `__rebalances`, in which coordinatord logs the causes of rebalances, from the place of its offsets log:
directories, a database, or the broker that serves it (kafka_wire/records/rebalance_ledger.py has the fields). A plain
Kafka cluster has no such topic: then nothing is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from coordinatord.monitoring.offsets_log.source.options import Options
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.offsets_log.source.topic_records import records_of
from kafka_wire.records.rebalance_ledger import LEDGER_TOPIC, REDELIVERY_VERSION, unreadable

Entry = tuple[int, int, str, str]
"""Partition, offset, group, the record as JSON."""


REMEDY = "; move the directory {0} away"


def ledger_of(options: Options, starts: Mapping[int, int]) -> Iterator[Entry]:
    """Return the wanted groups' records from the offsets in `starts` on, in order within each partition. A group has
    the partition number that it has in the offsets log. Raises SourceError.
    """
    for partition, offset, _time_ms, _key, value in records_of(options, LEDGER_TOPIC, starts, REMEDY):
        record = _record(value)
        if record is None:
            continue
        reason = unreadable(record)
        if reason is not None:
            raise SourceError(f"offset {offset} of {LEDGER_TOPIC}-{partition} {reason}")
        if record["version"] != REDELIVERY_VERSION and options.wanted.has_group(record["group"]):
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

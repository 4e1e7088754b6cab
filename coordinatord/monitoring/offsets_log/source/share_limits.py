"""share.delivery.count.limit of share groups: from a broker, or from the log of the cluster's metadata in directories.

A group without a setting of its own has that of its broker: group.share.delivery.count.limit. In the metadata's log it
is only if it was set while the cluster ran (KIP-226); one in a broker's properties file is not known there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from coordinatord.monitoring.offsets_log.source.cluster import Cluster
from coordinatord.monitoring.offsets_log.source.options import PATIENCE_S, Options
from coordinatord.monitoring.offsets_log.source.segments import SourceError, reading_files
from coordinatord.monitoring.offsets_log.source.tails import group_configs
from coordinatord.monitoring.offsets_log.source.topic_records import records_of
from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import iterate_batches
from kafka_wire.records.cluster_metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    UnknownMetadataRecordError,
    decode_record,
)
from kafka_wire.records.key_values import key_values

LIMIT, DEFAULT_LIMIT = "share.delivery.count.limit", "group.share.delivery.count.limit"
METADATA_TOPIC = "__cluster_metadata"
BROKER_RESOURCE, GROUP_RESOURCE = 4, 32
_SNAPSHOT = re.compile(r"(\d{20})-\d{10}\.checkpoint")


def delivery_limits(options: Options, groups: Collection[str]) -> dict[str, int]:
    """Return the limits of the groups that are known; none of a database. Raises SourceError."""
    if not groups or options.store is not None:
        return {}
    if options.bootstrap is not None:
        with Cluster(options.bootstrap, options.broker, PATIENCE_S) as cluster:
            return {group: int(value) for group, value in group_configs(cluster, LIMIT, groups).items()}
    configs = _Configs()
    for path in options.paths:
        configs.read(path, options)
    known = {group: configs.groups.get(group, configs.default) for group in groups}
    return {group: limit for group, limit in known.items() if limit is not None}


@dataclass(slots=True)
class _Configs:
    """The limits that the records of a cluster's metadata set."""

    groups: dict[str, int] = field(default_factory=dict)
    default: int | None = None
    """The brokers', set for all of them."""
    _transaction: list[ConfigRecord] | None = None

    def read(self, path: str, options: Options) -> None:
        """Apply the newest snapshot in a broker's or controller's directory, and the log from there on."""
        begin, values = _snapshot(os.path.join(path, f"{METADATA_TOPIC}-0"))
        for value in values:
            self._add(value)
        for record in records_of(replace(options, paths=(path,), partitions=None), METADATA_TOPIC, {0: begin}):
            self._add(record.value or b"")

    def _add(self, value: bytes) -> None:
        try:
            record = decode_record(value)
        except UnknownMetadataRecordError:
            return
        except DecodeError as error:
            raise SourceError(f"a record of {METADATA_TOPIC} is damaged: {error}") from None
        if isinstance(record, BeginTransactionRecord):  # KIP-868
            self._transaction = []
        elif isinstance(record, AbortTransactionRecord):
            self._transaction = None
        elif isinstance(record, EndTransactionRecord):
            for each in self._transaction or ():
                self._apply(each)
            self._transaction = None
        elif isinstance(record, ConfigRecord):
            if self._transaction is None:
                self._apply(record)
            else:
                self._transaction.append(record)

    def _apply(self, record: ConfigRecord) -> None:
        value = record.value or ""
        limit = int(value) if value.isdecimal() else None
        if (record.resource_type, record.name) == (GROUP_RESOURCE, LIMIT):
            if limit is None:
                self.groups.pop(record.resource_name, None)
            else:
                self.groups[record.resource_name] = limit
        elif (record.resource_type, record.resource_name, record.name) == (BROKER_RESOURCE, "", DEFAULT_LIMIT):
            self.default = limit


@reading_files()
def _snapshot(directory: str) -> tuple[int, list[bytes]]:
    """Return the offset at which the log goes on after the newest snapshot, and the snapshot's records."""
    names = sorted(filter(_SNAPSHOT.fullmatch, os.listdir(directory))) if os.path.isdir(directory) else []
    if not names:
        return 0, []
    with open(os.path.join(directory, names[-1]), "rb") as file:
        data = file.read()
    try:
        found = [
            value or b""
            for position, header in iterate_batches(data)
            if not header.is_control
            for _offset, _time_ms, _key, value in key_values(data, position, header)
        ]
    except DecodeError as error:
        raise SourceError(f"{os.path.join(directory, names[-1])} is damaged: {error}") from None
    return int(names[-1][:20]), found

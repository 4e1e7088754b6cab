"""Reader and writer of the metadata of a KRaft cluster: topic names, ids, partitions, settings, and used producer ids.

A node's `__cluster_metadata-0` holds snapshots and the log after them. Records of a metadata transaction count once it
has ended (KIP-868). The first controller writes the records with which a directory was formatted into an empty log;
they may be of any type, so topics whose partitions are already on disk can be added to them. They are in
`bootstrap.checkpoint`, and since Kafka 4.4 in the snapshot before the first record of `__cluster_metadata-0`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coordinatord.broker.log.errors import LogDamaged
from coordinatord.server.exchange.files import METADATA_DIRECTORY, ExchangeError, batches
from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import BatchBuilder, assign_offset, records
from kafka_wire.records.cluster_metadata import (
    SAME_LEADER,
    TOPIC_RESOURCE,
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnknownMetadataRecordError,
    decode_record,
    encode_record,
)
from kafka_wire.schema import schema_of

BOOTSTRAPS = ("bootstrap.checkpoint", f"{METADATA_DIRECTORY}/{0:020d}-{0:010d}.checkpoint")
"""The files that hold the records of a formatted directory: the first one that is there counts."""
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint\Z")
_SEGMENT = re.compile(r"\d{20}\.log\Z")

RECORDS_A_BATCH = 1_000
"""Records per batch. A partition's record takes about 60 bytes, and Kafka's readers of these files accept batches of up
to 8 MiB.
"""

LEFT_BEHIND = {10: "delegation tokens", 11: "SCRAM credentials", 14: "client quotas", 18: "ACLs"}
"""Record types that an operator configured and that are not imported: the operator makes them again with the usual
tools.
"""


@dataclass(slots=True)
class KafkaTopic:
    """A topic; `partitions` has the leader epoch of each partition."""

    name: str
    topic_id: bytes
    partitions: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class KafkaMetadata:
    """The state after applying the records in order."""

    topics: dict[bytes, KafkaTopic] = field(default_factory=dict)
    #: topic settings by topic name
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    #: number of records that are not read, by type
    skipped: Counter[int] = field(default_factory=Counter)
    _transaction: list[Any] | None = None

    def add(self, data: bytes) -> None:
        """Apply a record, given its value. Raises DecodeError when the value is not valid."""
        try:
            record = decode_record(data)
        except UnknownMetadataRecordError as unknown:
            self.skipped[unknown.record_type] += 1
            return
        record_type = schema_of(type(record)).api_key
        if record_type in LEFT_BEHIND:
            self.skipped[record_type] += 1
        elif type(record) is BeginTransactionRecord:
            self._transaction = []
        elif type(record) is AbortTransactionRecord:
            self._transaction = None
        elif type(record) is EndTransactionRecord:
            ended, self._transaction = self._transaction or [], None
            for each in ended:
                self._apply(each)
        elif self._transaction is not None:
            self._transaction.append(record)
        else:
            self._apply(record)

    def _apply(self, record: Any) -> None:
        if type(record) is TopicRecord:
            self.topics[record.topic_id] = KafkaTopic(record.name, record.topic_id)
        elif type(record) is PartitionRecord:
            self.topics[record.topic_id].partitions[record.partition_id] = record.leader_epoch
        elif type(record) is PartitionChangeRecord:
            self.topics[record.topic_id].partitions[record.partition_id] += record.leader != SAME_LEADER
        elif type(record) is RemoveTopicRecord:
            self.configs.pop(self.topics.pop(record.topic_id).name, None)
        elif type(record) is FeatureLevelRecord:
            self.features[record.name] = record.feature_level
        elif type(record) is ProducerIdsRecord:
            self.next_producer_id = record.next_producer_id
        elif type(record) is ConfigRecord and record.resource_type == TOPIC_RESOURCE:
            of_topic = self.configs.setdefault(record.resource_name, {})
            if record.value is None:
                of_topic.pop(record.name, None)
            else:
                of_topic[record.name] = record.value


def read_log(directory: Path, *, clean: bool) -> KafkaMetadata:
    """Return the state in a node's metadata directory: its newest snapshot, and the log from there on.

    The log's end may be torn unless the node stopped cleanly. Raises LogDamaged for any other damage.
    """
    found = KafkaMetadata()
    names = sorted(entry.name for entry in directory.iterdir())
    snapshots = [name for name in names if _SNAPSHOT.match(name)]
    begin = 0
    if snapshots:
        begin = int(snapshots[-1][:20])
        if not _add_all(found, directory / snapshots[-1], 0):
            raise LogDamaged(str(directory / snapshots[-1]), 0, "the snapshot does not end with its last record")
    segments = [directory / name for name in names if _SEGMENT.match(name)]
    for segment in segments:
        try:
            _add_all(found, segment, begin)
        except LogDamaged:
            if clean or segment is not segments[-1]:
                raise
    return found


def bootstrap_of(directory: Path) -> Path:
    """Return the file with the records of a formatted directory. Raises ExchangeError if there is none."""
    for name in BOOTSTRAPS:
        if (directory / name).is_file():
            return directory / name
    raise ExchangeError(
        f"{directory} has neither {' nor '.join(BOOTSTRAPS)}: format it with Kafka's kafka-storage.sh first."
    )


def read_bootstrap(directory: Path) -> KafkaMetadata:
    """Return the state in the records of a formatted directory. Raises ExchangeError if it has none."""
    found = KafkaMetadata()
    _add_all(found, bootstrap_of(directory), 0)
    return found


def extend_bootstrap(path: Path, added: Sequence[bytes]) -> bytes:
    """Return the bytes of such a file with more (encoded) records, before the control record that ends it."""
    out = bytearray()
    footer = b""
    next_offset = 0
    for _position, header, buffer, at in batches(path):
        out += footer  # control records of the quorum (KIP-853), which the last one follows
        if footer:
            next_offset, footer = header.base_offset, b""
        data = buffer[at : at + header.size]
        if header.is_control and header.base_offset:
            footer = data
            continue
        out += data
        next_offset = header.next_offset
    for start in range(0, len(added), RECORDS_A_BATCH):
        builder = BatchBuilder()
        for value in added[start : start + RECORDS_A_BATCH]:
            builder.add(None, value, 0)
        batch = builder.finish(next_offset, leader_epoch=0)
        next_offset += builder.count
        out += batch
    end = bytearray(footer)
    if end:
        assign_offset(end, next_offset, 0)
    return bytes(out + end)


@dataclass(frozen=True, slots=True)
class Replica:
    """The broker that has all partitions, and its cluster's replica features."""

    node_id: int
    #: None if the cluster's metadata.version has no log directories
    directory_id: bytes | None
    #: true if the controller keeps eligible leader replicas (KIP-966)
    elr: bool


def topic_records(topics: Iterable[tuple[KafkaTopic, dict[str, str]]], replica: Replica) -> list[bytes]:
    """Return the encoded records of topics, given as (topic, settings), whose partitions are on one broker.

    The partitions have no leader yet; the broker is elected when it registers. A controller that keeps eligible leader
    replicas treats a broker that has never registered as crashed and removes it from the in-sync replicas: then it can
    be elected only as the last known leader, so the records name it as that from the start.
    """
    out = []
    version = 2 if replica.elr else 0 if replica.directory_id is None else 1
    me = [replica.node_id]
    for topic, configs in topics:
        out.append(encode_record(TopicRecord(topic.name, topic.topic_id), 0))
        for index, leader_epoch in sorted(topic.partitions.items()):
            record = PartitionRecord(index, topic.topic_id, me, [] if replica.elr else me, partition_epoch=0)
            record.leader_epoch = leader_epoch
            record.directories = [] if replica.directory_id is None else [replica.directory_id]
            record.last_known_elr = me if replica.elr else None
            out.append(encode_record(record, version))
        out += [
            encode_record(ConfigRecord(TOPIC_RESOURCE, topic.name, name, value), 0)
            for name, value in sorted(configs.items())
        ]
    return out


def _add_all(found: KafkaMetadata, path: Path, begin: int) -> bool:
    """Apply every record of a file from offset `begin` on. Returns whether the file ends with a control record, as
    whole snapshots do.
    """
    is_ended = False
    for position, header, buffer, at in batches(path):
        is_ended = header.is_control
        if header.is_control or header.last_offset < begin:
            continue
        try:
            for record in records(buffer, at, header):
                if record.offset >= begin and record.value is not None:
                    found.add(record.value)
        except (DecodeError, KeyError) as error:
            raise LogDamaged(str(path), position, f"not the records of a cluster's metadata: {error!r}") from None
    return is_ended

"""What a KRaft cluster knows of its topics: names, ids, partitions, settings, and which producer ids are taken.

A node's `__cluster_metadata-0` holds snapshots and the log behind them. What a metadata transaction writes counts when
it has ended (KIP-868). `bootstrap.checkpoint` is what the first controller writes into an empty log; it may hold
records of any type, so topics of which the partitions lie there already can be put into it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coordinatord.exchange.files import ExchangeError, batches
from coordinatord.log.errors import LogDamaged
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

BOOTSTRAP = "bootstrap.checkpoint"
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint\Z")
_SEGMENT = re.compile(r"\d{20}\.log\Z")

RECORDS_A_BATCH = 1_000
"""A partition's record has some 60 bytes, and Kafka's readers of these files take batches of up to 8 MiB."""

LEFT_BEHIND = {10: "delegation tokens", 11: "SCRAM credentials", 14: "client quotas", 18: "ACLs"}
"""Record types that somebody set up and that have no counterpart here."""


@dataclass(slots=True)
class KafkaTopic:
    """A topic; `partitions` have the leader epoch of each."""

    name: str
    topic_id: bytes
    partitions: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class KafkaMetadata:
    """What the records say, one after the other."""

    topics: dict[bytes, KafkaTopic] = field(default_factory=dict)
    #: settings of topics by name
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    #: records that are not read, by type
    skipped: Counter[int] = field(default_factory=Counter)
    _transaction: list[Any] | None = None

    def add(self, data: bytes) -> None:
        """A record's value. DecodeError for one that cannot be read."""
        try:
            record = decode_record(data)
        except UnknownMetadataRecordError as unknown:
            self.skipped[unknown.record_type] += 1
            return
        if type(record) is BeginTransactionRecord:
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
    """What a node's metadata directory says: its newest snapshot, and the log from there on.

    Unless it stopped cleanly the log's end may be torn. LogDamaged for anything else that is not sound.
    """
    found = KafkaMetadata()
    names = sorted(entry.name for entry in directory.iterdir())
    snapshots = [name for name in names if _SNAPSHOT.match(name)]
    begin = 0
    if snapshots:
        begin = int(snapshots[-1][:20])
        _add_all(found, directory / snapshots[-1], 0)
    segments = [directory / name for name in names if _SEGMENT.match(name)]
    for segment in segments:
        try:
            _add_all(found, segment, begin)
        except LogDamaged:
            if clean or segment is not segments[-1]:
                raise
    return found


def read_bootstrap(directory: Path) -> KafkaMetadata:
    """What `bootstrap.checkpoint` of a formatted directory says."""
    path = directory / BOOTSTRAP
    if not path.is_file():
        raise ExchangeError(f"{directory} has no {BOOTSTRAP}: format it with Kafka's kafka-storage.sh first.")
    found = KafkaMetadata()
    _add_all(found, path, 0)
    return found


def extend_bootstrap(directory: Path, added: Sequence[bytes]) -> bytes:
    """`bootstrap.checkpoint` with more records (encoded), before the control record that ends it."""
    out = bytearray()
    footer = b""
    next_offset = 0
    for _position, header, buffer, at in batches(directory / BOOTSTRAP):
        data = buffer[at : at + header.size]
        if header.is_control and header.base_offset:
            footer = data
            break
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
    """The broker that has all partitions, and what its cluster knows of replicas."""

    node_id: int
    #: None where the cluster's metadata.version does not know log directories
    directory_id: bytes | None
    #: whether the controller keeps eligible leader replicas (KIP-966)
    elr: bool


def topic_records(topics: Iterable[tuple[KafkaTopic, dict[str, str]]], replica: Replica) -> list[bytes]:
    """Records for topics whose partitions lie on one broker: (topic, settings).

    Nobody leads them yet, and the broker is elected when it comes. A controller that keeps eligible leader replicas
    takes a broker that it has never seen for one that crashed, out of the set of those in sync: then it may lead only
    as the last leader that is known, and that is what it is called at once.
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


def _add_all(found: KafkaMetadata, path: Path, begin: int) -> None:
    """Every record of a file from offset `begin` on."""
    for position, header, buffer, at in batches(path):
        if header.is_control or header.last_offset < begin:
            continue
        try:
            for record in records(buffer, at, header):
                if record.offset >= begin and record.value is not None:
                    found.add(record.value)
        except (DecodeError, KeyError) as error:
            raise LogDamaged(str(path), position, f"not the records of a cluster's metadata: {error!r}") from None

"""Records of `__cluster_metadata`, the log of KRaft's controllers: topics, configs, SCRAM credentials, quotas, ACLs.

A record's key is null. Its value starts with three unsigned varints, the frame's version (1), the record's type and the
record's version; then come the fields. Batches of these records are in the log, in snapshots (`OFFSET-EPOCH.checkpoint`
has the state of the log below OFFSET), and in `bootstrap.checkpoint`, with which an empty log begins.
"""

from __future__ import annotations

from typing import Any

from kafka_wire.codecs import decoder, encoder
from kafka_wire.errors import DecodeError, TruncatedError
from kafka_wire.lengths import read_uvarint, write_uvarint
from kafka_wire.schema import (
    array,
    boolean,
    bytes_,
    float64,
    int8,
    int16,
    int32,
    int64,
    message,
    schema_of,
    string,
    uuid,
)

FRAME_VERSION = 1

TOPIC_RESOURCE = 2
"""`resource_type` of a topic's settings (Kafka's ConfigResource.Type)."""

METADATA_VERSION = "metadata.version"
"""The feature whose level determines which versions of these records a cluster reads."""

ELR_VERSION = "eligible.leader.replicas.version"
"""The feature that makes the controller keep eligible leader replicas, in partition records v2, if its level is above 0
(KIP-966).
"""

SAME_LEADER = -2
"""Value of `leader` in a PartitionChangeRecord that does not change the leader. Any other value begins the next leader
epoch.
"""

DIRECTORIES_LEVEL = 17
"""metadata.version from which a partition names its log directories (3.7-IV2, KIP-858): PartitionRecord v1."""


@message(versions="0", flexible="0+", api_key=2)
class TopicRecord:
    name: str = string("0+")
    topic_id: bytes = uuid("0+")


@message(versions="0-2", flexible="0+", api_key=3)
class PartitionRecord:
    partition_id: int = int32("0+", default=-1)
    topic_id: bytes = uuid("0+")
    replicas: list[int] = array(int32, "0+")
    isr: list[int] = array(int32, "0+")
    removing_replicas: list[int] = array(int32, "0+")
    adding_replicas: list[int] = array(int32, "0+")
    leader: int = int32("0+", default=-1)
    leader_recovery_state: int = int8("0+", default=0, tagged="0+", tag=0)
    leader_epoch: int = int32("0+", default=-1)
    partition_epoch: int = int32("0+", default=-1)
    directories: list[bytes] = array(uuid, "1+")
    eligible_leader_replicas: list[int] | None = array(int32, "2+", nullable="2+", tagged="2+", tag=1, default=None)
    last_known_elr: list[int] | None = array(int32, "2+", nullable="2+", tagged="2+", tag=2, default=None)


@message(versions="0", flexible="0+", api_key=4)
class ConfigRecord:
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")


@message(versions="0-2", flexible="0+", api_key=5)
class PartitionChangeRecord:
    partition_id: int = int32("0+", default=-1)
    topic_id: bytes = uuid("0+")
    isr: list[int] | None = array(int32, "0+", nullable="0+", tagged="0+", tag=0, default=None)
    leader: int = int32("0+", default=-2, tagged="0+", tag=1)
    replicas: list[int] | None = array(int32, "0+", nullable="0+", tagged="0+", tag=2, default=None)
    removing_replicas: list[int] | None = array(int32, "0+", nullable="0+", tagged="0+", tag=3, default=None)
    adding_replicas: list[int] | None = array(int32, "0+", nullable="0+", tagged="0+", tag=4, default=None)
    leader_recovery_state: int = int8("0+", default=-1, tagged="0+", tag=5)
    directories: list[bytes] | None = array(uuid, "1+", nullable="1+", tagged="1+", tag=8, default=None)
    eligible_leader_replicas: list[int] | None = array(int32, "2+", nullable="2+", tagged="2+", tag=6, default=None)
    last_known_elr: list[int] | None = array(int32, "2+", nullable="2+", tagged="2+", tag=7, default=None)


@message(versions="0", flexible="0+", api_key=9)
class RemoveTopicRecord:
    topic_id: bytes = uuid("0+")


@message(versions="0", flexible="0+", api_key=11)
class UserScramCredentialRecord:
    name: str = string("0+")
    mechanism: int = int8("0+")
    salt: bytes = bytes_("0+")
    stored_key: bytes = bytes_("0+")
    server_key: bytes = bytes_("0+")
    iterations: int = int32("0+")


@message(versions="0", flexible="0+", api_key=12)
class FeatureLevelRecord:
    name: str = string("0+")
    feature_level: int = int16("0+")


@message()
class EntityData:
    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


@message(versions="0", flexible="0+", api_key=14)
class ClientQuotaRecord:
    entity: list[EntityData] = array(EntityData, "0+")
    key: str = string("0+")
    value: float = float64("0+")
    remove: bool = boolean("0+")


@message(versions="0", flexible="0+", api_key=15)
class ProducerIdsRecord:
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    next_producer_id: int = int64("0+")


@message(versions="0", flexible="0+", api_key=18)
class AccessControlEntryRecord:
    id: bytes = uuid("0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    pattern_type: int = int8("0+")
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


@message(versions="0", flexible="0+", api_key=19)
class RemoveAccessControlEntryRecord:
    id: bytes = uuid("0+")


@message(versions="0", flexible="0+", api_key=22)
class RemoveUserScramCredentialRecord:
    name: str = string("0+")
    mechanism: int = int8("0+")


@message(versions="0", flexible="0+", api_key=23)
class BeginTransactionRecord:
    name: str | None = string("0+", nullable="0+", tagged="0+", tag=0, default=None)


@message(versions="0", flexible="0+", api_key=24)
class EndTransactionRecord:
    pass


@message(versions="0", flexible="0+", api_key=25)
class AbortTransactionRecord:
    reason: str | None = string("0+", nullable="0+", tagged="0+", tag=0, default=None)


RECORDS: dict[int, type[Any]] = {
    schema.api_key: cls
    for cls in (
        TopicRecord,
        PartitionRecord,
        ConfigRecord,
        PartitionChangeRecord,
        RemoveTopicRecord,
        UserScramCredentialRecord,
        FeatureLevelRecord,
        ClientQuotaRecord,
        ProducerIdsRecord,
        AccessControlEntryRecord,
        RemoveAccessControlEntryRecord,
        RemoveUserScramCredentialRecord,
        BeginTransactionRecord,
        EndTransactionRecord,
        AbortTransactionRecord,
    )
    if (schema := schema_of(cls)).api_key is not None
}
"""Type number -> declaration. `decode_record` raises `UnknownMetadataRecordError` for other types (brokers, delegation
tokens …).
"""


class UnknownMetadataRecordError(DecodeError):
    """Raised for a record of a type that this module does not read."""

    def __init__(self, record_type: int) -> None:
        super().__init__(f"metadata record type {record_type}")
        self.record_type = record_type


def encode_record(record: Any, version: int) -> bytes:
    """Return the bytes of a record's value in a batch."""
    record_type = schema_of(type(record)).api_key
    assert record_type is not None
    out = bytearray(write_uvarint(FRAME_VERSION) + write_uvarint(record_type) + write_uvarint(version))
    encoder(type(record), version)(record, out)
    return bytes(out)


def decode_record(data: bytes) -> Any:
    """Decode a record's value. Raises `UnknownMetadataRecordError` for a type that is not read, `DecodeError` for
    damage.
    """
    frame, at = _uvarint(data, 0)
    if frame != FRAME_VERSION:
        raise DecodeError(f"a metadata record in a frame of version {frame}")
    record_type, at = _uvarint(data, at)
    version, at = _uvarint(data, at)
    cls = RECORDS.get(record_type)
    if cls is None:
        raise UnknownMetadataRecordError(record_type)
    return decoder(cls, version)(data, at, len(data))


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    try:
        first = data[at]
        return (first, at + 1) if first < 0x80 else read_uvarint(data, at + 1, first)
    except IndexError:
        raise TruncatedError(f"a metadata record of {len(data)} bytes") from None

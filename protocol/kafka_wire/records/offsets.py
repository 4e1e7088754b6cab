"""Keys and values in `__consumer_offsets` of classic groups.

A key starts with an int16 type, a value with an int16 version (see `keys`). A null value is a tombstone.
OffsetCommitValue: v1 expire_timestamp · v2 without it again · v3 leader_epoch · v4 flexible, tagged topic_id.
GroupMetadataValue: v1 rebalance_timeout · v2 current_state_timestamp · v3 group_instance_id · v4 flexible.
"""

from __future__ import annotations

from kafka_wire.schema import array, bytes_, int32, int64, message, string, uuid


@message(versions="0", api_key=1)
class OffsetCommitKey:
    group: str = string("0")
    topic: str = string("0")
    partition: int = int32("0")


@message(versions="0-4", flexible="4+", api_key=1)
class OffsetCommitValue:
    offset: int = int64("0+")
    leader_epoch: int = int32("3+", default=-1)
    metadata: str = string("0+")
    commit_timestamp: int = int64("0+")
    expire_timestamp: int = int64("1", default=-1)
    topic_id: bytes = uuid("4+", tagged="4+", tag=0)


@message(versions="0", api_key=2)
class GroupMetadataKey:
    group: str = string("0")


@message()
class MemberMetadata:
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    client_id: str = string("0+")
    client_host: str = string("0+")
    rebalance_timeout: int = int32("1+", default=-1)
    session_timeout: int = int32("0+")
    subscription: bytes = bytes_("0+")
    assignment: bytes = bytes_("0+")


@message(versions="0-4", flexible="4+", api_key=2)
class GroupMetadataValue:
    protocol_type: str = string("0+")
    generation: int = int32("0+")
    protocol: str | None = string("0+", nullable="0+")
    leader: str | None = string("0+", nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1)
    members: list[MemberMetadata] = array(MemberMetadata, "0+")

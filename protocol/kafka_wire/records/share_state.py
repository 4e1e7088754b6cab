"""Keys and values in `__share_group_state` (KIP-932): the record types 0 and 1 of Kafka's share coordinator."""

from __future__ import annotations

from kafka_wire.schema import array, int8, int16, int32, int64, message, string, uuid


@message(versions="0", api_key=0)
class ShareSnapshotKey:
    group_id: str = string("0")
    topic_id: bytes = uuid("0")
    partition: int = int32("0")


@message()
class StateBatch:
    first_offset: int = int64("0+")
    last_offset: int = int64("0+")
    delivery_state: int = int8("0+")
    delivery_count: int = int16("0+")


@message(versions="0", flexible="0+", api_key=0)
class ShareSnapshotValue:
    snapshot_epoch: int = int32("0+")
    state_epoch: int = int32("0+")
    leader_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    delivery_complete_count: int = int32("0+", default=-1, tagged="0+", tag=0)
    create_timestamp: int = int64("0+")
    write_timestamp: int = int64("0+")
    state_batches: list[StateBatch] = array(StateBatch, "0+")


@message(versions="0", api_key=1)
class ShareUpdateKey:
    group_id: str = string("0")
    topic_id: bytes = uuid("0")
    partition: int = int32("0")


@message(versions="0", flexible="0+", api_key=1)
class ShareUpdateValue:
    snapshot_epoch: int = int32("0+")
    leader_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    delivery_complete_count: int = int32("0+", default=-1, tagged="0+", tag=0)
    state_batches: list[StateBatch] = array(StateBatch, "0+")

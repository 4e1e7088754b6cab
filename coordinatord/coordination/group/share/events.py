"""The events of share groups, besides those of all groups (group/events.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_wire.api.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from kafka_wire.api.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from kafka_wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest


@dataclass(slots=True)
class ShareHeartbeat:
    """A ShareGroupHeartbeat request; `reply` is a share.state.Answer."""

    request: ShareGroupHeartbeatRequest
    client_id: str
    client_host: str


@dataclass(slots=True)
class ShareStateCreated:
    """The share coordinator has created the state of partitions, by topic id, or could not."""

    partitions: Mapping[bytes, frozenset[int]]
    succeeded: bool


@dataclass(slots=True)
class AlterShareOffsets:
    """An AlterShareGroupOffsets request; `reply` is a share.state.Answer."""

    request: AlterShareGroupOffsetsRequest


@dataclass(slots=True)
class DeleteShareOffsets:
    """A DeleteShareGroupOffsets request; `reply` is a share.state.Deletion."""

    request: DeleteShareGroupOffsetsRequest


@dataclass(slots=True)
class ShareOffsetsDeleted:
    """The share coordinator has deleted the state of these topics."""

    topic_ids: frozenset[bytes]


@dataclass(slots=True)
class DeleteShareState:
    """The first step of a DeleteGroups request; `reply` is a share.state.Deletion."""

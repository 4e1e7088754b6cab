"""The events of a share partition's stored state. `topic_exists`: the topic has such a partition now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coordinatord.coordination.share.persister import StateBatch


@dataclass(slots=True)
class Initialize:
    """InitializeShareGroupState: begin anew."""

    state_epoch: int
    start_offset: int
    topic_exists: bool


@dataclass(slots=True)
class Read:
    """ReadShareGroupState, by the leader of the partition."""

    leader_epoch: int
    topic_exists: bool


@dataclass(slots=True)
class Write:
    """WriteShareGroupState, by the leader of the partition."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]
    topic_exists: bool


@dataclass(slots=True)
class Delete:
    """DeleteShareGroupState."""

    topic_exists: bool


@dataclass(slots=True)
class ReadSummary:
    """ReadShareGroupStateSummary."""

    topic_exists: bool


@dataclass(slots=True)
class Snapshot:
    """A snapshot of a cold partition, so that its older records can be pruned."""


@dataclass(slots=True)
class TopicDeleted:
    """The topic was deleted."""


Event = Initialize | Read | Write | Delete | ReadSummary | Snapshot | TopicDeleted

"""Result of one step: requests for the shell to send, and results for the application."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from coordinatord.testing.member.assignors.java_hash import TopicPartition
from coordinatord.testing.member.events import Commit
from coordinatord.testing.member.send import Generation, Send
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import Record


class Assigned(NamedTuple):
    """Added partitions (ConsumerRebalanceListener.onPartitionsAssigned); may be empty."""

    partitions: tuple[TopicPartition, ...]


class Revoked(NamedTuple):
    """Partitions that the member gave up while it still owned them."""

    partitions: tuple[TopicPartition, ...]


class Lost(NamedTuple):
    """Partitions that may have another owner already: the member was out of the group."""

    partitions: tuple[TopicPartition, ...]


class Transition(NamedTuple):
    """Change of the member's state. `generation` is the one after; `reason` is the one sent with a rejoin."""

    old: str
    new: str
    generation: Generation
    reason: str


class Polled(NamedTuple):
    """Result of a poll: records by partition, or an error for the application."""

    records: dict[TopicPartition, list[Record]]
    error: ErrorCode | None = None
    what: str = ""


class Committed(NamedTuple):
    """Result of a commit. `event` is the application's; None for the member's own commit (auto-commit)."""

    event: Commit | None
    offsets: dict[TopicPartition, int]
    error: ErrorCode = ErrorCode.NONE


@dataclass(slots=True)
class Result:
    """All results of a step. `disconnect`: close the coordinator's connection; its requests are abandoned."""

    sends: list[Send] = field(default_factory=list)
    changes: list[Assigned | Revoked | Lost] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)
    committed: list[Committed] = field(default_factory=list)
    polled: Polled | None = None
    warnings: list[str] = field(default_factory=list)  # for the log
    disconnect: bool = False
    closed: bool = False

"""What one step asks of the shell: requests to send; and what it has for the application."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from coordinatord.member.assignors.java_hash import TopicPartition
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import Record

if TYPE_CHECKING:
    from coordinatord.member.events import Commit

ANY_NODE: Final = -1
"""Send to whichever node is least busy; before the first metadata, to a bootstrap server."""


class Generation(NamedTuple):
    """Who we are in the group, as of a join."""

    generation_id: int = -1
    member_id: str = ""
    protocol_name: str | None = None


NO_GENERATION: Final = Generation()


@dataclass(slots=True, eq=False)
class Send:
    """A request. `group`: on the connection to the coordinator, which is kept apart from the one for data."""

    to: int  # node id, or ANY_NODE
    group: bool
    request: Any
    timeout_ms: int
    generation: Generation = NO_GENERATION  # what it was when this was sent
    context: Any = None  # what its answer is for
    abandoned: bool = False  # nobody wants the answer any more


class Assigned(NamedTuple):
    """Partitions that were added (ConsumerRebalanceListener.onPartitionsAssigned); none: nothing was added."""

    partitions: tuple[TopicPartition, ...]


class Revoked(NamedTuple):
    """Partitions that were given up in good order."""

    partitions: tuple[TopicPartition, ...]


class Lost(NamedTuple):
    """Partitions that may have another owner already: the member was out of the group."""

    partitions: tuple[TopicPartition, ...]


class Transition(NamedTuple):
    """The member went from one state to another, `generation` being the one after; `reason` as sent with a rejoin."""

    old: str
    new: str
    generation: Generation
    reason: str


class Polled(NamedTuple):
    """A poll has returned, with records by partition; or with an error that the application has to deal with."""

    records: dict[TopicPartition, list[Record]]
    error: ErrorCode | None = None
    what: str = ""


class Committed(NamedTuple):
    """How a commit ended. `event` is the application's; None for the member's own (auto-commit)."""

    event: Commit | None
    offsets: dict[TopicPartition, int]
    error: ErrorCode = ErrorCode.NONE


@dataclass(slots=True)
class Result:
    """See the module. `disconnect`: break the connection to the coordinator, its requests are abandoned."""

    sends: list[Send] = field(default_factory=list)
    changes: list[Assigned | Revoked | Lost] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)
    committed: list[Committed] = field(default_factory=list)
    polled: Polled | None = None
    disconnect: bool = False
    closed: bool = False

"""Events of a member: calls of its application, responses from the network, and deadlines that have passed.

Duties of the shell: for each `Send`, deliver one `Received`, one `Failed` (the connection broke, or `send.timeout_ms`
has passed) or one `Unsupported`. If a step has abandoned the `Send` (`send.abandoned`), drop its response.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from coordinatord.testing.member.assignors.java_hash import TopicPartition
from coordinatord.testing.member.send import Send


@dataclass(slots=True)
class Poll:
    """Poll of the application; `Result.polled` is set when the poll returns, at the latest after `timeout_ms`."""

    timeout_ms: int


@dataclass(slots=True)
class Wakeup:
    """End of the current poll, without records, or of the wait for a synchronous commit."""


@dataclass(slots=True)
class Received:
    """Response to `send` (a message of kafka_wire.api). For Metadata it may be a `Cluster` shared by members."""

    send: Send
    response: Any


@dataclass(slots=True)
class Failed:
    """Failure of `send` without a response: the connection has failed, or the timeout has passed."""

    send: Send


@dataclass(slots=True)
class Unsupported:
    """`send` cannot be sent: the broker has no version of it with all required fields. `what` is a
    sentence for humans.
    """

    send: Send
    what: str


@dataclass(slots=True)
class Woken:
    """Timer: `next_deadline_ms` has passed."""


@dataclass(slots=True)
class Subscribe:
    """Replacement of the subscription with these topics, in effect from the next poll.

    `pattern`, without topics: all topics that this regular expression of RE2 matches. The coordinator resolves the
    expression; it needs the consumer protocol (KIP-848).
    """

    topics: Iterable[str]
    pattern: str | None = None


@dataclass(slots=True)
class Commit:
    """Commit of offsets, by default the consumed ones. `Result.committed` reports the result with this event.

    `timeout_ms`: as commitSync, which retries until the timeout and reads the network in the meantime; None: as
    commitAsync, which tries once.
    """

    offsets: Mapping[TopicPartition, int] | None = None
    timeout_ms: int | None = None


@dataclass(slots=True)
class Seek:
    """New position of an owned partition; `earliest` and `latest` are looked up at the next poll."""

    partition: TopicPartition
    offset: int | str


@dataclass(slots=True)
class Pause:
    """Stop fetching these owned partitions and returning their records."""

    partitions: Iterable[TopicPartition]


@dataclass(slots=True)
class Resume:
    """End of `Pause` for these partitions."""

    partitions: Iterable[TopicPartition]


@dataclass(slots=True)
class Rejoin:
    """Rejoin at the next poll, with this reason (enforceRebalance; KIP-568, KIP-800)."""

    reason: str = "rebalance enforced by user"


@dataclass(slots=True)
class Close:
    """Close of the consumer: commit the consumed offsets (with auto-commit), leave the group and stop. `Result.closed`
    is set at the end.

    `leave` None: the default, by which dynamic members leave and static ones do not (KIP-345, KIP-1092).
    """

    timeout_ms: int = 30_000
    leave: bool | None = None


Event = (
    Poll
    | Wakeup
    | Received
    | Failed
    | Unsupported
    | Woken
    | Subscribe
    | Commit
    | Seek
    | Pause
    | Resume
    | Rejoin
    | Close
)

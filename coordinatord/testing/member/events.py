"""The events of a member: calls of its application, responses from the network, and deadlines that have passed.

The shell's duties: it answers each `Send` with one `Received`, one `Failed` (the connection broke, or
`send.timeout_ms` has passed) or one `Unsupported`, unless the step abandoned it (`send.abandoned`); then the shell
drops the response.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from coordinatord.testing.member.assignors.java_hash import TopicPartition
from coordinatord.testing.member.send import Send


@dataclass(slots=True)
class Poll:
    """The application polls; `Result.polled` says when the poll returns, at the latest after `timeout_ms`."""

    timeout_ms: int


@dataclass(slots=True)
class Wakeup:
    """The current poll must return now, without records; a commit that is waited for is waited for no longer."""


@dataclass(slots=True)
class Received:
    """The response to `send` (a message of kafka_wire.api). For Metadata it may be a `Cluster` shared by members."""

    send: Send
    response: Any


@dataclass(slots=True)
class Failed:
    """`send` gets no response: the connection has failed, or the time is up."""

    send: Send


@dataclass(slots=True)
class Unsupported:
    """`send` cannot be sent: the broker has no version of it that says all it must. `what` is a sentence for humans."""

    send: Send
    what: str


@dataclass(slots=True)
class Woken:
    """`next_deadline_ms` has passed."""


@dataclass(slots=True)
class Subscribe:
    """Replace the subscription with these topics; takes effect at the next poll.

    `pattern`, without topics: all topics that this regular expression of RE2 matches. The coordinator resolves it; it
    needs the consumer protocol (KIP-848).
    """

    topics: Iterable[str]
    pattern: str | None = None


@dataclass(slots=True)
class Commit:
    """Commit offsets, by default the consumed ones. `Result.committed` reports the result with this event.

    `timeout_ms`: like commitSync, which retries for that long and reads the network meanwhile; None: like commitAsync,
    which tries once.
    """

    offsets: Mapping[TopicPartition, int] | None = None
    timeout_ms: int | None = None


@dataclass(slots=True)
class Seek:
    """Continue an owned partition at `offset`; `earliest` and `latest` are looked up at the next poll."""

    partition: TopicPartition
    offset: int | str


@dataclass(slots=True)
class Pause:
    """Fetch no more from these owned partitions, and return none of their records."""

    partitions: Iterable[TopicPartition]


@dataclass(slots=True)
class Resume:
    """Undo `Pause` for these partitions."""

    partitions: Iterable[TopicPartition]


@dataclass(slots=True)
class Rejoin:
    """enforceRebalance: rejoin at the next poll, with this reason (KIP-568, KIP-800)."""

    reason: str = "rebalance enforced by user"


@dataclass(slots=True)
class Close:
    """Commit the consumed offsets (with auto-commit), leave the group and stop; `Result.closed` says when.

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

"""What can happen to a member: what its application calls, what the network brings, and that time has passed.

The shell's duties towards the network: each `Send` is followed by one `Received` or one `Failed` (its connection broke,
or `send.timeout_ms` has passed), unless the step abandoned it (`send.abandoned`); then the shell drops the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from coordinatord.member.assignors.java_hash import TopicPartition
from coordinatord.member.send import Send


@dataclass(slots=True)
class Poll:
    """The application polls; `Result.polled` tells when that returns, at the latest after `timeout_ms`."""

    timeout_ms: int


@dataclass(slots=True)
class Wakeup:
    """The poll under way shall return now, empty-handed."""


@dataclass(slots=True)
class Received:
    """The answer to `send` (a message of kafka_wire.api). For Metadata it may be a `Cluster`, made once for all."""

    send: Send
    response: Any


@dataclass(slots=True)
class Failed:
    """`send` will not be answered: the connection is gone, or no answer came in time."""

    send: Send


@dataclass(slots=True)
class Woken:
    """`next_deadline_ms` has come."""


@dataclass(slots=True)
class Subscribe:
    """From now on the member reads these topics; takes effect at the next poll."""

    topics: Iterable[str]


@dataclass(slots=True)
class Commit:
    """Commit offsets, those consumed unless given. `Result.committed` tells the outcome under this event.

    `timeout_ms`: as commitSync, which tries again for that long and reads the network while it does; None: as
    commitAsync, which tries once.
    """

    offsets: Mapping[TopicPartition, int] | None = None
    timeout_ms: int | None = None


@dataclass(slots=True)
class Seek:
    """Go on reading a partition of ours at `offset`; `earliest` and `latest` are asked for at the next poll."""

    partition: TopicPartition
    offset: int | str


@dataclass(slots=True)
class Pause:
    """Fetch no more from these partitions of ours, and hand nothing out."""

    partitions: Iterable[TopicPartition]


@dataclass(slots=True)
class Resume:
    """Go on with them."""

    partitions: Iterable[TopicPartition]


@dataclass(slots=True)
class Rejoin:
    """enforceRebalance: join again at the next poll, giving this reason (KIP-568, KIP-800)."""

    reason: str = "rebalance enforced by user"


@dataclass(slots=True)
class Close:
    """Commit what was consumed (with auto-commit), leave the group and stop; `Result.closed` tells when.

    `leave` None: as the default, dynamic members leave and static ones do not (KIP-345, KIP-1092).
    """

    timeout_ms: int = 30_000
    leave: bool | None = None


Event = Poll | Wakeup | Received | Failed | Woken | Subscribe | Commit | Seek | Pause | Resume | Rejoin | Close

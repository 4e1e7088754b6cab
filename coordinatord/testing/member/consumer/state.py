"""States of a member of the consumer protocol, and the state of its membership: Kafka's MemberState (clients).

| state           | the member                                                              | heartbeats          |
|-----------------|-------------------------------------------------------------------------|---------------------|
| UNSUBSCRIBED    | is in no group                                                          | none                |
| JOINING         | requests to join, with member epoch 0                                   | one at once         |
| RECONCILING     | has a target other than its partitions; the next poll reconciles them   | at the interval     |
| ACKNOWLEDGING   | owns its target assignment, and has to acknowledge it                   | one at once         |
| STABLE          | has acknowledged it                                                     | at the interval     |
| FENCED          | is out of the group; the next poll gives up all, then it joins again    | none                |
| PREPARE_LEAVING | gives up its partitions to leave                                        | –                   |
| LEAVING         | sends the heartbeat of a leave                                          | one at once         |
| STALE           | left since the application does not poll; the next poll joins again     | none                |
| FATAL           | was rejected; the application has to create a new consumer              | none                |

PREPARE_LEAVING and LEAVING end in the step in which they begin. The other states last until a response or a poll.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from coordinatord.testing.member.send import Send

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
LEAVING_FOR_NOW_EPOCH: Final = -2
"""Member epoch for the temporary leave of a static member: it keeps its partitions until its session ends."""


class MemberState(Enum):
    """State of a membership; see the module's docstring."""

    UNSUBSCRIBED = "UNSUBSCRIBED"
    JOINING = "JOINING"
    RECONCILING = "RECONCILING"
    ACKNOWLEDGING = "ACKNOWLEDGING"
    STABLE = "STABLE"
    FENCED = "FENCED"
    PREPARE_LEAVING = "PREPARE_LEAVING"
    LEAVING = "LEAVING"
    STALE = "STALE"
    FATAL = "FATAL"


UNSUBSCRIBED = MemberState.UNSUBSCRIBED
JOINING = MemberState.JOINING
RECONCILING = MemberState.RECONCILING
ACKNOWLEDGING = MemberState.ACKNOWLEDGING
STABLE = MemberState.STABLE
FENCED = MemberState.FENCED
PREPARE_LEAVING = MemberState.PREPARE_LEAVING
LEAVING = MemberState.LEAVING
STALE = MemberState.STALE
FATAL = MemberState.FATAL

PREVIOUS_STATES: Final[dict[MemberState, frozenset[MemberState]]] = {
    STABLE: frozenset({JOINING, ACKNOWLEDGING, RECONCILING}),
    RECONCILING: frozenset({STABLE, JOINING, ACKNOWLEDGING, RECONCILING}),
    ACKNOWLEDGING: frozenset({RECONCILING}),
    FATAL: frozenset({JOINING, STABLE, RECONCILING, ACKNOWLEDGING, PREPARE_LEAVING, LEAVING, UNSUBSCRIBED}),
    FENCED: frozenset({JOINING, STABLE, RECONCILING, ACKNOWLEDGING, PREPARE_LEAVING, LEAVING}),
    JOINING: frozenset({FENCED, UNSUBSCRIBED, STALE}),
    PREPARE_LEAVING: frozenset({JOINING, STABLE, RECONCILING, ACKNOWLEDGING, UNSUBSCRIBED}),
    LEAVING: frozenset({PREPARE_LEAVING}),
    UNSUBSCRIBED: frozenset({PREPARE_LEAVING, LEAVING, FENCED}),
    STALE: frozenset({LEAVING}),
}
"""Valid previous states of each state: Kafka's previousValidStates."""

SILENT: Final = frozenset({UNSUBSCRIBED, FENCED, STALE, FATAL})
"""States in which the member is in no group: it sends no heartbeats, and ignores responses to earlier ones."""


class LocalAssignment(NamedTuple):
    """Partitions by topic id. `number` counts the assignments from the coordinator: the same partitions assigned again
    after others are another assignment, and are acknowledged again.
    """

    number: int
    partitions: Mapping[bytes, frozenset[int]]

    def followed_by(self, partitions: Mapping[bytes, frozenset[int]]) -> LocalAssignment:
        """Return the next assignment; this one if it has the same partitions."""
        if self.number >= 0 and self.partitions == partitions:
            return self
        return LocalAssignment(self.number + 1, partitions)


NO_ASSIGNMENT: Final = LocalAssignment(-1, {})


@dataclass(slots=True)
class Said:
    """Fields in the last heartbeats. A heartbeat omits fields that have not changed since; None: the field was not
    sent.
    """

    rebalance_timeout_ms: int | None = None
    topics: frozenset[str] | None = None
    pattern: str | None = None
    assignor: str | None = None
    assignment: LocalAssignment | None = None


@dataclass(slots=True, eq=False)
class Membership:
    """Membership of one member in its group. Times are milliseconds of the member's clock.

    `lives` is the number of times that the member has joined or left: a response to a heartbeat of an earlier life is
    ignored. (Kafka's client handles such responses, too.)
    """

    member_id: str
    state: MemberState = UNSUBSCRIBED
    epoch: int = JOINING_EPOCH
    lives: int = 0
    wants_in: bool = False  # subscribed since the last poll
    pattern: str | None = None  # a regular expression, which the coordinator resolves
    target: LocalAssignment = NO_ASSIGNMENT
    current: LocalAssignment = NO_ASSIGNMENT  # the assignment that the member has reconciled
    reconciling: LocalAssignment | None = None  # the commit before the reconciliation is in progress
    names: dict[bytes, str] = field(default_factory=dict)  # names of topics of the assignment, by id
    said: Said = field(default_factory=Said)
    has_said_pattern: bool = False
    loses: bool = False  # out of the group: the next poll gives up all partitions as lost

    interval_ms: int = 0  # the coordinator's; 0 before its first response
    due_ms: int = 0  # time of the next heartbeat
    retry_ms: int = 0  # no heartbeat before this time
    attempts: int = 0  # failures since the last response
    in_flight: Send | None = None

    def say_all_again(self) -> None:
        """Reset `said`, since the coordinator's state is unknown. The absence of a regular expression is sent, too, if
        the member ever had one. (Kafka's client omits it, and so keeps topics that it has unsubscribed from.)
        """
        self.said = Said(pattern="" if self.has_said_pattern else None)

    @property
    def claimed(self) -> dict[bytes, frozenset[int]]:
        """Partitions that the member reports as owned: also those of its target that it has not taken yet.

        Otherwise, if the coordinator revokes such partitions at that moment, it would treat them as free and assign
        them to another member, while this one takes them. (Kafka's client omits them.)
        """
        claimed = dict(self.current.partitions)
        if self.state in (RECONCILING, ACKNOWLEDGING):
            for topic_id, partitions in self.target.partitions.items():
                claimed[topic_id] = claimed.get(topic_id, frozenset()) | partitions
        return claimed

    @property
    def is_settled(self) -> bool:
        """True if the member owns its target assignment and has acknowledged it."""
        return self.state is STABLE and self.current == self.target


def new_member_id(random: Callable[[], float]) -> str:
    """Return a random UUID in the notation of Kafka's clients: 22 characters of base64, the first
    of which is no dash.
    """
    bits = b"".join(int(random() * (1 << 32)).to_bytes(4, "big") for _ in range(4))
    made = bytearray(bits)
    made[6] = made[6] & 0x0F | 0x40
    made[8] = made[8] & 0x3F | 0x80
    written = base64.urlsafe_b64encode(made).rstrip(b"=").decode()
    return "_" + written[1:] if written.startswith("-") else written

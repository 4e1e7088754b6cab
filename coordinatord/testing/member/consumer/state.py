"""The states of a member of the consumer protocol, and what it knows of its membership: Kafka's MemberState (clients).

| state           | the member                                                              | heartbeats          |
|-----------------|-------------------------------------------------------------------------|---------------------|
| UNSUBSCRIBED    | is in no group                                                          | none                |
| JOINING         | asks to be taken in, with epoch 0                                       | one at once         |
| RECONCILING     | was told other partitions than it owns; the next poll gives up and gets | at the interval     |
| ACKNOWLEDGING   | owns what it was told, and has to say so                                | one at once         |
| STABLE          | has said so                                                             | at the interval     |
| FENCED          | is out of the group; the next poll gives up all, then it joins again    | none                |
| PREPARE_LEAVING | gives up its partitions to leave                                        | –                   |
| LEAVING         | says that it leaves                                                     | one at once         |
| STALE           | left since the application does not poll; the next poll joins again     | none                |
| FATAL           | was refused; the application has to make a new consumer                 | none                |

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
"""Of a static member that will be back: it keeps its partitions until its session ends."""


class MemberState(Enum):
    """See the module's docstring."""

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
"""Kafka's previousValidStates."""

SILENT: Final = frozenset({UNSUBSCRIBED, FENCED, STALE, FATAL})
"""The member is in no group: it sends no heartbeats, and looks at no responses to earlier ones."""

IN_GROUP: Final = frozenset({RECONCILING, ACKNOWLEDGING, STABLE})


class LocalAssignment(NamedTuple):
    """Partitions by topic id. `number` counts the assignments that the member was told: the same partitions told again
    after others are another assignment, and are acknowledged again.
    """

    number: int
    partitions: Mapping[bytes, frozenset[int]]

    def followed_by(self, partitions: Mapping[bytes, frozenset[int]]) -> LocalAssignment:
        """The next assignment; this one if it is the same."""
        if self.number >= 0 and self.partitions == partitions:
            return self
        return LocalAssignment(self.number + 1, partitions)


NO_ASSIGNMENT: Final = LocalAssignment(-1, {})


@dataclass(slots=True)
class Said:
    """What the coordinator has been told. A heartbeat leaves out what has not changed since; None: it was not told."""

    rebalance_timeout_ms: int | None = None
    topics: frozenset[str] | None = None
    pattern: str | None = None
    assignor: str | None = None
    assignment: LocalAssignment | None = None


@dataclass(slots=True, eq=False)
class Membership:
    """One member's place in its group. Times are milliseconds of the member's clock.

    `lives` counts how often the member has joined or left: a response to a heartbeat of an earlier life says nothing
    about this one. (Kafka's client looks at such responses, too.)
    """

    member_id: str
    state: MemberState = UNSUBSCRIBED
    epoch: int = JOINING_EPOCH
    lives: int = 0
    wants_in: bool = False  # subscribed since the last poll
    pattern: str | None = None  # a regular expression, which the coordinator resolves
    target: LocalAssignment = NO_ASSIGNMENT
    current: LocalAssignment = NO_ASSIGNMENT  # what the member has reconciled itself with
    reconciling: LocalAssignment | None = None  # the commit before it is under way
    names: dict[bytes, str] = field(default_factory=dict)  # of topics of the assignment
    said: Said = field(default_factory=Said)
    has_said_pattern: bool = False
    loses: bool = False  # out of the group: the next poll gives up all partitions as lost

    interval_ms: int = 0  # the coordinator's; unknown before its first response
    due_ms: int = 0  # when the next heartbeat is
    retry_ms: int = 0  # no heartbeat before this time
    attempts: int = 0  # failed since the last response
    in_flight: Send | None = None

    def say_all_again(self) -> None:
        """It is not known what the coordinator knows. That there is no regular expression any more is said, too, if
        there ever was one. (Kafka's client leaves it out, and so keeps topics that it has unsubscribed from.)
        """
        self.said = Said(pattern="" if self.has_said_pattern else None)

    @property
    def claimed(self) -> dict[bytes, frozenset[int]]:
        """The partitions that the member says it owns: also those that it was told to take and has not taken yet.

        Otherwise the coordinator, if it wants them back just now, would take it that they are free, and give them to
        another member, while this one takes them. (Kafka's client leaves them out.)
        """
        claimed = dict(self.current.partitions)
        if self.state in (RECONCILING, ACKNOWLEDGING):
            for topic_id, partitions in self.target.partitions.items():
                claimed[topic_id] = claimed.get(topic_id, frozenset()) | partitions
        return claimed

    @property
    def is_settled(self) -> bool:
        """Whether the member owns what it was told, and has said so."""
        return self.state is STABLE and self.current == self.target


def new_member_id(random: Callable[[], float]) -> str:
    """A random UUID as Kafka's clients write it: 22 characters of base64, the first of which is no dash."""
    bits = b"".join(int(random() * (1 << 32)).to_bytes(4, "big") for _ in range(4))
    made = bytearray(bits)
    made[6] = made[6] & 0x0F | 0x40
    made[8] = made[8] & 0x3F | 0x80
    written = base64.urlsafe_b64encode(made).rstrip(b"=").decode()
    return "_" + written[1:] if written.startswith("-") else written

"""The result of one step: records to log, responses to send once these records are durable, timers to set.

`reply` is the response to the event's own request; None means that the request is parked, or that the event is not a
request. `replies` are responses to requests that earlier steps have parked. `dropped` are parked requests that never
get a response, as in Kafka. A member drops its parked request when it repeats the request on another connection, or
when it leaves.

`changes` and `trigger` are for the rebalance ledger. `changes` are the members that joined or were dropped, each with
its cause; `trigger` is the cause of the rebalance. The shell adds the time. `ended` are the accounts of completed group
epochs (consumer/epoch_record.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from coordinatord.coordination.group.states import AnyState
from kafka_wire.records.offsets import OffsetCommitKey, OffsetCommitValue

SESSION = "session"
JOIN = "join"
SYNC = "sync"

NO_REASON = "not provided"
"""Reason in the ledger if the client gave none (KIP-800)."""

MAX_REASON = 255
"""Maximum characters kept of a client's reason: as many as Kafka's own clients send (KIP-800)."""


class TimerKey(NamedTuple):
    """The key of a timer, unique across all groups. `kind` is SESSION, of the member `member_id`, or JOIN or SYNC, of
    the group.
    """

    group_id: str
    kind: str
    member_id: str = ""


class Schedule(NamedTuple):
    """Instruction to set a timer: the shell passes `TimedOut(key)` to a step at `deadline_ms` or soon after. It
    replaces an earlier timer of this key.
    """

    key: TimerKey
    deadline_ms: int


class Cancel(NamedTuple):
    """Instruction to cancel a timer. If its `TimedOut` is on its way already, the step ignores it."""

    key: TimerKey


class Transition(NamedTuple):
    """A change of the group's state. `generation_id` is the generation, or a consumer or share group's epoch, after
    it.
    """

    group_id: str
    old: AnyState
    new: AnyState
    generation_id: int
    reason: str


class Joined(NamedTuple):
    """An accepted JoinGroup of a member that takes part in a rebalance. `reason` is the client's own (KIP-800)."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    reason: str
    is_new: bool


class Dropped(NamedTuple):
    """The removal of a member, or of a pending id, from the group. `cause` is one of Cause."""

    member_id: str
    group_instance_id: str | None
    cause: str


class Trigger(NamedTuple):
    """The cause of a rebalance. `kind` is one of Why, `reason` the client's own (KIP-800)."""

    kind: str
    text: str  # for humans: names members
    member_id: str = ""  # "" for none or several
    reason: str = NO_REASON


Record = tuple[Any, Any]
"""A key message of `kafka_wire.records` and its value message; None for a tombstone."""

Offsets = tuple[str, list[tuple[int, OffsetCommitValue]]]
"""A topic, and its partitions with the offsets committed."""


@dataclass(slots=True, init=False)
class Result:
    """The result of a step; the module's docstring explains the fields. Some results are shared constants: the shell
    must not change a result.
    """

    reply: Any
    records: list[Record]
    offsets: list[Offsets]  # further records, without keys: a commit may have thousands
    producer: tuple[int, int] | None  # (producer id, epoch): the records are part of its transaction
    replies: list[tuple[Any, Any]]
    dropped: list[Any]
    timers: list[Schedule | Cancel]
    transitions: list[Transition]
    changes: list[Joined | Dropped]
    trigger: Trigger | None  # of the rebalance that began in this step
    ended: tuple[Any, ...]
    asked_by: Any  # the `reply_to` of the event itself: `reply` is its response if this step completes it

    def __init__(self, reply: Any = None, *, timers: list[Schedule | Cancel] | None = None, asked_by: Any = None):
        # Written by hand because each commit creates a Result: this takes half the time of default factories.
        self.reply = reply
        self.records = []
        self.offsets = []
        self.producer = None
        self.replies = []
        self.dropped = []
        self.timers = [] if timers is None else timers
        self.transitions = []
        self.changes = []
        self.trigger = None
        self.ended = ()
        self.asked_by = asked_by

    def answer(self, reply_to: Any, response: Any) -> None:
        """Add the response to a request: to the event's own (`reply`), or to a parked one (`replies`)."""
        if reply_to is not None and reply_to == self.asked_by:
            self.reply = response
        else:
            self.replies.append((reply_to, response))

    def all_records(self, group_id: str) -> list[Record]:
        """Return `records` and then `offsets` as records: the order in which they are logged."""
        offsets = [
            (OffsetCommitKey(group_id, topic, partition), value)
            for topic, values in self.offsets
            for partition, value in values
        ]
        return self.records + offsets


NOTHING = Result()
"""The result of an event that changes nothing."""

"""The window of a share partition, and the state of each record in it.

    start_offset                        end_offset
    |  batch   |  batch       | batch   |            records that no member had yet
    ACQUIRED    runs of states  AVAILABLE

Records below the start offset are done: acknowledged, archived, or gone from the log. Batches are sorted and do not
overlap. Between two batches may be offsets that the log does not have; after a restart also records that were in
delivery, and whose state was never persisted: the gap window says where these may be.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from enum import Enum, IntEnum
from operator import attrgetter
from typing import NamedTuple

from coordinatord.coordination.share.persister import StateBatch

NO_MEMBER = ""
"""The member of a record that is not acquired."""


class RecordState(IntEnum):
    """The state of a record, with the number that the persisted state has for it."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3  # its dead letter is being written (KIP-1191)
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """True if the record is never delivered again."""
        return self is RecordState.ACKNOWLEDGED or self is RecordState.ARCHIVED


class Status(Enum):
    """The state of a share partition as a whole."""

    EMPTY = "empty"
    INITIALIZING = "initializing"
    ACTIVE = "active"
    FAILED = "failed"
    FENCED = "fenced"


class Limits(NamedTuple):
    """The group's settings; Kafka's defaults. Durations are in ms. `dead_letters`: the group has a queue of them."""

    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    partition_max_record_locks: int = 2_000
    renew_acknowledge_enable: bool = True
    dead_letters: bool = False


class GapWindow:
    """Offsets from `start` to `end` that may contain records which were in delivery before a restart. It applies as
    long as `end` is the end offset of the share partition.
    """

    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end


class InFlightState:
    """The state of neighbouring records. `deadline_ms` is the end of the acquisition lock, None without one. `before`
    is (state, member) to return to if the current state cannot be persisted, None when it is.
    """

    __slots__ = ("before", "deadline_ms", "delivery_count", "is_final", "later", "member_id", "state")

    def __init__(
        self, state: RecordState, delivery_count: int, member_id: str = NO_MEMBER, deadline_ms: int | None = None
    ) -> None:
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.deadline_ms = deadline_ms
        self.before: tuple[RecordState, str] | None = None
        #: archived, whatever becomes of a write in progress
        self.is_final = False
        #: set if the records were divided during a change: the first offset of the later ones, and their state
        self.later: tuple[int, InFlightState] | None = None

    @property
    def is_acquirable(self) -> bool:
        """True if a member can acquire the record."""
        return self.state is RecordState.AVAILABLE and self.before is None

    def acquire(self, member_id: str, deadline_ms: int) -> None:
        """Give an acquirable record to a member."""
        self.state = RecordState.ACQUIRED
        self.delivery_count += 1
        self.member_id = member_id
        self.deadline_ms = deadline_ms

    def change(self, state: RecordState, limits: Limits) -> bool:
        """Take an acquired record from its member. A record that would be available beyond its delivery limit is
        archived, after its dead letter if the group has a queue of them. Return False if the record is not acquired.
        """
        if self.state is not RecordState.ACQUIRED or self.before is not None:
            return False
        if state is RecordState.AVAILABLE and self.delivery_count >= limits.delivery_count_limit:
            state = RecordState.ARCHIVING if limits.dead_letters else RecordState.ARCHIVED
        self.state = state
        self.member_id = NO_MEMBER
        return True

    def begin(self, state: RecordState, limits: Limits) -> bool:
        """Change the state as `change` does, until `complete` ends or reverts it."""
        before = (self.state, self.member_id)
        if not self.change(state, limits):
            return False
        self.before = before
        return True

    def complete(self, *, committed: bool, delivery_count_limit: int, now_ms: int) -> None:
        """End a change: keep it if it was persisted, revert it otherwise. A record whose lock has timed out meanwhile
        is available again.
        """
        before = self.before
        self.before = None
        if committed or self.is_final or before is None:
            self.deadline_ms = None
        elif self.deadline_ms is not None and self.deadline_ms <= now_ms:
            spent = self.delivery_count >= delivery_count_limit
            self.state = RecordState.ARCHIVED if spent else RecordState.AVAILABLE
            self.member_id = NO_MEMBER
            self.deadline_ms = None
        else:
            self.state, self.member_id = before

    def archive(self) -> None:
        """Archive a record that is gone, whether or not a write is in progress."""
        self.is_final = True
        self.state = RecordState.ARCHIVED
        self.member_id = NO_MEMBER
        self.deadline_ms = None

    def copy(self) -> InFlightState:
        """Return the same state, without a change in progress."""
        return InFlightState(self.state, self.delivery_count, self.member_id, self.deadline_ms)

    def divided(self, offset: int) -> InFlightState:
        """Return the state of the records from `offset` on, which equals this one; a change goes on in both."""
        later = self.copy()
        later.is_final = self.is_final
        if self.before is not None:
            later.before = self.before
            later.later = self.later
            self.later = offset, later
        return later

    def parts(self, first: int, last: int) -> Iterator[Run]:
        """Return the states of the records `first` to `last`, which had this one when a change of them began."""
        part = self
        while part.later is not None:
            offset, later = part.later
            part.later = None
            yield first, offset - 1, part
            first, part = offset, later
        yield first, last, part


Run = tuple[int, int, InFlightState]
"""First and last offset of records that have one state together."""


class InFlightBatch:
    """Offsets `first` to `last`: either all have the state `whole`, or the batch is split into runs of offsets that
    have a state together. `_firsts` has the first offsets of the runs, `_states` their states.
    """

    __slots__ = ("_firsts", "_states", "first", "last", "whole")

    def __init__(self, first: int, last: int, whole: InFlightState) -> None:
        self.first = first
        self.last = last
        self.whole: InFlightState | None = whole
        self._firsts: list[int] = []
        self._states: list[InFlightState] = []

    @property
    def count(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1

    def split(self) -> None:
        """Let records have different states."""
        if self.whole is not None:
            self._firsts, self._states = [self.first], [self.whole.copy()]
            self.whole = None

    def cut(self, offset: int) -> None:
        """Let the records from `offset` on have another state than those before; in a batch that is split."""
        if not self.first < offset <= self.last:
            return
        at = bisect_right(self._firsts, offset)
        if self._firsts[at - 1] < offset:
            self._firsts.insert(at, offset)
            self._states.insert(at, self._states[at - 1].divided(offset))

    def between(self, first: int, last: int) -> list[Run]:
        """Return the runs of the offsets from `first` to `last`, of a batch that is split: the ends of the first and
        the last run may belong to larger ones.
        """
        first, last = max(first, self.first), min(last, self.last)
        if first > last:
            return []
        begin, end = bisect_right(self._firsts, first) - 1, bisect_right(self._firsts, last)
        firsts = [first, *self._firsts[begin + 1 : end]]
        lasts = [*[each - 1 for each in firsts[1:]], last]
        return list(zip(firsts, lasts, self._states[begin:end], strict=True))

    def cut_out(self, first: int, last: int) -> list[Run]:
        """Return the runs of the offsets from `first` to `last`, and only of them, of a batch that is split."""
        self.cut(first)
        self.cut(last + 1)
        firsts = self._firsts
        at = bisect_right(firsts, first)
        if self.first <= first <= last <= self.last and (at == len(firsts) or firsts[at] > last):
            return [(first, last, self._states[at - 1])]  # the usual case: clients acknowledge record by record
        return self.between(first, last)

    def at(self, offset: int) -> InFlightState:
        """Return the state of one offset of the batch."""
        return self.whole or self._states[bisect_right(self._firsts, offset) - 1]

    def is_within(self, first: int, last: int) -> bool:
        """Return whether all offsets are in the range from `first` to `last`."""
        return self.first >= first and self.last <= last

    def states(self) -> list[Run]:
        """Return all states with their offsets."""
        return self.between(self.first, self.last) if self.whole is None else [(self.first, self.last, self.whole)]


Pending = list[tuple[InFlightState, StateBatch]]
"""Changes that a write is to persist."""


class DeadLetters(NamedTuple):
    """The dead letters of the records `first` to `last`: a member has rejected them, or they are at their limit."""

    first: int
    last: int
    delivery_count: int
    is_rejected: bool


class Writing(NamedTuple):
    """A write in progress: the changes to revert if it fails, and the dead letters that are due when it has ended. The
    end of a lock is not reverted.
    """

    pending: Pending
    letters: Sequence[DeadLetters]


_first = attrgetter("first")


class SharePartition:
    """The records of one partition for one share group. `limits` may be replaced between two steps."""

    __slots__ = (
        "batches", "deadline_ms", "delivery_complete_count", "end_offset", "gap", "limits", "may_have_available",
        "next_write_id", "start_offset", "state_epoch", "status", "writes",
    )  # fmt: skip

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.status = Status.EMPTY
        self.start_offset = 0
        self.end_offset = 0
        self.state_epoch = 0
        self.batches: list[InFlightBatch] = []
        self.gap: GapWindow | None = None
        #: terminal records from the start offset on: the lag is without them
        self.delivery_complete_count = 0
        #: False if no record of the window can be acquired
        self.may_have_available = False
        #: no lock times out before
        self.deadline_ms: int | None = None
        #: by id
        self.writes: dict[int, Writing] = {}
        self.next_write_id = 0

    @property
    def in_flight_count(self) -> int:
        """The number of offsets in the window."""
        return self.end_offset - self.start_offset + 1 if self.batches else 0

    @property
    def has_gaps(self) -> bool:
        """True if offsets between batches may be records that were in delivery before a restart."""
        return self.gap is not None and self.gap.end == self.end_offset

    def floor(self, offset: int) -> InFlightBatch | None:
        """Return the last batch that begins at or before `offset`."""
        at = bisect_right(self.batches, offset, key=_first)
        return self.batches[at - 1] if at else None

    def from_to(self, first: int, last: int) -> list[InFlightBatch]:
        """Return the batches that begin at an offset from `first` to `last`."""
        batches = self.batches
        return batches[bisect_left(batches, first, key=_first) : bisect_right(batches, last, key=_first)]

    def put(self, batch: InFlightBatch) -> None:
        """Insert a batch at its place."""
        batches = self.batches
        if not batches or batches[-1].first < batch.first:
            batches.append(batch)
        else:
            batches.insert(bisect_left(batches, batch.first, key=_first), batch)

    def in_window(self, first: int, last: int) -> int:
        """Return the number of the offsets from `first` to `last` that are not below the start offset."""
        return max(0, last - max(self.start_offset, first) + 1)

    def lock(self, now_ms: int) -> int:
        """Return the end of a lock that begins now, in ms."""
        deadline_ms = now_ms + self.limits.record_lock_duration_ms
        if self.deadline_ms is None or deadline_ms < self.deadline_ms:
            self.deadline_ms = deadline_ms
        return deadline_ms

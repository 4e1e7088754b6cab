"""What is decided about a transactional id: row by row, every event in every state, and random histories.

Where a row is about an error, Kafka's TransactionCoordinator has been read for it; those that clients can bring about
are compared with a real broker in coordinatord/testing/conform/stories/transactions_*.txt.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from coordinatord.coordination.transactions import events
from coordinatord.coordination.transactions.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    MAX_EPOCH,
    NEXT_STATES,
    ONGOING,
    PREPARE_ABORT,
    TransactionState,
)
from coordinatord.coordination.transactions.steps import HANDLERS, verify
from kafka_wire.errors import ErrorCode
from tests.coordination.transactions.ids import P0, P1, TIMEOUT_MS, World

CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
STATE = ErrorCode.INVALID_TXN_STATE
LAST = MAX_EPOCH - 1  # the last epoch that a client gets

# InitProducerId


def test_the_first_producer_gets_epoch_0_and_each_after_it_the_next() -> None:
    world = World()
    assert world.init() == (0, 1, 0)
    assert world.init() == (0, 1, 1)
    world.add()
    world.end()
    world.markers()
    assert world.init() == (0, 1, 2)


@pytest.mark.parametrize(
    ("timeout_ms", "error"), [(0, 50), (-1, 50), (1, 0), (900_000, 0), (900_001, 50), (2**31 - 1, 50)]
)
def test_the_timeout_has_bounds(timeout_ms: int, error: int) -> None:
    world = World()
    assert world.init(timeout_ms=timeout_ms)[0] == error
    assert world.txn.exists == (not error)


def test_a_new_producer_aborts_what_the_last_one_left_open() -> None:
    world = World().ongoing()
    assert world.init() == (CONCURRENT, -1, -1)
    assert world.txn.state is PREPARE_ABORT
    assert world.results[-1].markers is not None
    assert not world.results[-1].markers.committed
    assert world.init() == (CONCURRENT, -1, -1)
    assert world.add(producer=(1, 0)) == CONCURRENT
    assert world.markers() is None
    assert world.add(producer=(1, 0)) == FENCED  # the epoch that nobody has
    assert world.init() == (0, 1, 2)


def test_a_producer_that_says_what_it_has_goes_on_with_the_next_epoch() -> None:
    world = World().empty()
    assert world.init(1, 0) == (0, 1, 1)
    assert world.init(1, 0) == (0, 1, 1)  # the answer got lost
    assert world.init(1, 1) == (0, 1, 2)
    assert world.init(1, 0) == (FENCED, -1, -1)
    assert world.init(7, 2) == (FENCED, -1, -1)
    world.init()
    assert world.init(1, 2) == (FENCED, -1, -1)  # another one has come


def test_after_a_restart_a_lost_answer_cannot_be_had_again() -> None:
    world = World().empty()
    world.init(1, 0)
    world.restart()
    assert world.init(1, 0) == (FENCED, -1, -1)


def test_of_an_id_that_is_not_known_anything_may_be_said() -> None:
    assert World().init(5, 3) == (0, 1, 0)


def test_where_epochs_end_there_is_a_new_producer_id() -> None:
    world = World().at_epoch(LAST)
    assert world.init() == (0, 2, 0)
    world = World().at_epoch(LAST)
    assert world.init(1, LAST) == (0, 2, 0)
    assert world.init(1, LAST) == (0, 2, 0)  # asked again, with the old id
    assert world.init(2, 0) == (0, 2, 1)
    world = World().at_epoch(LAST)
    assert world.init(1, 5) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1, -1)


# Partitions


def test_partitions_begin_a_transaction_and_join_it() -> None:
    world = World().empty()
    world.now_ms += 5
    assert world.add(P0) == 0
    assert (world.txn.state, world.txn.start_ms) == (ONGOING, world.now_ms)
    records = len(world.log)
    world.now_ms += 5
    assert world.add(P0) == 0
    assert len(world.log) == records
    assert world.add(P1, P0) == 0
    assert list(world.txn.partitions) == [P0, P1]
    assert world.txn.start_ms == world.now_ms - 5
    assert world.txn.deadline_ms == world.txn.start_ms + TIMEOUT_MS


@pytest.mark.parametrize(
    ("producer", "error"), [((1, 0), 0), ((1, 1), FENCED), ((1, -1), FENCED), ((2, 0), MAPPING), ((2, 1), MAPPING)]
)
def test_only_the_producer_adds_partitions(producer: tuple[int, int], error: int) -> None:
    world = World().empty()
    assert world.add(producer=producer) == error
    assert World().add(producer=producer) == MAPPING  # nobody was initialised
    prepared = World().prepared()
    assert prepared.add(producer=producer) == CONCURRENT


def test_who_takes_part() -> None:
    world = World().ongoing()
    assert verify(world.txn, 1, 0, [P0, P1]) == {P1: ErrorCode.TRANSACTION_ABORTABLE}
    assert verify(world.txn, 1, 1, [P0]) == {P0: FENCED}
    assert verify(world.txn, 2, 0, [P0]) == {P0: MAPPING}
    assert verify(None, 1, 0, [P0]) == {P0: MAPPING}
    world.end()
    assert verify(world.txn, 1, 0, [P0]) == {P0: CONCURRENT}
    world.markers()
    assert verify(world.txn, 1, 0, [P0]) == {P0: ErrorCode.TRANSACTION_ABORTABLE}


# EndTxn

V1_TABLE: list[tuple[Callable[[], World], bool, int | None]] = [
    (lambda: World().empty(), True, STATE),
    (lambda: World().empty(), False, STATE),
    (lambda: World().ongoing(), True, None),
    (lambda: World().ongoing(), False, None),
    (lambda: World().prepared(), True, CONCURRENT),
    (lambda: World().prepared(), False, CONCURRENT),
    (lambda: World().prepared(commit=False), True, CONCURRENT),
    (lambda: World().prepared(commit=False), False, CONCURRENT),
    (lambda: World().complete(), True, 0),
    (lambda: World().complete(), False, STATE),
    (lambda: World().complete(commit=False), True, STATE),
    (lambda: World().complete(commit=False), False, 0),
]


@pytest.mark.parametrize(("situation", "commit", "error"), V1_TABLE)
def test_ending_with_transaction_version_1(situation: Callable[[], World], commit: bool, error: int | None) -> None:
    world = situation()
    assert world.end(commit=commit, producer=(2, 0)) == (MAPPING, -1, -1)
    assert world.end(commit=commit, producer=(1, 1)) == (FENCED, -1, -1)
    assert world.end(commit=commit) == (None if error is None else (error, -1, -1))
    if error is None:
        assert world.markers() == (0, -1, -1)
        assert world.txn.state is (COMPLETE_COMMIT if commit else COMPLETE_ABORT)
        assert world.producer == (1, 0)


# Kafka's table above TransactionCoordinator.endTransaction; `again` is the epoch before, as after a lost answer.
V2_TABLE: list[tuple[str, Callable[[], World], bool, bool, int | None]] = [
    ("empty", lambda: World().empty(), False, False, None),
    ("empty", lambda: World().empty(), True, False, STATE),
    ("empty", lambda: World().empty(), False, True, FENCED),
    ("empty", lambda: World().empty(), True, True, FENCED),
    ("ongoing", lambda: World().ongoing(2), False, False, None),
    ("ongoing", lambda: World().ongoing(2), True, False, None),
    ("ongoing", lambda: World().ongoing(2), True, True, FENCED),
    ("complete abort", lambda: World().complete(commit=False, version=2), False, True, 0),
    ("complete abort", lambda: World().complete(commit=False, version=2), False, False, None),
    ("complete abort", lambda: World().complete(commit=False, version=2), True, True, STATE),
    ("complete abort", lambda: World().complete(commit=False, version=2), True, False, STATE),
    ("complete commit", lambda: World().complete(version=2), False, True, STATE),
    ("complete commit", lambda: World().complete(version=2), False, False, None),
    ("complete commit", lambda: World().complete(version=2), True, True, 0),
    ("complete commit", lambda: World().complete(version=2), True, False, STATE),
    ("prepared", lambda: World().prepared(version=2), True, True, CONCURRENT),
    ("prepared", lambda: World().prepared(version=2), True, False, CONCURRENT),
    ("prepared", lambda: World().prepared(version=2), False, True, CONCURRENT),
]


@pytest.mark.parametrize(("name", "situation", "commit", "again", "error"), V2_TABLE)
def test_ending_with_transaction_version_2(
    name: str, situation: Callable[[], World], commit: bool, again: bool, error: int | None
) -> None:
    world = situation()
    producer_id, epoch = world.producer
    reply = world.end(commit=commit, version=2, producer=(producer_id, epoch - again))
    if error is None:
        assert reply is None
        assert world.markers() == (0, producer_id, epoch + 1)
        assert world.txn.state is (COMPLETE_COMMIT if commit else COMPLETE_ABORT)
    elif error == 0:
        assert reply == (0, producer_id, epoch)
    else:
        assert reply == (error, -1, -1)


def test_with_version_2_the_markers_carry_the_next_epoch() -> None:
    world = World().prepared(version=2)
    markers = world.results[-1].markers
    assert markers is not None
    assert (markers.producer_epoch, markers.transaction_version, markers.partitions) == (1, 2, (P0,))
    world = World().prepared()
    markers = world.results[-1].markers
    assert markers is not None
    assert (markers.producer_epoch, markers.transaction_version) == (0, 0)


def test_with_version_2_a_transaction_at_the_last_epoch_ends_with_a_new_producer_id() -> None:
    world = World().at_epoch(LAST)
    world.add(version=2)
    assert world.end(version=2) is None
    assert world.txn.producer_epoch == MAX_EPOCH
    assert world.txn.next_producer_id == 2
    assert world.markers() == (0, 2, 0)
    assert world.end(version=2, producer=(1, LAST)) == (0, 2, 0)  # asked again
    assert world.end(version=2, commit=False, producer=(1, LAST)) == (STATE, -1, -1)
    assert world.end(version=2, producer=(1, 3)) == (MAPPING, -1, -1)
    assert world.txn.previous_producer_id == 1


def test_what_is_decided_is_answered_when_the_coordinator_stops() -> None:
    world = World().prepared(version=2)
    world.tell(events.Unload())
    ((_, reply),) = world.answers.items()
    assert (reply.error_code, reply.producer_id, reply.producer_epoch) == (0, 1, 1)
    world = World().at_epoch(LAST)
    world.add(version=2)
    world.end(version=2)
    world.tell(events.Unload())
    ((_, reply),) = world.answers.items()
    assert (reply.producer_id, reply.producer_epoch) == (2, 0)


# By itself


def test_a_transaction_that_is_open_for_too_long_is_aborted() -> None:
    world = World().ongoing()
    world.now_ms += TIMEOUT_MS - 1
    world.tell(events.TimedOut())
    assert world.txn.state is ONGOING
    world.now_ms += 1
    world.tell(events.TimedOut())
    assert world.txn.state is PREPARE_ABORT
    world.markers()
    assert world.producer == (1, 1)
    assert world.end(producer=(1, 0)) == (FENCED, -1, -1)
    assert world.end(producer=(1, 0), version=2, commit=False) == (0, 1, 1)


def test_an_id_expires_when_nobody_uses_it() -> None:
    week_ms = 604_800_000
    for situation in (World().empty, World().complete, lambda: World().complete(commit=False)):
        world = situation()
        world.now_ms += week_ms - 1
        world.tell(events.Expire())
        assert world.txn.exists
        world.now_ms += 1
        world.tell(events.Expire())
        assert world.txn.state is DEAD
        assert world.log[-1] is None
    for situation in (World().ongoing, World().prepared):
        world = situation()
        world.now_ms += week_ms
        world.tell(events.Expire())
        assert world.txn.exists


# Every event in every state

SITUATIONS: dict[str, Callable[[], World]] = {
    "absent": World,
    "empty": lambda: World().empty(),
    "bumped": lambda: _bumped(),
    "exhausted": lambda: World().at_epoch(LAST),
    "ongoing": lambda: World().ongoing(),
    "ongoing, version 2": lambda: World().ongoing(2),
    "prepare commit": lambda: World().prepared(),
    "prepare commit, version 2": lambda: World().prepared(version=2),
    "prepare abort": lambda: World().prepared(commit=False),
    "fenced": lambda: _fenced(),
    "complete commit": lambda: World().complete(),
    "complete commit, version 2": lambda: World().complete(version=2),
    "complete abort": lambda: World().complete(commit=False),
}


def _bumped() -> World:
    world = World().empty()
    world.init(1, 0)
    return world


def _fenced() -> World:
    world = World().ongoing()
    world.init()
    return world


def every_event(world: World) -> list[Any]:
    producer_id, epoch = world.producer
    producers = list(itertools.product((producer_id, producer_id + 1), (epoch - 1, epoch, epoch + 1)))
    made: list[Any] = [events.TimedOut(), events.MarkersWritten(), events.Expire(), events.Unload(), events.Init(0)]
    made += [events.Init(1_000, expected) for expected in [None, *producers]]
    for producer in producers:
        for version in (0, 2):
            made += [events.AddPartitions(*producer, partitions, version) for partitions in ([], [P0], [P0, P1])]
            made += [events.End(*producer, commit, "asked", version) for commit in (True, False)]
    return made


@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS)
@pytest.mark.parametrize("late_ms", [0, TIMEOUT_MS, 10**10])
def test_every_event_in_every_state(situation: Callable[[], World], late_ms: int) -> None:
    for event in every_event(situation()):
        world = situation()
        world.now_ms += late_ms
        before = (world.durable(world.txn), world.txn.last_producer_epoch)
        reply = world.tell(event)
        error = reply if isinstance(event, events.AddPartitions) else getattr(reply, "error_code", 0)
        assert ErrorCode(error) in ErrorCode
        if error:
            fences = isinstance(event, events.Init) and error == CONCURRENT and before[0][1] is ONGOING
            assert fences or (world.durable(world.txn), world.txn.last_producer_epoch) == before
        if isinstance(event, events.End) and reply is None:
            world.markers()
            assert world.answers["asked"].error_code == 0


def test_every_kind_of_event_is_among_them() -> None:
    assert {type(event) for event in every_event(World().empty())} == set(HANDLERS)


def test_every_transition_of_the_table_happens() -> None:
    seen = set()
    for situation in SITUATIONS.values():
        for event in every_event(situation()):
            world = situation()
            world.now_ms += 10**10
            world.tell(event)
            seen |= {(t.old, t.new) for result in world.results for t in result.transitions}
    assert seen == {(old, new) for old, news in NEXT_STATES.items() for new in news}
    assert {situation().txn.state for situation in SITUATIONS.values()} == set(TransactionState) - {DEAD}


def test_names_of_states_are_kafkas() -> None:
    shown = [state.shown for state in TransactionState]
    assert shown == ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"]


# Random histories


class Histories(RuleBasedStateMachine):
    """Several clients that take turns in using one id, over restarts. The world checks each step."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.clients: dict[int, tuple[int, int]] = {}
        self.owner: int | None = None
        self.decided: list[tuple[int, int, bool]] = []

    @rule(client=st.integers(0, 2))
    def initialise(self, client: int) -> None:
        error, producer_id, epoch = self.world.init()
        if not error:
            assert (producer_id, epoch) not in self.clients.values(), "two clients with one epoch"
            self.clients[client] = producer_id, epoch
            self.owner = client
        else:
            assert error == CONCURRENT

    @rule(client=st.integers(0, 2))
    def bump(self, client: int) -> None:
        if client not in self.clients:
            return
        error, producer_id, epoch = self.world.init(*self.clients[client])
        if not error:
            assert client == self.owner, "a client goes on although another one has come"
            self.clients[client] = producer_id, epoch

    @rule(client=st.integers(0, 2), partition=st.sampled_from([P0, P1]), version=st.sampled_from([0, 2]))
    def add(self, client: int, partition: tuple[str, int], version: int) -> None:
        if client not in self.clients:
            return
        error = self.world.add(partition, producer=self.clients[client], version=version)
        if not error:
            assert client == self.owner
            assert partition in self.world.txn.partitions

    @rule(client=st.integers(0, 2), commit=st.booleans(), version=st.sampled_from([0, 2]))
    def end(self, client: int, commit: bool, version: int) -> None:
        if client not in self.clients:
            return
        was_ongoing = self.world.txn.state is ONGOING
        if self.world.end(producer=self.clients[client], commit=commit, version=version) is None:
            assert client == self.owner
            assert was_ongoing or (version == 2 and not commit)

    @rule()
    def markers(self) -> None:
        reply = self.world.markers()
        if reply is not None and reply[1] >= 0 and self.owner is not None:
            self.clients[self.owner] = reply[1], reply[2]

    @rule(by_ms=st.sampled_from([1, TIMEOUT_MS, 10**9]))
    def time_passes(self, by_ms: int) -> None:
        self.world.now_ms += by_ms
        self.world.tell(events.TimedOut())

    @rule()
    def expires(self) -> None:
        self.world.tell(events.Expire())
        if not self.world.txn.exists:
            self.world.txn = self.world.new()
            self.clients.clear()
            self.owner = None

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @invariant()
    def epochs_are_ahead_of_clients(self) -> None:
        txn = self.world.txn
        for producer_id, epoch in self.clients.values():
            assert producer_id < txn.producer_id or epoch <= txn.producer_epoch or not txn.exists


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)

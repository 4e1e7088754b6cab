"""Tables of a share partition's states, events and errors."""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.coordination.share.partition import events
from coordinatord.coordination.share.partition.state import Status
from coordinatord.coordination.share.partition.window import can_acquire, next_fetch_offset
from coordinatord.coordination.share.persister import StateBatch
from kafka_wire.errors import ErrorCode
from tests.coordination.share.world import ACCEPT, GAP, REJECT, RELEASE, RENEW, World

AFTER_WRITE = {GAP: "x", ACCEPT: "k", RELEASE: ".", REJECT: "x"}


@pytest.mark.parametrize("type_", AFTER_WRITE)
@pytest.mark.parametrize("committed", [True, False])
def test_an_acknowledgement_changes_one_record(type_: int, *, committed: bool) -> None:
    world = World()
    assert world.acquire((0, 4)) == [(0, 4, 1)]
    result = world.acknowledge((2, 2, type_))
    assert result.error == ErrorCode.NONE
    world.done(result, committed=committed)
    assert world.shown == f"0:qq{AFTER_WRITE[type_] if committed else 'q'}qq"


@pytest.mark.parametrize(("types", "shown"), [
    ((ACCEPT,), "5:"), ((REJECT,), "5:"), ((GAP,), "5:"), ((RELEASE,), "0:....."),
    ((1, 1, 2, 3, 0), "2:kk.xx"), ((1, 2, 3, 4, 1), "1:k.xqk"),
])  # fmt: skip
def test_a_batch_is_acknowledged(types: tuple[int, ...], shown: str) -> None:
    world = World()
    world.acquire((0, 4))
    world.done(world.acknowledge((0, 4, types)))
    assert world.shown == shown


WRONG = [
    ("another member's batch", [(0, 4, ACCEPT)], "other", ErrorCode.INVALID_RECORD_STATE),
    ("another member's record", [(2, 2, ACCEPT)], "other", ErrorCode.INVALID_RECORD_STATE),
    ("behind the window", [(9, 12, ACCEPT)], "m", ErrorCode.INVALID_REQUEST),
    ("beyond the window", [(3, 12, ACCEPT)], "m", ErrorCode.INVALID_REQUEST),
    ("a type that does not exist", [(0, 4, 5)], "m", ErrorCode.INVALID_REQUEST),
    ("a negative type", [(0, 4, -1)], "m", ErrorCode.INVALID_REQUEST),
    ("one wrong type of several", [(0, 4, (1, 1, 9, 1, 1))], "m", ErrorCode.INVALID_REQUEST),
    ("the same records twice", [(0, 4, ACCEPT), (0, 4, ACCEPT)], "m", ErrorCode.INVALID_RECORD_STATE),
    ("overlapping batches", [(0, 2, ACCEPT), (2, 4, ACCEPT)], "m", ErrorCode.INVALID_RECORD_STATE),
    ("the second batch", [(0, 2, RELEASE), (3, 99, ACCEPT)], "m", ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(("batches", "member", "error"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_wrong_acknowledgements_change_nothing(batches: list[Any], member: str, error: ErrorCode) -> None:
    world = World()
    world.acquire((0, 4))
    result = world.acknowledge(*batches, member=member)
    assert (result.error, result.write) == (error, None)
    assert world.shown == "0:qqqqq"
    world.done(world.acknowledge((0, 4, ACCEPT)))
    assert world.shown == "5:"


def test_records_below_the_start_offset_are_acknowledged_without_effect() -> None:
    world = World()
    world.acquire((0, 4))
    world.done(world.acknowledge((0, 4, ACCEPT)))
    result = world.acknowledge((0, 4, ACCEPT))
    assert (result.error, result.write) == (ErrorCode.NONE, None)


def test_acknowledged_twice_is_an_error_until_and_after_the_write() -> None:
    world = World()
    world.acquire((0, 4))
    world.acquire((5, 9), member="other")
    result = world.acknowledge((2, 2, ACCEPT))
    assert world.acknowledge((2, 2, ACCEPT)).error == ErrorCode.INVALID_RECORD_STATE
    world.done(result)
    assert world.acknowledge((2, 2, ACCEPT)).error == ErrorCode.INVALID_RECORD_STATE
    assert world.shown == "0:qqkqqqqqqq"


def test_a_record_at_its_delivery_limit_is_archived() -> None:
    world = World(delivery_count_limit=2)
    for count in (1, 2):
        assert world.acquire((0, 0)) == [(0, 0, count)]
        world.done(world.acknowledge((0, 0, RELEASE)))
    assert world.shown == "1:"


def test_a_lock_times_out_and_renew_extends_it() -> None:
    world = World(record_lock_duration_ms=100)
    world.acquire((0, 1))
    world.after(60)
    assert world.acknowledge((1, 1, RENEW)).write is None
    result = world.after(40)
    assert world.shown == "0:.q"
    assert result.wakes
    assert result.write is not None
    assert result.write.batches == (StateBatch(0, 0, 0, 1),)
    world.after(59)
    assert world.shown == "0:.q"
    world.after(1)
    assert world.shown == "0:.."
    assert world.partition.deadline_ms is None


def test_renew_needs_the_groups_consent() -> None:
    world = World(renew_acknowledge_enable=False)
    world.acquire((0, 1))
    assert world.acknowledge((0, 1, RENEW)).error == ErrorCode.INVALID_RECORD_STATE


def test_a_lock_that_times_out_during_a_write_ends_when_the_write_fails() -> None:
    world = World(record_lock_duration_ms=100)
    world.acquire((0, 0))
    result = world.acknowledge((0, 0, ACCEPT))
    world.after(100)
    assert world.shown == "0:K"
    assert world.done(result, committed=False).wakes
    assert world.shown == "0:."


def test_a_released_record_waits_for_its_write() -> None:
    world = World()
    world.acquire((0, 0))
    result = world.tell(events.Release("m"))
    assert world.acquire((0, 0), member="other") == []
    assert world.done(result).wakes
    assert world.acquire((0, 0), member="other") == [(0, 0, 2)]


def test_a_release_leaves_other_members_alone() -> None:
    world = World()
    world.acquire((0, 1))
    world.acquire((2, 3), member="other")
    world.done(world.tell(events.Release("m")))
    assert world.shown == "0:..qq"


# Acquisition


def test_batch_optimized_takes_whole_record_batches() -> None:
    world = World()
    assert world.acquire((0, 9), (10, 19), most=3) == [(0, 9, 1)]
    assert world.shown == "0:" + "q" * 10


def test_record_limit_takes_no_more_than_asked() -> None:
    world = World()
    assert world.acquire((0, 9), (10, 19), most=3, limit=True) == [(0, 2, 1)]
    assert world.shown == "0:qqq" + "." * 7
    assert world.acquire((0, 9), (10, 19), most=4, limit=True) == [(3, 6, 1)]


def test_batch_size_divides_acquired_records_at_record_batches() -> None:
    world = World()
    assert world.acquire((0, 2), (3, 4), (5, 9), size=4) == [(0, 4, 1), (5, 9, 1)]
    assert World().acquire((0, 2), (3, 4), size=0) == [(0, 2, 1), (3, 4, 1)]


def test_the_window_has_a_limit() -> None:
    world = World(partition_max_record_locks=10)
    world.acquire((0, 3), (4, 7), (8, 11))
    assert world.shown == "0:" + "q" * 12
    assert not can_acquire(world.partition)
    world.done(world.acknowledge((5, 5, RELEASE)))
    assert can_acquire(world.partition)
    assert world.acquire((4, 7), (8, 11), (12, 99)) == [(5, 5, 2)]
    assert not can_acquire(world.partition)


def test_records_of_aborted_transactions_are_archived() -> None:
    world = World()
    assert world.acquire((0, 2), (3, 5), (6, 6), aborted=((3, 5),)) == [(0, 2, 1), (6, 6, 1)]
    assert world.shown == "0:qqqxxxq"
    world.done(world.acknowledge((0, 2, ACCEPT), (6, 6, GAP)))
    assert world.shown == "7:"


def test_available_records_that_compaction_removed_are_archived() -> None:
    world = World()
    world.acquire((0, 2), (3, 5))
    world.done(world.acknowledge((0, 5, RELEASE)))
    assert world.acquire((3, 5)) == [(3, 5, 2)]
    assert world.shown == "0:xxxqqq"


def test_a_record_that_compaction_removed_stays_archived_when_its_release_fails() -> None:
    world = World()
    world.acquire((0, 2))
    world.acquire((3, 5), member="other")
    world.done(world.acknowledge((0, 2, RELEASE)))
    result = world.acknowledge((3, 5, RELEASE), member="other")
    assert world.acquire((6, 7)) == [(6, 7, 1)]
    world.done(result, committed=False)
    assert world.shown == "0:xxxxxxqq"


def test_the_logs_start_moves() -> None:
    world = World(record_lock_duration_ms=100)
    world.acquire((0, 9))
    world.done(world.acknowledge((0, 2, ACCEPT), (5, 5, RELEASE)))
    world.tell(events.MoveLogStart(6))
    assert world.shown == "6:kkkqqxqqqq"
    assert world.acknowledge((3, 4, ACCEPT)).error == ErrorCode.NONE
    world.after(100)
    assert world.shown == "6:kkkxxx...."


def test_only_records_from_the_start_offset_on_are_acknowledged() -> None:
    world = World()
    world.acquire((0, 1), (2, 4), size=2)
    world.done(world.acknowledge((0, 1, RELEASE)))
    world.tell(events.MoveLogStart(3))
    result = world.acknowledge((0, 4, ACCEPT))
    assert result.write is not None
    assert result.write.batches == (StateBatch(3, 4, 2, 1),)


def test_neighbours_whose_change_is_reverted_may_have_been_divided_meanwhile() -> None:
    world = World()
    world.acquire((0, 9))
    world.done(world.acknowledge((0, 0, ACCEPT)))
    released = world.acknowledge((1, 9, RELEASE))
    assert released.write is not None
    assert released.write.batches == (StateBatch(1, 9, 0, 1),)
    world.tell(events.MoveLogStart(3))
    world.tell(events.MoveLogStart(5))
    assert world.shown == "5:kXXXX....."
    world.done(released, committed=False)
    assert world.shown == "5:kxxxxqqqqq"


def test_the_logs_start_moves_behind_the_window() -> None:
    world = World(record_lock_duration_ms=100)
    world.acquire((0, 4))
    world.tell(events.MoveLogStart(20))
    assert next_fetch_offset(world.partition) == 20
    result = world.after(100)
    world.done(result)
    assert (world.shown, next_fetch_offset(world.partition)) == ("20:", 20)


def test_suspected_records_are_delivered_in_ever_smaller_numbers_and_last_alone() -> None:
    world = World(delivery_count_limit=5)
    numbers = []
    for _ in range(6):
        acquired = world.acquire((0, 15))
        numbers.append(sum(last - first + 1 for first, last, _ in acquired))
        world.done(world.tell(events.Release("m")))
    assert numbers[:5] == [16, 16, 16, 8, 1]


# Restarts


def test_the_persisted_state_is_loaded() -> None:
    world = World(5, (StateBatch(5, 6, 2, 1), StateBatch(7, 8, 0, 2), StateBatch(9, 9, 4, 1)))
    assert world.shown == "7:..x"
    assert world.acquire((5, 9), (10, 12)) == [(7, 8, 3), (10, 12, 1)]


def test_records_in_delivery_before_a_restart_are_in_gaps() -> None:
    world = World(5, (StateBatch(8, 9, 2, 1), StateBatch(12, 12, 2, 1)))
    assert next_fetch_offset(world.partition) == 5
    assert world.acquire((5, 14)) == [(5, 7, 1), (10, 11, 1), (13, 14, 1)]
    world.done(world.acknowledge((5, 7, ACCEPT)))
    assert world.partition.start_offset == 10


@pytest.mark.parametrize("batches", [
    (StateBatch(4, 6, 0, 1),), (StateBatch(8, 7, 0, 1),), (StateBatch(5, 9, 0, 1), StateBatch(8, 12, 0, 1)),
    (StateBatch(5, 9, 7, 1),),
])  # fmt: skip
def test_a_persisted_state_that_contradicts_itself_fails(batches: tuple[StateBatch, ...]) -> None:
    world = World(5, batches)
    assert world.partition.status is Status.FAILED
    assert world.acquire((5, 9)) == []
